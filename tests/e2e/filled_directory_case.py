"""A cache directory that is filled once, of which each test damages a copy, and checks of what is served from it."""

import os
import shutil
import struct

from support import (NOISE, ServerCase, fresh_directory, fresh_path, quarantined, segments, timings, words)

COMPLETION = "/v1/completions"
PROMPT_TOKENS = 32  # as many as the first segment of a prompt has at most
PROMPTS = 23
QUARANTINE_HOLDS = 8


def tokens_of(path):
    """The token ids in a segment file's header."""
    with open(path, "rb") as file:
        data = file.read()
    count, parts = struct.unpack_from("<II", data, 120)
    return list(struct.unpack_from(f"<{count}I", data, 256 + 48 * parts))


def flip(path, at, keep_time=False):
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x10]))
    if keep_time:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


class FilledDirectoryCase(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.filled = fresh_directory()
        cls.truth = {}
        with cls._make(cls._class_logs, ["--kv-disk-dir", cls.filled], {}) as server:
            vocabulary = server.tokenize(words(400, 1))
            # Prompts that share nothing, not even their first token: one file each.
            prompts = ([1000 + number] + vocabulary[number:number + PROMPT_TOKENS - 1] for number in range(200))
            while len(cls.truth) < PROMPTS:
                ids = next(prompts)
                if cls.is_clear(server, ids):
                    cls.truth[tuple(ids)] = cls.ask(server, ids)["choices"][0]["text"]
            server.stop()

    @classmethod
    def is_clear(cls, server, ids):
        """Is the reply's token so much the likeliest that noise cannot tip it?"""
        fields = {"cache_prompt": False, "return_tokens": True}
        [token] = cls.ask(server, ids, **fields)["tokens"]
        return cls.ask(server, ids, **fields, logit_bias={str(token): -NOISE})["tokens"] == [token]

    @staticmethod
    def ask(server, ids, **fields):
        return server.post(COMPLETION, {"prompt": list(ids), "max_tokens": 1, "temperature": 0, **fields})

    def copy(self):
        """A directory of its own, and the segment file of each prompt in it, in the order of self.truth."""
        directory = fresh_path("kv")
        shutil.copytree(self.filled, directory, symlinks=True)
        by_tokens = {tuple(tokens_of(path)): path for path in segments(directory)}
        self.assertEqual(set(by_tokens), set(self.truth))
        return directory, [by_tokens[ids] for ids in self.truth]

    def start_on(self, directory, *flags):
        return self.server("--restore", "always", "--kv-disk-dir", directory, *flags)

    def check(self, server, damaged):
        """All answers are right; the damaged prompts (by number) were misses, the others came from disk."""
        for number, (ids, text) in enumerate(self.truth.items()):
            reply = self.ask(server, ids)
            self.assertEqual(reply["choices"][0]["text"], text, f"prompt {number}")
            expected = 0 if number in damaged else PROMPT_TOKENS - 1
            self.assertEqual(timings(reply)["cache_n"], expected, f"prompt {number}")
            self.assertEqual(timings(reply)["cache_source"], "none" if number in damaged else "disk-token")

    def check_healed(self, server):
        """Segments that were prefilled again were written again: after a restart nothing is missing."""
        self.assertEqual(server.stop(), 0)
        server.start()
        self.check(server, damaged=())

    def check_damaged_at_start(self, directory, damaged):
        server = self.start_on(directory)
        self.assertIn(f"{len(damaged)} damaged", server.log())
        self.assertEqual(len(quarantined(directory)), min(QUARANTINE_HOLDS, len(damaged)))
        self.check(server, damaged)
        self.check_healed(server)
