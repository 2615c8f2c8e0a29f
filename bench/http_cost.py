#!/usr/bin/env python3
"""The cost of the HTTP side: processor time per streamed token, memory per waiting stream. Two programs, interleaved.

  http_cost.py BEFORE AFTER [--rounds N] [--tokens N]

Each round starts each program once on the same small generated model. `all`: processor time of the process per streamed
token; `outside`: that of all its threads but the engine's. Memory: of 100 streams that wait for two that run.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testing" / "e2e"))

from kvkeep_process import ServerProcess  # noqa: E402

WAITING = 100


def thread_ns(pid):
    """Processor time so far: (of all threads, of all but the engine's), in nanoseconds."""
    total = outside = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0])
        total += spent
        if (task / "comm").read_text().strip() != "engine":
            outside += spent
    return total, outside


def resident_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def request(port, tokens):
    body = json.dumps({"prompt": "once upon a time", "max_tokens": tokens, "stream": True, "ignore_eos": True,
                       "cache_prompt": False, "temperature": 0}).encode()
    link = socket.create_connection(("127.0.0.1", port), 600)
    link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                 % len(body) + body)
    return link


def read_all(link):
    with link:
        while link.recv(1 << 16):
            pass


def cost(server, streams, tokens):
    """Microseconds per token: (all, outside)."""
    begin = thread_ns(server.process.pid)
    readers = [threading.Thread(target=read_all, args=(request(server.port, tokens),)) for _ in range(streams)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    end = thread_ns(server.process.pid)
    return [(b - a) / 1000 / streams / tokens for a, b in zip(begin, end)]


def waiting_kb(server):
    """Resident KB per stream that waits and has had its first bytes."""
    running = [request(server.port, 100_000) for _ in range(2)]
    for link in running:
        link.recv(15)
    warm = [request(server.port, 10) for _ in range(8)]
    time.sleep(6)
    before = resident_kb(server.process.pid)
    waiting = [request(server.port, 10) for _ in range(WAITING)]
    for link in waiting:
        link.recv(15)
    after = resident_kb(server.process.pid)
    for link in running + warm + waiting:
        link.close()
    return (after - before) / WAITING


def measure(program, model, tokens):
    command = [program, "serve", "-m", model, "-t", "1", "-np", "2", "-c", "100000", "--no-kv-disk", "--cache-ram", "0",
               "--no-prefill-ahead"]
    with ServerProcess(command) as server:
        cost(server, 1, 500)
        one = cost(server, 1, tokens)
        two = cost(server, 2, tokens)
        return {"all, 1 stream": one[0], "outside, 1 stream": one[1], "all, 2 streams": two[0],
                "outside, 2 streams": two[1], "KB per waiting stream": waiting_kb(server)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=4000)
    options = parser.parse_args()
    figures = {"before": [], "after": []}
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.gguf")
        subprocess.run([options.after, "model", "make", "--size", "tiny", model], check=True, capture_output=True)
        for number in range(options.rounds):
            for name in ("before", "after") if number % 2 == 0 else ("after", "before"):
                figures[name].append(measure(getattr(options, name), model, options.tokens))
                print(name, {key: round(value, 2) for key, value in figures[name][-1].items()}, flush=True)
    for key in figures["before"][0]:
        before, after = ([run[key] for run in figures[name]] for name in ("before", "after"))
        ratios = [a / b for a, b in zip(after, before)]
        print(f"{key}: {statistics.median(before):.2f} -> {statistics.median(after):.2f}, "
              f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
