#!/usr/bin/env python3
"""Time from starting a server to its first token on a busy machine: kvkeep beside llama-server, in interleaved pairs.

  start_times.py [KVKEEP] [--peer PROGRAM] [--pairs N] [--busy N] [--size small] [--ctx N] [--first]

Runs N busy loops on all processors meanwhile. Each pair starts both programs once, in alternating order, on the same
generated model, and asks for one token as soon as the port answers. kvkeep has a directory of its own, in which it served
the model once; with --first each of its starts has a new one. Prints each pair, then wall times, processor times and their
ratios as median and range. A measurement, not a test: it takes the machine for minutes.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Ends with this script, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(1 << 20))"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def post(port, path, body):
    text = json.dumps(body).encode()
    with socket.create_connection(("127.0.0.1", port), 600) as link:
        link.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % (path.encode(), len(text)) + text)
        reply = b""
        while chunk := link.recv(1 << 16):
            reply += chunk
    return reply.split(b" ", 2)[1] == b"200"


def first_token(port, process):
    """Asks for a token until one comes. A server that still loads refuses connections, or answers 503."""
    while process.poll() is None:
        try:
            if post(port, "/v1/completions", {"prompt": "once upon a time", "max_tokens": 1}):
                return
        except OSError:
            pass
        time.sleep(0.01)
    raise SystemExit(f"{process.args[0]} ended: {process.returncode}")


def start_once(command, environment, log):
    """Returns (wall seconds, processor seconds, of all its processes) from the start to the first token's reply."""
    port = free_port()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    process = subprocess.Popen([*command, "--port", str(port)], env=environment, stdout=log, stderr=log)
    try:
        first_token(port, process)
        wall = time.monotonic() - began
    finally:
        process.terminate()
        process.wait(60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shown(values, unit="s"):
    return f"{statistics.median(values):6.2f} {unit} ({min(values):.2f} to {max(values):.2f})"


def measure(options, folder, log):
    model = folder / "model.gguf"
    subprocess.run([options.kvkeep, "model", "make", "--size", options.size, model], check=True, stdout=log)
    arguments = ["-m", str(model), "-c", str(options.ctx), "--host", "127.0.0.1"]
    runs = {"kvkeep": [], "peer": []}

    def run(name, number=0):
        environment = dict(os.environ)
        if name == "peer":
            return start_once([options.peer, *arguments], environment, log)
        directory = folder / (f"cache{number}" if options.first else "cache")
        return start_once([options.kvkeep, "serve", *arguments, "--kv-disk-dir", str(directory)], environment, log)

    run("peer"), run("kvkeep")  # both programs and the model are in memory then
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(options.busy)]
    try:
        for number in range(1, options.pairs + 1):
            for name in ("kvkeep", "peer") if number % 2 else ("peer", "kvkeep"):
                runs[name].append(run(name, number))
            ours, theirs = runs["kvkeep"][-1], runs["peer"][-1]
            print(f"pair {number:2}: kvkeep {ours[0]:6.2f} s ({ours[1]:.2f} s of processor), peer {theirs[0]:6.2f} s "
                  f"({theirs[1]:.2f} s), ratio {ours[0] / theirs[0]:.2f}", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvkeep", nargs="?", default=str(ROOT / "build" / "kvkeep"))
    parser.add_argument("--peer", default=shutil.which("llama-server"))
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--busy", type=int, default=24)
    parser.add_argument("--size", default="small")
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--first", action="store_true")
    options = parser.parse_args()
    if not options.peer:
        raise SystemExit("no llama-server: name it with --peer")
    with tempfile.TemporaryDirectory() as folder, open(pathlib.Path(folder) / "log", "w") as log:
        runs = measure(options, pathlib.Path(folder), log)
    ours, theirs = runs["kvkeep"], runs["peer"]
    print(f"beside {options.busy} busy loops on {os.cpu_count()} processors, {options.pairs} pairs, load now "
          f"{os.getloadavg()[0]:.0f}")
    for at, what in ((0, "wall"), (1, "processor")):
        print(f"{what:9}: kvkeep {shown([run[at] for run in ours])}, peer {shown([run[at] for run in theirs])}, "
              f"ratio {shown([a[at] / b[at] for a, b in zip(ours, theirs)], '')}")


if __name__ == "__main__":
    main()
