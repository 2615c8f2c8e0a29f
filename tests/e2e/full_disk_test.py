"""A disk that is full, and one that becomes read-only under load: serving goes on with right answers, and storing
resumes by itself. KVKEEP_TEST_SEED repeats a run, as far as timing allows."""

import concurrent.futures
import os
import threading

import own_mounts
from support import (NOISE, ServerCase, fresh_directory, make_random, main, segments, timings, wait_until, words)

COMPLETION = "/v1/completions"
CLIENTS = 2


class TroubledDisk(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.plain = cls.class_server("--cache-ram", 0)

    def start_on(self, directory):
        return self.server("--kv-disk-dir", directory, "--kv-disk-space-mb", 64, "--restore", "always",
                           "--cache-ram", 1)

    def prompt(self, number):
        return self.plain.tokenize(f"{number} " + words(300, number))

    def check_answer(self, server, ids):
        """The cached answer is the truth's, give or take the noise of cell order. Returns the reply's timings."""
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "return_tokens": True}
        reply = server.post(COMPLETION, body)
        [token] = reply["tokens"]
        favoured = self.plain.post(COMPLETION, {**body, "cache_prompt": False, "logit_bias": {str(token): NOISE}})
        self.assertEqual(favoured["tokens"], [token])
        return timings(reply)

    def check_resumed(self, server, directory, number):
        """Prompts from now on are stored, and are there after a restart."""
        ids = self.prompt(number)

        def stored():
            before = len(segments(directory))
            self.check_answer(server, [*ids, len(segments(directory))])
            return len(segments(directory)) > before

        wait_until(stored, "storing resumes", limit_s=60)
        self.check_answer(server, ids)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(self.check_answer(server, ids)["cache_source"], "disk-token")
        self.assertNotIn("damaged", server.log())

    def fill(self, path):
        with open(path, "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(bytes(4096))

    def test_a_full_disk(self):
        directory = fresh_directory()
        with own_mounts.small_disk(directory, 4096):
            server = self.start_on(os.path.join(directory, "kv"))
            ballast = os.path.join(directory, "ballast")
            for number in range(12):
                self.check_answer(server, self.prompt(number))
                if number == 3:
                    self.fill(ballast)
                    self.assertEqual(os.statvfs(directory).f_bavail, 0)
            for number in range(12):
                self.check_answer(server, self.prompt(number))
            self.assertEqual([name for name in os.listdir(directory) if name.endswith(".tmp")], [])
            os.unlink(ballast)
            self.check_resumed(server, directory, 100)
            server.stop()

    def test_a_disk_smaller_than_the_budget(self):
        directory = fresh_directory()
        with own_mounts.small_disk(directory, 1024):
            server = self.start_on(os.path.join(directory, "kv"))
            for number in range(15):
                self.check_answer(server, self.prompt(number % 10))
            self.assertEqual(server.stop(), 0)
            server.start()
            for number in range(10):
                self.check_answer(server, self.prompt(number))
            server.stop()

    def test_read_only_under_load(self):
        directory = fresh_directory()
        choose = make_random()
        server = self.start_on(directory)
        ended = threading.Event()
        asked = [0] * CLIENTS

        def ask_on(client):
            while not ended.is_set():
                self.check_answer(server, self.prompt(client + CLIENTS * (asked[client] % 12)))
                asked[client] += 1

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            clients = [pool.submit(ask_on, first) for first in range(CLIENTS)]
            try:
                rounds = 0
                while (rounds < 6 or sum(asked) <= 12) and not any(client.done() for client in clients):
                    rounds += 1
                    with own_mounts.read_only(directory):
                        ended.wait(choose.uniform(0.2, 0.8))
                    ended.wait(choose.uniform(0.1, 0.4))
            finally:
                ended.set()
            for client in clients:
                client.result(timeout=60)
        self.assertIn("not stored on disk", server.log())
        self.check_resumed(server, directory, 200)


if __name__ == "__main__":
    own_mounts.enter()
    main()
