"""Nodes of a Valkey cluster are killed, frozen and cut off, one after the other, while clients talk to servers that share it:
every request is answered with the words of a server without a cache, and soon after a trouble the servers find each other's
state again.

Each node is a machine of its own (own_network.py). Where none can be made, KVKEEP_NO_OWN_NETWORK is set, the nodes share the
loopback address, and they are only killed and frozen.
"""

import concurrent.futures
import contextlib
import itertools
import os
import socket
import threading
import time

import own_network
from exactness_case import CHAT, ExactnessCase
from support import assistant, fresh_directory, main, make_random, model, reply_text, system, timings, user, words
from valkey_process import CLUSTER_FLAGS, ValkeyProcess, form_cluster, free_cluster_port

BATCH = ("-ub", "128", "-b", "128")  # as in sharing_test.py
EVENTS = 20
CLIENTS = 2
NODES = 3
WARM_WITHIN_S = 5
HEALED_WITHIN_S = 30  # the cluster itself, after a node came back
PORT = 7000           # of nodes that have an address of their own
HAS_NETWORK = "KVKEEP_NO_OWN_NETWORK" not in os.environ


class Node(ValkeyProcess):
    def __init__(self, machine):
        place = {"host": machine.host, "within": machine.within, "port": PORT} if machine else {"port": free_cluster_port()}
        super().__init__(fresh_directory("node"), *CLUSTER_FLAGS, "--protected-mode", "no", memory="256mb", **place)
        self.machine = machine

    @contextlib.contextmanager
    def killed(self):
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def frozen(self):
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def troubles(self, others):
        """All that can happen to it, by name."""
        known = {"killed": self.killed, "frozen": self.frozen}
        if self.machine:
            known |= {"cut off": self.machine.cut,
                      "silent to the servers": lambda: self.machine.silent_to(own_network.HOST),
                      "silent to the other nodes": lambda: self.machine.silent_to(*(node.host for node in others))}
        return known


def metric(server, name):
    return next(float(line.split()[1]) for line in server.get("/metrics").splitlines() if line.startswith(f"{name} "))


class Partitions(ExactnessCase):
    @classmethod
    def start_class_servers(cls):
        cls.model_path = model()
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)
        cls.machines = [own_network.Machine(number + 1) if HAS_NETWORK else None for number in range(NODES)]

    def setUp(self):
        super().setUp()
        self.random = make_random()
        self.nodes = [self.enterContext(Node(machine)) for machine in self.machines]
        form_cluster(self.nodes)
        flags = ("--restore", "always", "--no-prefill-ahead", "--metrics", *BATCH, "--share", self.nodes[0].url)
        self.servers = [self.server(*flags, model_path=self.model_path) for _ in range(2)]
        self.over = threading.Event()
        self.numbers = itertools.count()
        self.turns = self.shared_tokens = 0

    def ask(self, server, messages):
        reply = self.same_chat(server, messages, max_tokens=6)
        self.turns += 1
        self.shared_tokens += timings(reply)["cache_tokens"]["shared"]
        return reply

    def talk(self, client):
        """Conversations that wander from server to server, until the troubles are over."""
        number = 0
        while not self.over.is_set():
            number += 1
            messages = [system(words(300, 100 * client + number % 3))]
            for turn in range(4):
                messages.append(user(f"{turn} of {number}: {words(30, 1000 * client + 10 * number + turn)}"))
                reply = self.ask(self.servers[(client + number + turn) % 2], messages)
                messages.append(assistant(reply_text(reply)))

    def wait_until_healed(self):
        """The nodes may still argue among themselves, which servers cannot shorten."""
        deadline = time.monotonic() + HEALED_WITHIN_S
        while not all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes):
            self.assertLess(time.monotonic(), deadline, "the cluster does not heal")

    def seconds_until_warm(self):
        """From the healing until a conversation began at one server which the other one went on with. Short tries follow each
        other, so that a busy machine, where each takes long, counts for little; their words are compared at the end."""
        healed = time.monotonic()
        tries = []
        while not tries or tries[-1][-1] <= 380:
            began = time.monotonic()
            self.assertLess(began - healed, 60, "the servers do not share again")
            body = {"messages": [user(words(400, 5_000 + next(self.numbers)))], "max_tokens": 1, "temperature": 0,
                    "return_tokens": True}
            first = self.servers[0].post(CHAT, body)
            self.wait_until_published(self.servers[0])
            second = self.servers[1].post(CHAT, body)
            tries.append((began, body, first, second, timings(second)["cache_tokens"]["shared"]))
        for _, body, *replies, _ in tries:
            for reply in replies:
                self.same(CHAT, body, reply)
        return tries[-1][0] - healed

    def wait_until_published(self, server, limit_s=5):
        """A reply is captured after it was sent, and published after that: nothing waits, and that for a while."""
        deadline = time.monotonic() + limit_s
        quiet_since, last = time.monotonic(), None
        while time.monotonic() < min(deadline, quiet_since + 0.3):
            now = [metric(server, f"kvkeep_share_{name}") for name in ("published_total", "waiting")]
            if now != last or now[-1] > 0:
                quiet_since, last = time.monotonic(), now
            time.sleep(0.02)

    def breaker_openings(self):
        return sum(metric(server, "kvkeep_share_breaker_openings_total") for server in self.servers)

    def make_trouble(self):
        """Returns the seconds until servers shared again, with the name of what happened."""
        node = self.random.choice(self.nodes)
        troubles = node.troubles([other for other in self.nodes if other is not node])
        name = self.random.choice(sorted(troubles))
        with troubles[name]():
            time.sleep(0.05 + 4 * self.random.random())
        self.wait_until_healed()
        seconds = self.seconds_until_warm()
        print(f"node {self.nodes.index(node)} {name}: warm after {seconds:.1f} s", flush=True)
        return seconds, name

    def test_troubles_are_real(self):
        """Otherwise the other test would show nothing."""
        node, other = self.nodes[:2]
        for name, trouble in node.troubles([other]).items():
            if name == "silent to the other nodes":
                continue  # the servers, and this test, see nothing of it
            with trouble(), self.assertRaises(OSError, msg=name):
                with socket.create_connection((node.host, node.port), timeout=0.5) as connection:
                    connection.sendall(b"PING\r\n")
                    self.assertTrue(connection.recv(16))
            self.wait_until_healed()
            self.assertEqual(node.ask("PING"), ["+PONG"], name)

    def test_nodes_that_come_and_go_fail_no_request(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            talks = [pool.submit(self.talk, client) for client in range(CLIENTS)]
            try:
                warm = [self.make_trouble() for _ in range(EVENTS)]
            finally:
                self.over.set()
            for talk in talks:
                talk.result()
        print(f"{self.turns} turns, {self.shared_tokens} tokens from the shared tier", flush=True)
        self.assertGreater(self.turns, 2 * EVENTS)
        self.assertGreater(self.shared_tokens, 0)
        self.assertGreater(self.breaker_openings(), EVENTS / 4, "the servers noticed little of the troubles")
        self.assertLessEqual(max(warm)[0], WARM_WITHIN_S, max(warm))


del ExactnessCase  # only the class with tests is one

if __name__ == "__main__":
    if HAS_NETWORK:
        own_network.enter()
    main()
