"""The workload "screenshots": a conversation of twelve turns, a new picture of half a megapixel in every second one, all
earlier ones sent again; the server is killed after six; a second session has the same pictures, and a branch leaves in the
middle. No picture is encoded twice, and hardly anything is computed twice.

KVKEEP_LLAMA_SERVER, if it is set, plays the same beside it, and the figures are printed.
"""

import base64
import os
import random
import struct
import time
import zlib

import support
from media_test import KINDS, MOST_AFTER_A_POINT, SEES_THROUGH, MediaCase, png_chunk
from support import assistant, fresh_directory, main, model, reply_text, system, timings, user, words

WIDTH, HEIGHT = 832, 608
TURNS = 12
KILLED_AFTER = 6
CONTEXT = ("-c", "16384", "-np", "1")


def screenshot(seed):
    """Half a megapixel that does not compress well."""
    generator = random.Random(seed)
    rows = b"".join(b"\0" + generator.randbytes(3 * WIDTH) for _ in range(HEIGHT))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
            + png_chunk(b"IDAT", zlib.compress(rows, 1)) + png_chunk(b"IEND", b""))


def question(turn, pictures):
    parts = [{"type": "text", "text": words(30, turn)}]
    if turn % 2 == 0:
        url = "data:image/png;base64," + base64.b64encode(pictures[turn // 2]).decode()
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {"role": "user", "content": parts}


class Play:
    """One conversation: what was computed, and what had never been."""

    def __init__(self):
        self.messages = [system(words(120, 1))]
        self.computed = self.new = self.known = 0
        self.seconds = []

    def turn(self, server, message):
        self.messages.append(message)
        begin = time.monotonic()
        reply = server.post("/v1/chat/completions", {"messages": self.messages, "max_tokens": 12, "temperature": 0})
        self.seconds.append(time.monotonic() - begin)
        usage = reply["usage"]
        self.computed += timings(reply)["prompt_n"]
        self.new += usage["prompt_tokens"] - self.known
        # The last token of a reply is sampled and not computed.
        self.known = usage["prompt_tokens"] + usage["completion_tokens"] - 1
        self.messages.append(assistant(reply_text(reply)))
        return reply


class Screenshots(MediaCase):
    def check(self, kind, most):
        pictures = [screenshot(seed) for seed in range(TURNS // 2)]
        disk = ("--metrics", "--kv-disk-dir", fresh_directory(), *CONTEXT)
        server = self.start(kind, *disk)
        encoded = 0
        play = Play()
        for turn in range(TURNS):
            if turn == KILLED_AFTER:
                self.play_second(server, pictures)
                encoded += self.encoded_files(server)
                server.kill()
                server = self.start(kind, *disk)
            play.turn(server, question(turn, pictures))
        branch = play.messages[:12]
        left = server.post("/v1/chat/completions", {"messages": [*branch, user(words(30, 200))], "max_tokens": 4, "temperature": 0})
        encoded += self.encoded_files(server)
        ratio = play.computed / play.new
        print(f"\n{kind}: {encoded} encoded of {len(pictures)}; {play.computed} computed of {play.new} new: {ratio:.3f}; "
              f"{sum(play.seconds):.2f} s; branch computed {timings(left)['prompt_n']}", flush=True)
        self.assertEqual(encoded, len(pictures), "each once")
        self.assertLessEqual(ratio, most)
        self.assertLessEqual(timings(left)["cache_break"]["lost_tokens"], MOST_AFTER_A_POINT)
        self.assertLess(timings(left)["prompt_n"], 30 + 20 + MOST_AFTER_A_POINT, "its words, and the template's")
        self.beside(kind, pictures)

    def play_second(self, server, pictures):
        """Another session: the same pictures after other words."""
        second = Play()
        for turn in range(KILLED_AFTER):
            message = question(turn, pictures)
            message["content"][0]["text"] = words(30, 100 + turn)
            second.turn(server, message)

    def beside(self, kind, pictures):
        program = os.environ.get("KVKEEP_LLAMA_SERVER")
        if not program:
            return
        command = [program, "-m", model(*KINDS[kind]), "--mmproj", model("--mmproj", *KINDS[SEES_THROUGH.get(kind, kind)]), *CONTEXT, "--no-webui"]
        theirs = self.enterContext(support.ServerProcess(command))
        play = Play()
        for turn in range(TURNS):
            play.turn(theirs, question(turn, pictures))
        print(f"{kind}, llama-server without a kill: {play.computed} computed of {play.new} new: {play.computed / play.new:.3f}; "
              f"{sum(play.seconds):.2f} s", flush=True)

    def test_of_a_model_that_sees_them_at_once(self):
        self.check("gemma3", 1.02)

    def test_in_a_plane(self):
        self.check("qwen3vl", 1.02)

    def test_of_a_hybrid_model(self):
        self.check("qwen35", 1.05)

    def test_of_a_recurrent_model(self):
        self.check("mamba2", 1.05)

    def test_of_an_opaque_model(self):
        self.check("deepseek4", 1.05)


if __name__ == "__main__":
    main()
