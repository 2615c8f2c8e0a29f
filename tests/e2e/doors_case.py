"""Many clients at the door of one server: raw sockets, and what the server's process takes."""

import contextlib
import json
import resource
import socket
import time

from support import ServerCase

COMPLETION = "/v1/completions"


def allow_many_sockets():
    """As many files as the system allows this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def post_head(path, length, fields=""):
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{fields}"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % length


def post_bytes(path, body, fields=""):
    data = json.dumps(body).encode()
    return post_head(path, len(data), fields) + data


class DoorCase(ServerCase):
    def setUp(self):
        super().setUp()
        allow_many_sockets()
        self.links = self.enterContext(contextlib.ExitStack())

    def connect(self, server, data=b""):
        link = self.links.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
        if data:
            link.sendall(data)
        return link

    def limited_server(self, soft_limit, *flags, **keywords):
        """A server whose shell allows so many open files and whose system allows more."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard))
        try:
            return self.server(*flags, **keywords)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def health_s(self, server):
        """How long a health check on a connection of its own takes."""
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), 20) as link:
            link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = link.recv(4096)
        self.assertIn(b" 200 OK", answer.split(b"\r\n")[0])
        return time.monotonic() - begin
