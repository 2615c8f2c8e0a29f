#!/usr/bin/env python3
"""Plays the workloads of bench/workloads over HTTP and prints prefilled tokens / tokens never computed before.

    bench/run_workloads.py --kvkeep build/kvkeep --shim build/count_shim.so --model small.gguf [--peer llama-server]

Counts are taken at the engine. Exit status: 0; 1 when a bounded ratio is above the bound or a reply's own figures differ
from the engine's; 2 when something could not be run.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

import player
import workload
from kvkeep_process import ServerProcess

RATIO_BOUND = 1.02
WRITTEN_BOUND = 1.1  # payload bytes written / bytes of new rows

# Column, extra flags of kvkeep, whether the small context is used, whether the ratio is bounded.
VARIANTS = (
    ("kvkeep", ("--restore", "always"), False, True),
    ("small -c", ("--restore", "always"), True, False),
    ("no RAM", ("--restore", "always", "--cache-ram", "0"), False, False),
    ("auto", ("--restore", "auto"), False, False),
)
PEER = "peer"

# Counts do not depend on threads; two that wait for each other on a busy machine are slower than one.
THREADS = ("-t", "1")

# Under which a reply with the cache is compared with one without it: results then do not depend on what was computed
# together, only, in their last bits, on the order in which rows lie in memory. That moves logits (2 root mean square)
# by less than NOISE; a token that wins when favoured by NOISE is as good as the likeliest.
EXACT_FLAGS = ("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")
NOISE = 0.2


class Progress:
    """One line on a terminal, rewritten; else a line per workload."""

    def __init__(self):
        self._terminal = sys.stderr.isatty()

    def show(self, text):
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    def done(self, text):
        print(f"\r\x1b[K{text}" if self._terminal else text, file=sys.stderr, flush=True)


def row_bytes_per_token(log):
    return int(re.search(r"(\d+) bytes of rows per token", log).group(1))


def payload_bytes(directory):
    """Payload bytes of all segment files, as their headers say (docs/format.md)."""
    total = 0
    for path in pathlib.Path(directory).rglob("*.kvs"):
        with open(path, "rb") as segment:
            header = segment.read(136)
        total += struct.unpack_from("<Q", header, 128)[0]
    return total


def written_by_thread(pid, name):
    """Bytes that threads of this name passed to write calls."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            total += int(re.search(r"wchar: (\d+)", (task / "io").read_text()).group(1))
    return total


def measure_writes(server, directory, decoded_prefixes):
    time.sleep(0.5)  # everything captured is on disk within 0.2 s
    rows = decoded_prefixes * row_bytes_per_token(server.log())
    return {"new_row_bytes": rows, "payload_bytes": payload_bytes(directory),
            "written_bytes": written_by_thread(server.process.pid, "kv-writer")}


def play(command, load, options, progress, label, *, disk_directory=None, replies=None):
    """One workload on one server -> dict for the report. The replies are appended to the list `replies`."""
    def show(done):
        progress.show(f"{load.name} {label}: {done}/{load.requests} requests")

    with ServerProcess(command, count_shim=options.shim) as server:
        kill_wait_s = 0.5 if options.quick else None
        outcome = player.Player(server, load, progress=show, kill_wait_s=kill_wait_s).play()
        result = {"ratio": round(outcome.ratio, 4), "prefilled": outcome.prefilled_tokens, "new": outcome.new_tokens,
                  "prompt": outcome.prompt_tokens, "requests": outcome.requests, "from": outcome.tokens_from,
                  "errors": outcome.errors}
        if replies is not None:
            replies += outcome.replies
        if disk_directory and load.kills == 0:
            result["writes"] = measure_writes(server, disk_directory, outcome.decoded_prefixes)
    progress.done(f"{load.name} {label}: {result['ratio']:.3f}")
    return result


def play_kvkeep(load, variant, options, progress, replies=None):
    label, flags, small, _ = variant
    with tempfile.TemporaryDirectory(prefix="kvkeep-workload-") as directory:
        context = load.small_context if small else load.context
        command = [options.kvkeep, "serve", "-m", options.model, "-c", str(context), *THREADS,
                   "--kv-disk-dir", directory, *flags, *options.flag]
        return play(command, load, options, progress, label, disk_directory=directory, replies=replies)


def play_peer(load, options, progress):
    command = [options.peer, "-m", options.model, "-c", str(load.context), *THREADS, *options.flag]
    return play(command, load, options, progress, PEER)


class Truth:
    """A server that computes every prompt from its first token on."""

    def __init__(self, server):
        self._server = server

    def _tokens(self, prompt, count, **fields):
        reply = self._server.post("/v1/completions", {"prompt": prompt, "max_tokens": count, "temperature": 0,
                                                      "cache_prompt": False, "return_tokens": True, **fields})
        return reply["tokens"]

    def judge(self, reply):
        """"same", "noise" (each token is the truth's choice, or as good as that) or "different"."""
        at, verdict = 0, "same"
        while True:
            rest = self._tokens(reply.prompt + reply.tokens[:at], len(reply.tokens) - at)
            at += next((n for n, (a, b) in enumerate(zip(rest, reply.tokens[at:])) if a != b), len(rest))
            if at == len(reply.tokens):
                return verdict
            favour = {str(reply.tokens[at]): NOISE}
            if self._tokens(reply.prompt + reply.tokens[:at], 1, logit_bias=favour) != [reply.tokens[at]]:
                return "different"
            at, verdict = at + 1, "noise"
            if at == len(reply.tokens):
                return verdict


