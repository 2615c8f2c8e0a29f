"""A server whose door is beset: by refused and unfinished requests, by hundreds of waiting clients."""

import select
import socket
import time

from doors_case import COMPLETION, DoorCase, post_bytes, post_head, resident_bytes
from support import ServerProcess, fresh_path, main, serve_command, wait_until

HOST = b"Host: localhost\r\n"
KEY = b"X-Api-Key: k\r\n"
# Beginnings of requests that a client may send without going on. `%d` is the length of a body that never comes.
UNFINISHED = [
    b"",
    b"GET /health HT",
    b"GET /health HTTP/1.1\r\n" + HOST,
    b"POST /x HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\n" + HOST + KEY + b"Content-Length: 99999999999\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\n" + HOST + KEY + b"Content-Length: 60000000\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\n" + HOST + KEY + b"Content-Length: 9\r\n\r\n{",
    b"POST /v1/completions HTTP/1.1\r\n" + HOST + KEY + b"Transfer-Encoding: chunked\r\n\r\n",
    b"POST /nowhere HTTP/1.1\r\n" + HOST + KEY + b"Transfer-Encoding: chunked\r\n\r\n5\r\n12",
    b"GET /health HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n",
    b"POST /tokenize HTTP/1.1\r\n" + HOST + KEY + b"Content-Length: 9\r\nContent-Length: 8\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + KEY + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n",
]


class Doors(DoorCase):
    def test_health_answers_next_to_600_refused_or_unfinished_requests(self):
        server = self.server("--api-key", "k")
        self.hold_all_room(server, "X-Api-Key: k\r\n")  # further bodies wait for room, and get 503 in the end
        for _ in range(600 // len(UNFINISHED)):
            for data in UNFINISHED:
                self.connect(server, data)
        times = [self.health_s(server) for _ in range(5)]
        self.assertLess(max(times), 0.5, times)
        server.post(COMPLETION, {"prompt": "hi", "max_tokens": 1}, headers={"X-Api-Key": "k"})

    def test_completions_are_answered_next_to_more_bodies_that_never_come_than_requests_may_run(self):
        server = self.server()
        for _ in range(4200):
            self.connect(server, UNFINISHED[4])
        self.assert_answers(server, times=3, limit_s=5)

    def test_completions_are_answered_while_all_room_for_bodies_is_held(self):
        """By twenty clients that send all but the end of what they announced."""
        server = self.server()
        holders = self.hold_all_room(server)

        def refused():
            self.assert_answers(server, times=1, limit_s=8)
            return select.select(holders, [], [], 0)[0]
        # On a busy machine the server takes the last of what the holders sent some time later; one that waits for room by
        # then gives way instead of being late.
        self.assertRegex(wait_until(refused, "a holder makes room")[0].recv(100), rb" (408|503) ")

    def hold_all_room(self, server, fields=""):
        """Four bodies that together have 240 of 256 MiB, all that large ones may have, and sixteen with the rest; all wait
        for their last two bytes."""
        holders = []
        for count, length in ((4, 60 << 20), (16, 1 << 20)):
            for _ in range(count):
                holders.append(self.connect(server, post_head(COMPLETION, length, fields)))
                holders[-1].sendall(b" " * (length - 2))
        return holders

    def assert_answers(self, server, times, limit_s):
        for _ in range(times):
            begin = time.monotonic()
            server.post(COMPLETION, {"prompt": "hi", "max_tokens": 1, "metadata": {"padding": "x" * 100_000}})
            self.assertLess(time.monotonic() - begin, limit_s)

    def test_a_client_that_half_closes_gets_its_reply(self):
        server = self.server()
        for stream in (False, True):
            link = self.connect(server, post_bytes(COMPLETION, {"prompt": "hi", "max_tokens": 20, "stream": stream,
                                                                "ignore_eos": True, "temperature": 0}))
            link.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: link.recv(65536), b""))
            self.assertIn(b"HTTP/1.1 200 OK", answer)
            self.assertIn(b'"completion_tokens":20' if not stream else b"data: [DONE]", answer)
        self.assertNotIn("client-left", server.log())

    def test_a_client_that_leaves_is_noticed_at_once(self):
        server = self.server("-c", 65536, "-np", 1)
        endless = {"prompt": "once", "max_tokens": 60_000, "ignore_eos": True}
        for number, stream in enumerate((True, False), 1):
            link = self.connect(server, post_bytes(COMPLETION, {**endless, "stream": stream}))
            decoded = server.decoded_ids()
            wait_until(lambda n=decoded: server.decoded_ids() > n + 20, "it decodes")
            link.close()
            wait_until(lambda n=number: server.log().count(" done end=client-left") >= n, "its job ends", limit_s=5)

    def test_a_thousand_streams_at_the_usual_limit_of_files(self):
        server = self.limited_server(1024, "--no-prefill-ahead")
        big = {"prompt": "hello", "max_tokens": 2000, "ignore_eos": True, "stream": True, "cache_prompt": False,
               "metadata": {"padding": "x" * 300_000}}
        for _ in range(8):  # what the first requests of their kind allocate is not theirs
            server.post(COMPLETION, {**big, "stream": False, "max_tokens": 1})
        before = resident_bytes(server)
        links = [self.connect(server, post_bytes(COMPLETION, big)) for _ in range(1000)]
        # Those that wait are told so within seconds: each stream has begun.
        for link in links:
            link.settimeout(60)
            self.assertIn(b" 200 OK", link.recv(15))
        self.assertLess(resident_bytes(server) - before, 64 << 20)
        times = [self.health_s(server) for _ in range(5)]
        self.assertLess(max(times), 0.5, times)
        for link in links:
            link.close()
        wait_until(lambda: server.log().count(" done end=client-left") >= 900, "all are gone", limit_s=60)

    def test_a_low_limit_of_open_files_is_reported(self):
        command = ["prlimit", "--nofile=300:300", *serve_command("--no-kv-disk")]
        server = self.enterContext(ServerProcess(command, log_path=fresh_path("server.log")))
        self.assertRegex(server.log(), "at most 150 clients may be connected at a time.*may open only 300 files")
        links = [self.connect(server) for _ in range(400)]
        links[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b" 200 OK", links[0].recv(100))
        for link in links:
            link.close()
        self.assertLess(self.health_s(server), 5)


if __name__ == "__main__":
    main()
