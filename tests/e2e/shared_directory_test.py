"""Several servers on one cache directory: what one computed the others take from disk, the budget holds for all of them
together, and when the one that keeps it is killed another takes its place."""

import os

from support import (ServerCase, fresh_directory, main, model, physical_bytes, segments, timings, user, wait_until,
                     words)

COMPLETION = "/v1/completions"
KEEPS_NOW = "keeps the budget of the directory now"
ANOTHER_KEEPS = "another server keeps the budget"
FLAGS = ["--restore", "always", "--replay", "canonical", "--no-prefill-ahead"]


class SharedDirectory(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.plain = cls.class_server("--cache-ram", 0)

    def pair(self, *flags, second_model=None):
        directory = fresh_directory()
        first = self.server("--kv-disk-dir", directory, *FLAGS, *flags)
        second = self.server("--kv-disk-dir", directory, *FLAGS, *flags,
                             **({"model_path": second_model} if second_model else {}))
        self.assertNotIn(ANOTHER_KEEPS, first.log())
        self.assertIn(ANOTHER_KEEPS, second.log())
        return directory, first, second

    @staticmethod
    def complete(server, text):
        return server.post(COMPLETION, {"prompt": text, "max_tokens": 4, "temperature": 0})

    def cached(self, server, text):
        return timings(self.complete(server, text))["cache_n"]

    def check_right(self, server, text):
        reply = self.complete(server, text)
        plain = self.plain.post(COMPLETION, {"prompt": text, "max_tokens": 4, "temperature": 0, "cache_prompt": False})
        self.assertEqual(reply["choices"][0]["text"], plain["choices"][0]["text"])
        return timings(reply)

    def test_state_of_one_server_is_read_by_the_other(self):
        directory, first, second = self.pair()
        of_first, of_second = (f"{number} {words(200, number)}" for number in (1, 2))
        self.complete(first, of_first)
        wait_until(lambda: self.cached(second, f"{of_first} and") > 100, "the second one finds what the first stored")
        self.complete(second, of_second)
        wait_until(lambda: self.cached(first, f"{of_second} and") > 100, "the first one finds what the second stored")
        for server in (first, second):
            for text in (of_first, of_second):
                self.assertGreater(self.check_right(server, text)["cache_n"], 100)

    def test_another_takes_the_place_of_one_that_was_killed(self):
        directory, first, second = self.pair("--kv-disk-space-mb", 2, "--cache-ram", 2)
        budget = 2 << 20
        text = f"kept {words(200, 1)}"
        self.complete(first, text)
        wait_until(lambda: len(segments(directory)) >= 2, "it is stored, its beginning and the rest")
        first.kill()
        wait_until(lambda: KEEPS_NOW in second.log(), "the second one keeps the directory")
        self.assertGreater(self.check_right(second, text)["cache_n"], 100)
        for number in range(40):
            self.complete(second, f"{number} {words(200, 100 + number)}")
            self.assertLessEqual(physical_bytes(directory), budget)
        self.assertIn("from=disk", second.log(), "it evicts")
        first.start()
        for number in range(20):
            self.complete(first, f"{number} {words(200, 200 + number)}")
            self.complete(second, f"{number} {words(200, 300 + number)}")
            self.assertLessEqual(physical_bytes(directory), budget)
        last = f"last {words(200, 7)}"
        self.complete(first, last)
        wait_until(lambda: self.cached(second, f"{last} and") > 100, "both go on")
        self.check_right(first, last)

    def test_two_models(self):
        other = model("--seed", "9")
        directory, first, second = self.pair("--kv-disk-space-mb", 2, "--cache-ram", 2, second_model=other)
        for number in range(30):
            for server in (first, second):
                self.complete(server, f"{number} {words(200, number)}")
                self.assertLessEqual(physical_bytes(directory), 2 << 20)
        text = f"29 {words(200, 29)}"
        self.check_right(first, text)
        # Each has a place of its own there, and members write as well.
        wait_until(lambda: len({os.path.dirname(path) for path in segments(directory)}) == 2, "both store")
        for server in (first, second):
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    main()
