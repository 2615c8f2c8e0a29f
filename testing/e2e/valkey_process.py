"""A Valkey server in memory, or a cluster of three, as child processes on loopback."""

import contextlib
import os
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
    """Runs from `with` to its end. `directory` takes its log. `within` is a command that runs the server in a place of its
    own, where it has the address `host`, such as a network namespace."""

    def __init__(self, directory, *flags, memory="512mb", port=None, host="127.0.0.1", within=()):
        self.directory = directory
        self.host, self.within = host, within
        self.port = port or free_port()
        self.address = f"{host}:{self.port}"
        self.url = f"valkey://{self.address}"
        self.flags = ["--bind", host, "--port", str(self.port), "--dir", directory, "--save", "", "--appendonly",
                      "no", "--maxmemory", memory, "--maxmemory-policy", "allkeys-lru", "--maxmemory-samples", "10",
                      *flags]
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()

    def start(self, limit_s=20):
        with open(f"{self.directory}/valkey.log", "ab") as log:
            # Each of these commands becomes the next one, so that the process is the server's own in the end.
            self.process = subprocess.Popen([*self.within, "bash", "-c", 'exec -a valkey-server "$0" "$@"', valkey_program(),
                                             *self.flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + limit_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
                return self
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("valkey-server does not start; see valkey.log")
            time.sleep(0.02)

    def ask(self, *words):
        """One command; returns the reply's lines as text, without RESP's types and lengths."""
        with socket.create_connection((self.host, self.port), timeout=10) as connection:
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(
                b"$%d\r\n%s\r\n" % (len(word), word) for word in (str(word).encode() for word in words)))
            connection.settimeout(0.3)
            reply = b""
            with contextlib.suppress(TimeoutError):
                while more := connection.recv(1 << 20):
                    reply += more
        return [line for line in reply.decode("utf-8", "replace").split("\r\n") if line and line[0] not in "*$"]

    def number(self, section, name):
        """A figure of INFO, such as used_memory of its section memory."""
        return int(next(line for line in self.ask("INFO", section) if line.startswith(f"{name}:")).split(":")[1])

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


CLUSTER_FLAGS = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
                 "--cluster-allow-reads-when-down", "yes")


def free_cluster_port():
    """A node of a cluster also takes the port that is higher by 10,000."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as bus:
            bus.bind(("127.0.0.1", port + 10_000))
            return port


def form_cluster(nodes, limit_s=30):
    """Gives the slots to these nodes, whose `address` is HOST:PORT, and waits until all of them say that all is well."""
    made = subprocess.run(["valkey-cli", "--cluster", "create", *(node.address for node in nodes), "--cluster-yes"],
                          capture_output=True, text=True, timeout=limit_s, check=False)
    if made.returncode != 0:
        raise RuntimeError(f"no cluster: {made.stdout}{made.stderr}")
    deadline = time.monotonic() + limit_s
    while not all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in nodes):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the cluster is not well within {limit_s} s")


class ValkeyCluster:
    """Three masters that go on with the slots that are left when one is gone. The URL names one of them."""

    def __init__(self, directory, memory="512mb"):
        self.nodes = []
        for number in range(3):
            path = f"{directory}/node-{number}"
            os.mkdir(path)
            self.nodes.append(ValkeyProcess(path, *CLUSTER_FLAGS, memory=memory, port=free_cluster_port()))
        self.url = self.nodes[0].url

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            form_cluster(self.nodes)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for node in self.nodes:
            node.end()
