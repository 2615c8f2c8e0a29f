#!/usr/bin/env python3
"""CPU seconds per token against llama-server, one request at a time, with the cache on but missing.

    bench/parity.py --kvkeep build/kvkeep --peer llama-server --model small.gguf [--json FILE]

Both servers run at once and are asked in turn; only one of them works at a time. CPU time does not count what other
programs do, but they still disturb it (caches, clock rates), so each figure is the median over pairs of neighbouring
runs, with the quartiles of the pairs. All prompts differ from their first words on: nothing can be reused.
"""

import argparse
import contextlib
import itertools
import json
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import run_workloads
import workload
from kvkeep_process import ServerProcess

GOAL = 1.03
SHARED_FLAGS = ["-np", "1", "-t", "1", "-c", "8192", "-b", "2048", "-ub", "512", "-fa", "on"]

# Tokens of the prompt and of the reply. A prefill run counts the whole run over the prompt's tokens; a decode run counts
# what comes after the first token over the tokens left.
KINDS = {"prefill": (2000, 1), "decode": (30, 256), "decode behind 2000": (2000, 256)}

# After the reply kvkeep still writes what it captured; that is part of its price.
SETTLE_S = 0.4


def cpu_clock(process_id):
    """Linux's clock of another process's CPU time: the id says which process and that scheduler time is meant."""
    return (~process_id << 3) | 2


class Side:
    """One server and what its runs cost, by kind."""

    def __init__(self, server):
        self.server = server
        self.seconds_per_token = {kind: [] for kind in KINDS}

    def run(self, kind, prompt):
        reply_tokens = KINDS[kind][1]
        clock = cpu_clock(self.server.process.pid)
        begin = time.clock_gettime(clock)
        first = None
        timings = None
        for _, event in self.server.stream("/v1/completions", {"prompt": prompt, "max_tokens": reply_tokens,
                                                               "temperature": 0, "stream": True, "ignore_eos": True}):
            first = first or time.clock_gettime(clock)
            if event != "[DONE]":
                timings = event.get("timings") or timings
        time.sleep(SETTLE_S)
        end = time.clock_gettime(clock)
        if timings["predicted_n"] != reply_tokens or timings["cache_n"] > 8:
            raise RuntimeError(f"not the run that was asked for: {timings}")
        seconds = (end - begin) / timings["prompt_n"] if kind == "prefill" else (end - first) / (reply_tokens - 1)
        self.seconds_per_token[kind].append(seconds)


def measure(sides, runs, progress):
    labels = itertools.count()
    for pair in range(runs):
        for kind, (prompt_tokens, _) in KINDS.items():
            # Who goes first changes with each pair, so that a drift of the machine favours neither.
            order = sides if pair % 2 == 0 else sides[::-1]
            for side in order:
                side.run(kind, prompt_of(side.server, f"parity {next(labels)}", prompt_tokens))
            progress.show(f"parity: pair {pair + 1}/{runs}, {kind}")
    progress.done(f"parity: {runs} pairs")


def prompt_of(server, label, tokens):
    def pieces_of(text):
        reply = server.post("/tokenize", {"content": text, "add_special": False, "with_pieces": True})
        return [token["piece"] for token in reply["tokens"]]

    return workload.text_of_tokens(label, tokens, pieces_of)


def summary(ours, theirs):
    ratios = [a / b for a, b in zip(ours, theirs)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {"ratio": round(middle, 4), "quartiles": [round(low, 4), round(high, 4)],
            "kvkeep_us_per_token": round(statistics.median(ours) * 1e6, 1),
            "peer_us_per_token": round(statistics.median(theirs) * 1e6, 1), "pairs": len(ratios)}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvkeep", default="build/kvkeep", help="the program (default: %(default)s)")
    parser.add_argument("--peer", default="llama-server", help="llama-server (default: %(default)s)")
    parser.add_argument("--model", help="GGUF file (default: a generated small one)")
    parser.add_argument("--runs", type=int, default=15, help="pairs of runs (default: %(default)s)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    return parser.parse_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = parse_options()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvkeep-parity-"))
        model = options.model or run_workloads.make_model(options.kvkeep, "small", directory)
        sides = [Side(stack.enter_context(ServerProcess([*command, "-m", model, *SHARED_FLAGS]))) for command in (
            [options.kvkeep, "serve", "--kv-disk-dir", directory + "/kv"], [options.peer])]
        measure(sides, options.runs, run_workloads.Progress())
    figures = {kind: summary(*(side.seconds_per_token[kind] for side in sides)) for kind in KINDS}
    for kind, figure in figures.items():
        print(f"{kind:18} kvkeep / llama-server {figure['ratio']:.3f} "
              f"(quartiles {figure['quartiles'][0]:.3f} to {figure['quartiles'][1]:.3f}, {figure['pairs']} pairs; "
              f"{figure['kvkeep_us_per_token']:.0f} and {figure['peer_us_per_token']:.0f} us of CPU per token)"
              f"{'' if figure['ratio'] <= GOAL else '  SLOWER THAN THE GOAL'}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"flags": SHARED_FLAGS, "goal": GOAL, "figures": figures}, indent=1))
    return 0 if all(figure["ratio"] <= GOAL for figure in figures.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        print(f"parity: {error}", file=sys.stderr)
        sys.exit(2)
