"""State is used only with the model file that computed it: not after one row of an embedding was edited, and again after
the file was touched, copied or moved."""

import contextlib
import os
import shutil
import signal
import threading
import unittest

from gguf_writer import tensor_extent
from support import (ServerProcess, fresh_directory, fresh_path, main, model, run_program, segments, serve_command,
                     timings, wait_until, words)

PROMPT = words(300, seed=5)
SAME = "the model's file is the one that wrote the state"
REMOVED = "another model file computed that state"
ROW_BYTES = 128 // 32 * 34  # of an embedding of 128 values in Q8_0


class ModelFiles(unittest.TestCase):
    # The embedding of a small vocabulary is hashed as a whole before the start, of a large one samples are.
    LARGE_BYTES = 4 << 30
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
        wait_until(lambda: os.path.exists(os.path.join(directory, "model-hashes")), "the file is read", limit_s=600)
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
        """A server neither uses nor removes the state of a living one of the other file, whoever comes first."""
        for store_first in (True, False):
            with self.subTest(store_first=store_first):
                path, directory = self.copy_of(self.LARGE), fresh_directory()
                edited = self.copy_of(self.LARGE, "edited.gguf")
                self.edit_row(edited)
                first = self.server(path, directory)
                if store_first:
                    self.cached(first)
                    wait_until(lambda: segments(directory), "the prompt is stored")
                second = self.server(edited, directory)
                self.assertEqual(self.cached(second), 0)
                wait_until(lambda: "servers of another model file use" in second.log(), "a line says so")
                self.assertEqual(bool(segments(directory)), store_first)
                self.assertEqual(self.cached(first) > 290, store_first)
                wait_until(lambda: segments(directory), "the prompt is stored")
                self.assertEqual(first.stop(), 0)
                wait_until(lambda: REMOVED in second.log(), "nobody uses it any more")

    def test_removal_beside_a_server(self):
        """What a server stores after its state was removed is still its own."""
        path, directory = self.copy_of(self.SMALL), fresh_directory()
        server = self.server(path, directory)
        self.cached(server)
        wait_until(lambda: segments(directory), "the prompt is stored")
        full = self.disk_bytes(server)
        fingerprint = os.path.basename(os.path.dirname(next(iter(segments(directory)))))
        removed = run_program("cache", "rm", "-y", "--model", fingerprint, "--kv-disk-dir", directory)
        self.assertEqual((removed.returncode, segments(directory)), (0, []), removed.stderr)
        wait_until(lambda: self.disk_bytes(server) < full / 2, "the server has noticed")
        server.post("/v1/completions", {"prompt": words(300, seed=6), "max_tokens": 2})
        wait_until(lambda: segments(directory), "the other prompt is stored")
        self.assertEqual(server.stop(), 0)
        again = self.server(path, directory)
        reply = again.post("/v1/completions", {"prompt": words(300, seed=6), "max_tokens": 2})
        self.assertGreater(timings(reply)["cache_n"], 290, again.log())

    def touched_large_copy(self, directory):
        """A model that takes eight seconds and more to read, and whose state lies in the directory."""
        path = self.copy_of(self.SMALL)
        os.truncate(path, self.LARGE_BYTES)  # a hole
        self.fill(path, directory)
        os.utime(path)
        return path

    def test_large_files_are_read_next_to_serving(self):
        directory = fresh_directory()
        path = self.touched_large_copy(directory)
        with self.subTest("stopped meanwhile"):
            stopped = self.server(path, directory)
            self.assertEqual(stopped.stop(), 0)
            self.assertNotIn("cannot read", stopped.log())
        before = segments(directory)
        with self.subTest("changed meanwhile"):
            changed = self.server(path, directory)
            os.truncate(path, self.LARGE_BYTES + 1)
            wait_until(lambda: "changed after it was loaded" in changed.log(), "a line says so", limit_s=600)
            self.assertEqual(self.cached(changed), 0)
            self.assertEqual(changed.stop(), 0)
            self.assertEqual(segments(directory), before)
        os.truncate(path, self.LARGE_BYTES)
        server = self.server(path, directory)
        reply = server.post("/v1/completions", {"prompt": words(300, seed=6), "max_tokens": 2})
        self.assertEqual(timings(reply)["cache_n"], 0)
        wait_until(lambda: SAME in server.log(), "the file is known again", limit_s=600)
        wait_until(lambda: self.disk_bytes(server) > 20_000, "what is there is found")
        self.assertGreater(self.cached(server), 290)
        wait_until(lambda: len(segments(directory)) > len(before), "what was computed meanwhile is stored")

    def test_a_stop_ends_the_reading_before_serving(self):
        path = self.copy_of(self.SMALL)
        os.truncate(path, 64 << 30)
        server = ServerProcess(serve_command("--share", "dir:" + fresh_directory(), "-lm", "none", model_path=path))
        self.addCleanup(server.close)

        def start():
            with contextlib.suppress(RuntimeError):
                server.start()

        starting = threading.Thread(target=start)
        starting.start()
        wait_until(lambda: "reading all of" in server.log(), "it reads", limit_s=60)
        server.process.send_signal(signal.SIGTERM)
        starting.join()
        self.assertIn("reading the model's files was stopped", server.log())


if __name__ == "__main__":
    main()
