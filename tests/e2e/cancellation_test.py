"""Clients that leave: in each phase the server stops working for them at once, keeps what it computed, and serves on."""

import contextlib
import json
import os
import queue
import random
import socket
import struct
import threading
import time

from flag_case import PARAM_SHIM
from monitoring_test import metrics
from support import ServerCase, fresh_directory, main, make_random, timings, wait_until, words

CONTEXT = 8192


class Client:
    """A request on a socket of its own, so that it can leave in each way that TCP has."""

    def __init__(self, server, body, path="/completion"):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        text = json.dumps(body).encode()
        self.request = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(text)}\r\n\r\n").encode() + text

    def send(self, share=1.0):
        self.socket.sendall(self.request[:max(1, int(len(self.request) * share))])
        return self

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def read_some(self, size=200):
        return self.socket.recv(size)

    def read_all(self):
        pieces = []
        with contextlib.suppress(ConnectionError, TimeoutError):
            while piece := self.socket.recv(65536):
                pieces.append(piece)
        return b"".join(pieces)

    def close(self):
        """FIN; the system answers later data with RST."""
        self.socket.close()

    def reset(self):
        """RST at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def waiting(server):
    return metrics(server)[0]["llamacpp:requests_deferred"]


def total(server, name):
    return metrics(server)[0][f"llamacpp:{name}_total"]


def running(server):
    return metrics(server)[0]["llamacpp:requests_processing"]


class Phases(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.shared = cls.class_server("-c", CONTEXT, "-np", 1, "--metrics", "--prefill-slice-ms", 5)

    LEAVES = [("fin", Client.close), ("rst", Client.reset)]

    @contextlib.contextmanager
    def few_tokens(self, name, most):
        """Within the block the server computes fewer tokens of that kind than a reply or prompt that goes on to its end."""
        before = total(self.shared, name)
        yield
        self.assertLess(total(self.shared, name) - before, most)

    def assert_free(self, what):
        wait_until(lambda: running(self.shared) == 0 and waiting(self.shared) == 0, what, limit_s=10)

    def endless_stream(self, seed):
        body = {"prompt": words(20, seed), "n_predict": CONTEXT, "ignore_eos": True, "stream": True}
        client = Client(self.shared, body).send()
        client.read_some()
        return client

    def test_one_that_decodes(self):
        for name, leave in self.LEAVES:
            with self.subTest(name):
                with self.few_tokens("tokens_predicted", CONTEXT // 2):
                    client = self.endless_stream(seed=1)
                    wait_until(lambda: running(self.shared) == 1, "it runs")
                    leave(client)
                    self.assert_free("the reply ends")

    def test_one_whose_reply_is_no_stream(self):
        with self.few_tokens("tokens_predicted", CONTEXT // 2):
            client = Client(self.shared, {"prompt": words(20, 2), "n_predict": CONTEXT, "ignore_eos": True}).send()
            wait_until(lambda: running(self.shared) == 1, "it runs")
            client.reset()
            self.assert_free("the reply ends")

    def test_one_that_waits(self):
        for name, leave in self.LEAVES:
            with self.subTest(name):
                runs = self.endless_stream(seed=3)
                before = total(self.shared, "prompt_tokens")
                waits = Client(self.shared, {"prompt": words(500, 4), "n_predict": 4}).send()
                wait_until(lambda: waiting(self.shared) == 1, "it waits")
                leave(waits)
                wait_until(lambda: waiting(self.shared) == 0, "it leaves the queue", limit_s=10)
                self.assertEqual(running(self.shared), 1)
                runs.reset()
                self.assert_free("the other one ends")
                self.assertEqual(total(self.shared, "prompt_tokens"), before, "nothing was prefilled for it")

    def test_one_that_prefills_is_resumed_by_a_retry(self):
        for seed, (name, leave) in enumerate(self.LEAVES, start=5):
            with self.subTest(name):
                body = {"prompt": words(3500, seed), "n_predict": 4, "temperature": 0, "stream": True, "return_progress": True}
                before = total(self.shared, "prompt_tokens")
                client = Client(self.shared, body).send()
                seen = b""
                while seen.count(b"prompt_progress") < 10:
                    piece = client.read_some(4096)
                    self.assertTrue(piece, "the prefill was shorter than the test needs it")
                    seen += piece
                leave(client)
                self.assert_free("its prefill ends")
                prefilled = total(self.shared, "prompt_tokens") - before
                self.assertLess(prefilled, 3000, "it went on after the client left")
                retry = self.shared.post("/completion", {**body, "stream": False, "return_progress": False})
                self.assertGreater(timings(retry)["cache_n"], prefilled - 600, "the last captures may be missing")
                self.assertGreater(timings(retry)["prompt_n"], 500)

    def test_a_limit_of_its_own_ends_a_prefill(self):
        with self.few_tokens("prompt_tokens", 3000):
            self.shared.post("/completion", {"prompt": words(4000, 9), "n_predict": 4, "t_max_prompt_ms": 20})
        self.assert_free("its prefill ends")

    def test_a_deadline_ends_a_prefill(self):
        """Without a token by then it is refused, and a retry goes on from what was computed."""
        body = {"prompt": words(4000, 11), "max_tokens": 4}
        with self.few_tokens("prompt_tokens", 3500):
            self.assert_refused(503, self.shared.post, "/v1/completions", {**body, "t_max_total_ms": 60},
                                contains="t_max_total_ms")
            self.assert_free("its prefill ends")
        self.assertGreater(timings(self.shared.post("/v1/completions", body))["cache_n"], 0)

    def test_a_half_closed_client_gets_its_reply(self):
        client = Client(self.shared, {"prompt": words(20, 10), "n_predict": 8}).send().half_close()
        self.assertIn(b'"stop":true', client.read_all().replace(b": ", b":"))


class Loading(ServerCase):
    """State is being read from a slow disk: each read takes READ_MS more."""

    READ_MS = 400
    WORDS = 3000

    def setUp(self):
        super().setUp()
        self.body = {"prompt": words(self.WORDS, 20), "n_predict": 4, "temperature": 0}
        flags = ("-c", CONTEXT, "-np", 1, "--metrics", "--restore", "always", "--kv-disk-dir", fresh_directory())
        first = self.server(*flags)
        self.text = first.post("/completion", self.body)["content"]
        self.assertEqual(first.stop(), 0)
        self.slow = self.server(*flags, count_shim=PARAM_SHIM, environment={"KVKEEP_SLOW_READ_MS": str(self.READ_MS)})

    def loading(self):
        return self.slow.get("/slots")[0].get("state") == "loading"

    def assert_nothing_is_lost(self, prefilled):
        """A retry reads what is stored, although the load before it was broken off."""
        self.assertEqual(total(self.slow, "prompt_tokens"), prefilled, "nothing was prefilled for it")
        retry = self.slow.post("/completion", self.body)
        self.assertEqual(retry["content"], self.text)
        self.assertLess(timings(retry)["prompt_n"], 16)

    def test_one_whose_state_is_read(self):
        before = total(self.slow, "prompt_tokens")
        for name, leave in Phases.LEAVES:
            with self.subTest(name):
                client = Client(self.slow, {**self.body, "stream": True}).send()
                wait_until(self.loading, "its state is read")
                leave(client)
                wait_until(lambda: running(self.slow) == 0, "it ends", limit_s=2 * self.READ_MS / 1000 + 1)
        self.assert_nothing_is_lost(before)

    def test_a_deadline_while_state_is_read(self):
        before = total(self.slow, "prompt_tokens")
        self.assert_refused(503, self.slow.post, "/v1/completions",
                            {"prompt": self.body["prompt"], "max_tokens": 4, "t_max_total_ms": self.READ_MS / 2},
                            contains="t_max_total_ms")
        wait_until(lambda: metrics(self.slow)[0]['kvkeep_wait_seconds_total{cause="disk"}'] > 0, "it waited for the disk")
        self.assert_nothing_is_lost(before)


class RandomClients(ServerCase):
    CLIENTS = 1000

    def test_many_come_and_leave_at_any_time(self):
        generator = make_random()
        server = self.server("-c", 2 * CONTEXT, "-np", 4, "--metrics", "--prefill-slice-ms", 5)
        question = {"prompt": words(60, 1), "n_predict": 16, "temperature": 0, "cache_prompt": False}
        expected = server.post("/completion", question)["content"]
        descriptors = self.descriptors(server)
        seeds = queue.SimpleQueue()
        for _ in range(self.CLIENTS):
            seeds.put(generator.randrange(1 << 30))
        wrong = []

        def work():
            with contextlib.suppress(queue.Empty):
                while True:
                    seed = seeds.get_nowait()
                    try:
                        self.one(server, random.Random(seed), question, expected, wrong)
                    except Exception as error:  # else the thread ends unseen
                        wrong.append(f"seed {seed}: {error!r}")

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        wait_until(lambda: running(server) == 0 and waiting(server) == 0, "all have ended")
        self.assertEqual(server.post("/completion", question)["content"], expected)
        wait_until(lambda: self.descriptors(server) <= descriptors + 4, "connections are closed")
        self.assertEqual(server.stop(), 0)

    @staticmethod
    def descriptors(server):
        return len(os.listdir(f"/proc/{server.process.pid}/fd"))

    @staticmethod
    def one(server, generator, question, expected, wrong):
        body = {"prompt": words(generator.choice([5, 100, 900]), generator.randrange(6)),
                "n_predict": generator.choice([0, 2, 200]), "ignore_eos": True, "stream": generator.random() < 0.7}
        way = generator.choice(["connects", "part", "fin", "rst", "half", "reads", "late", "asks"])
        client = Client(server, question if way == "asks" else body)
        if way == "part":
            client.send(generator.random() * 0.9)
        elif way != "connects":
            client.send()
        if way == "half":
            client.half_close()
        if way == "reads":
            client.read_some()
        if way == "late":
            time.sleep(generator.random() * 0.1)
        if way == "asks":
            with client.socket, client.socket.makefile("rb") as file:
                client.half_close()
                head, _, reply = file.read().rpartition(b"\r\n\r\n")  # a 102 may come first
                if b"HTTP/1.1 200 OK" not in head or json.loads(reply)["content"] != expected:
                    wrong.append((head[:100], reply[:200]))
        elif way in ("rst", "half") or generator.random() < 0.5:
            client.reset()
        else:
            client.close()


if __name__ == "__main__":
    main()
