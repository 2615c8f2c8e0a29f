"""State is used only with the model file that computed it: not after one row of an embedding was edited, and again after
the file was touched, copied or moved."""

import os
import shutil
import unittest

from gguf_writer import tensor_extent
from support import (ServerProcess, fresh_directory, fresh_path, main, model, segments, serve_command, timings,
                     wait_until, words)

PROMPT = words(300, seed=5)
SAME = "the model's file is the one that wrote the state"
REMOVED = "another model file computed that state"
ROW_BYTES = 128 // 32 * 34  # of an embedding of 128 values in Q8_0


class ModelFiles(unittest.TestCase):
    # The embedding of a small vocabulary is hashed as a whole before the start, of a large one samples are.
    SMALL, LARGE = (), ("--vocabulary", "60000")

    def copy_of(self, flags, name="model.gguf"):
        path = fresh_path(name)
        shutil.copyfile(model(*flags), path)
        return path

    def server(self, path, directory, *flags):
        return self.enterContext(ServerProcess(serve_command("--kv-disk-dir", directory, *flags, model_path=path)))

    @staticmethod
    def disk_bytes(server):
        return sum(tier["used_bytes"] for tier in server.get("/cache")["tiers"] if tier["name"] == "disk")

    def cached(self, server):
        reply = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2, "temperature": 0})
        return timings(reply)["cache_n"]

    def fill(self, path, directory):
        server = self.server(path, directory)
        self.assertEqual(self.cached(server), 0)
        wait_until(lambda: segments(directory), "the prompt is stored")
        self.assertEqual(server.stop(), 0)

    def edit_row(self, path, keep_times=False):
        """Changes a row that is in no sample: between the second and the third."""
        before = os.stat(path)
        begin, size = tensor_extent(path, "token_embd.weight")
        with open(path, "r+b") as file:
            file.seek(begin + size // 15 * 3 // 2 // ROW_BYTES * ROW_BYTES)
            row = file.read(ROW_BYTES)
            file.seek(-ROW_BYTES, os.SEEK_CUR)
            file.write(bytes(byte ^ 0x15 for byte in row))
        if keep_times:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_edited_row(self):
        for flags, keep_times in ((self.SMALL, False), (self.LARGE, False), (self.LARGE, True)):
            with self.subTest(flags=flags, keep_times=keep_times):
                path, directory = self.copy_of(flags), fresh_directory()
                self.fill(path, directory)
                self.edit_row(path, keep_times)
                server = self.server(path, directory)
                self.assertEqual(self.cached(server), 0)
                if flags == self.LARGE:
                    wait_until(lambda: REMOVED in server.log(), "the state of the other file leaves")
                # What this server computed before it knew is stored as the edited file's.
                wait_until(lambda: segments(directory), "the prompt is stored again")
                self.assertEqual(server.stop(), 0)
                again = self.server(path, directory)
                self.assertGreater(self.cached(again), 290)

    def test_touched_and_copied(self):
        for flags in (self.SMALL, self.LARGE):
            path, directory = self.copy_of(flags), fresh_directory()
            self.fill(path, directory)
            os.utime(path)
            copied = self.copy_of(flags, "copied.gguf")
            for file in (path, copied):
                with self.subTest(flags=flags, file=file):
                    server = self.server(file, directory)
                    wait_until(lambda: SAME in server.log(), "the file is known again")
                    wait_until(lambda: self.disk_bytes(server) > 20_000, "what is there is found")
                    self.assertGreater(self.cached(server), 290)
                    self.assertEqual(server.stop(), 0)
            untouched = self.server(copied, directory)
            self.assertGreater(self.cached(untouched), 290, "the file that was read needs no second reading")
            self.assertNotIn(SAME, untouched.log())

    def test_two_servers_of_files_that_differ(self):
        """A server does not remove what a living one of the other file may use."""
        path, directory = self.copy_of(self.LARGE), fresh_directory()
        edited = self.copy_of(self.LARGE, "edited.gguf")
        self.edit_row(edited)
        first = self.server(path, directory)
        self.cached(first)
        wait_until(lambda: segments(directory), "the prompt is stored")
        second = self.server(edited, directory)
        self.assertEqual(self.cached(second), 0)
        wait_until(lambda: "other servers use the directory" in second.log(), "a line says so")
        self.assertTrue(segments(directory))
        self.assertEqual(first.stop(), 0)
        wait_until(lambda: REMOVED in second.log(), "nobody uses it any more")


if __name__ == "__main__":
    main()
