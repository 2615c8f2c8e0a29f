#!/usr/bin/env python3
"""An instrumented server with a real engine: eight clients at once, with prompts long, short and shared, some of which leave,
close half of their connection, or break off in the middle of a request. Each report of the sanitizer fails, and so does a
program that has none.

  served_test.py PROGRAM SANITIZER        PROGRAM: a kvkeep that was built with SANITIZER, such as ThreadSanitizer
                                          SERVED_S: for how many seconds the clients ask (default: 15)
"""

import collections
import contextlib
import json
import os
import pathlib
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "testing" / "e2e"))

from kvkeep_process import ServerProcess  # noqa: E402

SECONDS = float(os.environ.get("SERVED_S", 15))
CLIENTS = 8
# Few cells, little RAM and short slices, so that state moves between all tiers while others decode. One thread computes:
# libggml is not instrumented, so that the sanitizer would not see how its threads wait for each other.
FLAGS = ["-c", "2048", "-np", "3", "-t", "1", "--cache-ram", "4", "--restore", "always", "--prefill-slice-ms", "5",
         "--queue-limit", "4", "--metrics"]
PATIENCE_S = 60  # an instrumented server takes ten times as long as others, and answers
LOOKS = ["/metrics", "/slots", "/cache", "/props", "/health", "/v1/models"]


def words(count, seed):
    source = random.Random(seed)
    return " ".join(source.choice(["river", "stone", "cloud", "lamp", "sheep", "north"]) + str(source.randrange(50))
                    for _ in range(count))


def prompt(source):
    return source.choice([lambda: words(5, source.random()), lambda: words(300, source.random()),
                          lambda: words(150, "shared") + words(10, source.random())])()


def head(path, length):
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {length}\r\n\r\n").encode()


class Client:
    """Asks in one way after the other. `counts`: how often each came to its end, by name and status."""

    def __init__(self, port, seed, counts):
        self.port, self.source, self.counts = port, random.Random(seed), counts

    def ask_until(self, end_s):
        while time.monotonic() < end_s:
            way = self.source.choice([self.whole, self.streamed, self.half_closed, self.left, self.cut, self.looked])
            try:
                outcome = way()
            except TimeoutError:
                outcome = "late"
            self.counts[f"{way.__name__} {outcome}"] += 1

    def send(self, share=1.0, **fields):
        link = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        body = json.dumps({"prompt": prompt(self.source), "n_predict": self.source.randrange(1, 40), "temperature": 0,
                           **fields}).encode()
        request = head("/completion", len(body)) + body
        link.sendall(request[:max(1, int(len(request) * share))])
        return link

    @staticmethod
    def read_all(link):
        """The last status, and whether the reply came whole."""
        pieces = []
        with contextlib.suppress(ConnectionError), link:
            while piece := link.recv(65536):
                pieces.append(piece)
        answer = b"".join(pieces)
        status = [line.split()[1].decode() for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")][-1:]
        return (status[0] if status else "none") + (" whole" if b'"stop":true' in answer else "")

    def whole(self):
        return self.read_all(self.send())

    def streamed(self):
        return self.read_all(self.send(stream=True))

    def half_closed(self):
        link = self.send(stream=self.source.random() < 0.5)
        link.shutdown(socket.SHUT_WR)
        return self.read_all(link)

    def left(self):
        link = self.send(stream=True, n_predict=500, ignore_eos=True)
        time.sleep(self.source.random() * 0.3)
        if self.source.random() < 0.5:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, not FIN
        link.close()
        return ""

    def cut(self):
        self.send(share=self.source.random()).close()
        return ""

    def looked(self):
        link = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        link.sendall(f"GET {self.source.choice(LOOKS)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return self.read_all(link)


def play(program, model, directory):
    """Returns the counts of all clients, the server's exit status and its log."""
    log = os.path.join(directory, "log")
    command = [program, "serve", "-m", model, "--kv-disk-dir", os.path.join(directory, "kv"), *FLAGS]
    counts = collections.Counter()
    with ServerProcess(command, environment={"TSAN_OPTIONS": "verbosity=1"}, log_path=log) as server:
        end_s = time.monotonic() + SECONDS
        threads = [threading.Thread(target=Client(server.port, seed, counts).ask_until, args=(end_s,))
                   for seed in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        last = Client(server.port, "last", counts).send(stream=True, n_predict=1000, ignore_eos=True)
        last.recv(200)  # it runs when the server stops
        status = server.stop(limit_s=60)
        last.close()
        return counts, status, server.log()


def problems(counts, status, log, sanitizer):
    found = []
    if f"Running under {sanitizer}" not in log:
        found.append(f"the program has no {sanitizer}")
    if f"WARNING: {sanitizer}" in log:
        found.append(f"{log.count(f'WARNING: {sanitizer}')} reports, the first:\n" + log[log.index(f"WARNING: {sanitizer}"):][:6000])
    if status != 0:
        found.append(f"the server ended with status {status}:\n{log[-3000:]}")
    late = sum(count for way, count in counts.items() if way.endswith(" late"))
    if late > 0:
        found.append(f"{late} requests had no answer for {PATIENCE_S} seconds:\n{log[-6000:]}")
    found += [f"nobody came to the end of {way}" for way in ("whole 200 whole", "streamed 200 whole",
                                                                    "half_closed 200 whole", "left ", "cut ", "looked 200")
              if counts[way] < 3]
    return found


def main(program, sanitizer):
    with tempfile.TemporaryDirectory(prefix="kvkeep-sanitized-") as directory:
        model = os.path.join(directory, "tiny.gguf")
        subprocess.run([program, "model", "make", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        counts, status, log = play(program, model, directory)
    print(", ".join(f"{way.strip()}: {count}" for way, count in sorted(counts.items())))
    found = problems(counts, status, log, sanitizer)
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