def check_text(load, options, progress):
    """Plays once more and compares every reply with one that was computed from nothing -> verdicts and their numbers."""
    replies = []
    play_kvkeep(load, ("text", ("--restore", "always", *EXACT_FLAGS), False, False), options, progress, replies)
    verdicts = {"same": 0, "noise": 0, "different": 0}
    command = [options.kvkeep, "serve", "-m", options.model, "-c", str(load.context), *THREADS, "--no-cache-prompt",
               "--no-kv-disk", *EXACT_FLAGS]
    with ServerProcess(command) as server:
        for number, reply in enumerate(replies, 1):
            verdicts[Truth(server).judge(reply)] += 1
            progress.show(f"{load.name} text without a cache: {number}/{len(replies)} replies")
    progress.done(f"{load.name} text: {verdicts}")
    return verdicts


def run(options):
    progress = Progress()
    variants = VARIANTS[:1] if options.quick else VARIANTS
    report = {}
    for load in options.workloads:
        columns = {variant[0]: play_kvkeep(load, variant, options, progress) for variant in variants}
        if options.peer:
            columns[PEER] = play_peer(load, options, progress)
        entry = {"title": load.title, "columns": columns}
        if options.check_text:
            entry["text"] = check_text(load, options, progress)
        report[load.name] = entry
    return report


def failures(report):
    """What is wrong, one line each."""
    bounded = {variant[0] for variant in VARIANTS if variant[3]}
    found = []
    for name, entry in report.items():
        for label, column in entry["columns"].items():
            if label in bounded and column["ratio"] > RATIO_BOUND:
                found.append(f"{name}: ratio {column['ratio']:.3f} is above {RATIO_BOUND}")
            writes = column.get("writes")
            if label in bounded and writes and writes["payload_bytes"] > WRITTEN_BOUND * writes["new_row_bytes"]:
                found.append(f"{name}: {writes['payload_bytes']} payload bytes for {writes['new_row_bytes']} of new rows")
            if label != PEER:
                found += [f"{name} {label}: {error}" for error in column["errors"]]
        if entry.get("text", {}).get("different"):
            found.append(f"{name}: {entry['text']['different']} replies differ from those without a cache")
    return found


def print_table(report):
    labels = list(next(iter(report.values()))["columns"])
    print(f"{'prefilled / never computed before':66}" + "".join(f"{label:>10}" for label in labels))
    for entry in report.values():
        cells = "".join(f"{entry['columns'][label]['ratio']:10.3f}" for label in labels)
        print(f"{entry['title'][:65]:66}{cells}")
    for entry in report.values():
        writes = entry["columns"][labels[0]].get("writes")
        if writes and entry is next(iter(report.values())):
            print(f"payload written / new rows, {entry['title']}: "
                  f"{writes['payload_bytes'] / writes['new_row_bytes']:.3f} "
                  f"(all bytes written: {writes['written_bytes'] / writes['new_row_bytes']:.3f})")
    texts = [entry["text"] for entry in report.values() if "text" in entry]
    if texts:
        print("replies with the cache, compared with those without: " + ", ".join(
            f"{sum(text[verdict] for text in texts)} {verdict}" for verdict in texts[0]))


def make_model(kvkeep, size, directory):
    path = os.path.join(directory, f"{size}.gguf")
    subprocess.run([kvkeep, "model", "make", "--arch", "llama", "--size", size, path], check=True,
                   stdout=subprocess.DEVNULL)
    return path


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvkeep", default="build/kvkeep", help="the program (default: %(default)s)")
    parser.add_argument("--shim", default="build/count_shim.so", help="the counting shim (default: %(default)s)")
    parser.add_argument("--model", help="GGUF file (default: a generated one, small, with --quick tiny)")
    parser.add_argument("--peer", metavar="LLAMA_SERVER", help="also play against this llama-server with its defaults")
    parser.add_argument("--quick", action="store_true", help="tiny model, short waits, bounded runs only")
    parser.add_argument("--check-text", action="store_true", help="also compare all replies with those without a cache")
    parser.add_argument("--flag", action="append", default=[], help="one more flag for the servers, such as --flag=--no-cache-prompt")
    parser.add_argument("--json", metavar="FILE", help="write all counts there")
    parser.add_argument("workloads", nargs="*", help="names of workloads (default: all)")
    options = parser.parse_args()
    options.kvkeep, options.shim = os.path.abspath(options.kvkeep), os.path.abspath(options.shim)
    known = {load.name: load for load in workload.all_workloads()}
    unknown = [name for name in options.workloads if name not in known]
    if unknown:
        parser.error(f"unknown workload {unknown[0]}; known: {', '.join(known)}")
    options.workloads = [known[name] for name in options.workloads] or list(known.values())
    return options


def main():
    # So that `with` blocks end the servers when this program is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_options()
    with contextlib.ExitStack() as stack:
        if not options.model:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvkeep-model-"))
            options.model = make_model(options.kvkeep, "tiny" if options.quick else "small", directory)
        report = run(options)
    print_table(report)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    problems = failures(report)
    for problem in problems:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, subprocess.CalledProcessError, workload.WorkloadError) as error:
        print(f"run_workloads: {error}", file=sys.stderr)
        sys.exit(2)
