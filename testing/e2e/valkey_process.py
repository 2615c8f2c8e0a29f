"""A Valkey server in memory as a child process, on loopback."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time

from kvkeep_process import free_port

# Debian's valkey-tools has the server under another name; it looks at the name that it is started by.
NAMES = ("valkey-server", "redis-server", "valkey-check-rdb")


def valkey_program():
    """None if there is no such program."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class ValkeyProcess:
    """Runs from `with` to its end. `directory` takes its log."""

    def __init__(self, directory, *flags, memory="512mb"):
        self.directory = directory
        self.port = free_port()
        self.url = f"valkey://127.0.0.1:{self.port}"
        self.flags = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", directory, "--save", "", "--appendonly",
                      "no", "--maxmemory", memory, "--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "10",
                      *flags]
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()

    def start(self, limit_s=20):
        with open(f"{self.directory}/valkey.log", "ab") as log:
            self.process = subprocess.Popen(["valkey-server", *self.flags], executable=valkey_program(),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + limit_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("valkey-server does not start; see valkey.log")
            time.sleep(0.02)

    def ask(self, *words):
        """One command; returns the reply's lines as text, without RESP's types and lengths."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words)))
            connection.settimeout(0.3)
            reply = b""
            with contextlib.suppress(TimeoutError):
                while more := connection.recv(1 << 20):
                    reply += more
        return [line for line in reply.decode("utf-8", "replace").split("\r\n") if line and line[0] not in "*$"]

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.thaw()
        self.process.kill()
        self.process.wait(10)
