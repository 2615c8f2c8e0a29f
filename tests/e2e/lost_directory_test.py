"""Other hands remove a running server's cache directory, or put another in its place: answers stay right, what is
stored from then on is there after a restart, and the budget holds for what lies there now."""

import concurrent.futures
import os
import shutil
import time

from filled_directory_case import PROMPT_TOKENS, FilledDirectoryCase
from support import files_under, fresh_path, main, model, physical_bytes, segments, timings, wait_until


class LostDirectory(FilledDirectoryCase):
    def answers_right(self, server, numbers=None):
        """Asks for all prompts, or those of these numbers. Returns what was reused of each."""
        prompts = list(self.truth.items())
        reused = []
        for ids, text in prompts if numbers is None else [prompts[number] for number in numbers]:
            reply = self.ask(server, ids)
            self.assertEqual(reply["choices"][0]["text"], text)
            reused.append(timings(reply)["cache_n"])
        return reused

    def check_stored_again(self, server, directory, lost=()):
        """After a restart everything comes from disk but the prompts of these numbers, which only memory had."""
        expected = len(self.truth) - len(lost)
        wait_until(lambda: len(segments(directory)) >= expected, "what was prefilled again is stored")
        self.assertTrue(os.path.exists(os.path.join(directory, "lock")))
        self.assertEqual(server.stop(), 0)
        server.start()
        reused = self.answers_right(server)
        self.assertEqual([number for number, count in enumerate(reused) if count != PROMPT_TOKENS - 1], list(lost))

    def test_removed(self):
        directory, _ = self.copy()
        server = self.start_on(directory)
        self.answers_right(server, [0])
        shutil.rmtree(directory)
        reused = self.answers_right(server)
        self.assertGreater(reused[0], 0, "gone from disk, but not from memory")
        self.assertTrue(wait_until(lambda: [path for path in files_under(directory) if path.endswith("/model.json")],
                                   "its model is told again"))
        wait_until(lambda: "were removed by another program" in server.log(), "a line says so")
        self.assertEqual(sum(reused[1:]), 0)
        self.check_stored_again(server, directory, lost=[0])

    def test_the_part_of_the_model_removed(self):
        directory, paths = self.copy()
        server = self.start_on(directory)
        shutil.rmtree(os.path.dirname(paths[0]))
        self.assertEqual(sum(self.answers_right(server)), 0)
        self.check_stored_again(server, directory)

    def test_moved_away(self):
        directory, _ = self.copy()
        server = self.start_on(directory)
        os.rename(directory, directory + ".away")
        self.assertEqual(sum(self.answers_right(server)), 0)
        self.check_stored_again(server, directory)
        self.assertEqual(len(segments(directory + ".away")), len(self.truth), "what was moved away is left alone")

    def test_replaced_by_an_equal_one(self):
        directory, _ = self.copy()
        server = self.start_on(directory)
        os.rename(directory, directory + ".away")
        shutil.copytree(directory + ".away", directory)
        # Its files may be of another model's server, until this one has entered it anew.
        self.assertLessEqual(set(self.answers_right(server)), {0, PROMPT_TOKENS - 1})
        wait_until(lambda: self.answers_right(server, [-1]) == [PROMPT_TOKENS - 1], "it is used again")
        self.ask(server, [2000, *list(self.truth)[0]])
        self.check_stored_again(server, directory)

    def test_replaced_by_one_that_is_full(self):
        directory, _ = self.copy()
        full = fresh_path("full")
        budget = ["--kv-disk-space-mb", 2]
        with self._make(self._logs, ["--kv-disk-dir", full, *budget], {"model_path": model("--seed", "9")}) as other:
            for number in range(60):
                self.ask(other, [number] * 300)
            other.stop()
        self.assertGreater(physical_bytes(full), 3 << 19)
        server = self.start_on(directory, *budget)
        os.rename(directory, directory + ".away")
        os.rename(full, directory)
        for number in range(20):
            self.answers_right(server)
            self.ask(server, [3000 + number] * 300)
            self.assertLessEqual(physical_bytes(directory), 2 << 20)
        self.assertEqual(server.stop(), 0)
        self.assertLessEqual(physical_bytes(directory), 2 << 20)
        server.start()
        reply = self.ask(server, [3019] * 300)
        self.assertEqual(timings(reply)["cache_source"], "disk-token", "there was room for the latest")

    def test_removed_again_and_again_under_load(self):
        directory, paths = self.copy()
        server = self.start_on(directory, "--cache-ram", 0)
        deadline = time.monotonic() + 3

        def ask_on(first):
            while time.monotonic() < deadline:
                self.answers_right(server, range(first, len(self.truth), 3))

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            clients = [pool.submit(ask_on, first) for first in range(3)]
            for victim in (directory, os.path.dirname(paths[0])) * 8:
                shutil.rmtree(victim, ignore_errors=True)
                time.sleep(0.15)
            for client in clients:
                client.result(timeout=60)
        self.ask(server, [2000, *list(self.truth)[0]])
        wait_until(lambda: segments(directory), "it is stored")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.answers_right(server)


if __name__ == "__main__":
    main()
