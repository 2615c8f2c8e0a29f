"""Servers that share an engine, and the engine, are killed and frozen while clients talk: no reply is wrong, only a request
at a server that is killed fails, and when all is over the servers find each other's state again."""

import concurrent.futures
import http.client
import threading
import time

from exactness_case import ExactnessCase
from support import assistant, fresh_directory, main, make_random, model, reply_text, system, timings, user, wait_until, words
from valkey_process import ValkeyProcess

BATCH = ("-ub", "128", "-b", "128")  # as in sharing_test.py
KILLS = 20
CLIENTS = 2


class Unlucky(Exception):
    """The server was killed in the middle of the request."""


class Storm(ExactnessCase):
    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)

    def setUp(self):
        super().setUp()
        self.random = make_random()
        self.valkey = self.enterContext(ValkeyProcess(fresh_directory("valkey")))
        flags = ("--restore", "always", "--no-prefill-ahead", *BATCH, "--share", self.valkey.url)
        self.servers = [self.server(*flags, model_path=self.model_path) for _ in range(3)]
        self.kills = {id(server): 0 for server in self.servers}
        self.over = threading.Event()
        self.shared_tokens = self.turns = 0

    def ask(self, server, messages):
        kills = self.kills[id(server)]
        try:
            reply = self.same_chat(server, messages, max_tokens=6)
        except (OSError, http.client.HTTPException) as error:
            if self.kills[id(server)] == kills:
                raise
            raise Unlucky from error
        self.shared_tokens += timings(reply)["cache_tokens"]["shared"]
        self.turns += 1
        return reply

    def talk(self, client):
        """Conversations that go on at any server, until the storm is over."""
        number = 0
        while not self.over.is_set():
            number += 1
            messages = [system(words(300, 100 * client + number % 3))]
            for turn in range(4):
                messages.append(user(f"{turn} of {number}: {words(30, 1000 * client + 10 * number + turn)}"))
                messages.append(assistant(reply_text(self.ask_anybody(messages, client + number + turn))))

    def ask_anybody(self, messages, first):
        for i in range(1000):
            server = self.servers[(first + i) % len(self.servers)]
            if self.kills[id(server)] % 2 == 1:
                time.sleep(0.05)  # it is down
                continue
            try:
                return self.ask(server, messages)
            except Unlucky:
                continue
        raise AssertionError("no server answered")

    def kill_server(self):
        server = self.random.choice(self.servers)
        self.kills[id(server)] += 1
        server.kill()
        time.sleep(self.random.random())
        server.start()
        self.kills[id(server)] += 1

    def kill_engine(self):
        self.valkey.kill()
        time.sleep(2 * self.random.random())
        self.valkey.start()

    def freeze_engine(self):
        self.valkey.freeze()
        time.sleep(0.05 + 2 * self.random.random())
        self.valkey.thaw()

    def storm(self):
        killed = 0
        while killed < KILLS:
            event = self.random.choice([self.kill_server, self.kill_engine, self.freeze_engine])
            event()
            killed += event != self.freeze_engine
            time.sleep(self.random.random())

    def test_kills_and_partitions(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            talks = [pool.submit(self.talk, client) for client in range(CLIENTS)]
            try:
                self.storm()
            finally:
                self.over.set()
            for talk in talks:
                talk.result()
        print(f"{self.turns} turns, {self.shared_tokens} tokens from the shared tier", flush=True)
        self.assertGreater(self.turns, KILLS)
        self.assertGreater(self.shared_tokens, 0)
        self.healed()

    def healed(self):
        first, second = self.servers[:2]
        numbers = iter(range(100))

        def found():
            messages = [user(words(400, 5000 + next(numbers)))]
            self.ask(first, messages)
            time.sleep(0.5)
            return timings(self.ask(second, messages))["cache_tokens"]["shared"] > 380
        wait_until(found, "the servers share again", limit_s=60)


class Sliceable(Storm):
    pass


class Hybrid(Storm):
    model_flags = ("--arch", "qwen35")


del ExactnessCase, Storm  # only the classes of models are tests

if __name__ == "__main__":
    main()
