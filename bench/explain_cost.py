#!/usr/bin/env python3
"""The price of explanations, the trace and metrics: replies with all of them and with none, of two programs asked in turn.

  explain_cost.py KVKEEP UNEXPLAINED [--rounds N] [--reply-tokens N] [--size small] [--json FILE]

UNEXPLAINED is the program that is built without explanations (kvkeep_unexplained). It runs twice, so that the spread between
two equal servers is known. The same is asked of a tiny model: a difference of 1 % is lost in what a model's own calls differ
by, and the cost of explaining does not depend on the model. docs/bench.md says what the figures mean.
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing" / "e2e")]

from kvkeep_process import ServerProcess  # noqa: E402
from peer_costs import WORDS, Figures, Side  # noqa: E402

CHAT = "/v1/chat/completions"
MOST = 1.01
SETTLE_S = 0.1  # the trace is written, and state is captured, after the reply
OPENING_WORDS, TURN_WORDS, TURNS = 1500, 40, 12
LIMIT_S = 600
TINY_ROUNDS = 4  # for each of the others: they are short
WITH, WITHOUT, AGAIN = "with", "without", "without, again"


class Talk:
    """A conversation that grows by a message and its answer, and begins anew after some turns."""

    kind = "new-content"

    def __init__(self):
        self.random = random.Random(7)
        self.messages = []

    def words(self, count):
        return " ".join(self.random.choices(WORDS, k=count))

    def next(self):
        """The next request; `is_fresh` if nothing of it is known."""
        is_fresh = len(self.messages) in (0, 2 * TURNS)
        if is_fresh:
            self.messages = [{"role": "system", "content": self.words(OPENING_WORDS)}]
        else:
            self.messages.append({"role": "assistant", "content": self.words(TURN_WORDS)})
        self.messages.append({"role": "user", "content": self.words(TURN_WORDS)})
        return self.messages, is_fresh


class Clock:
    """Prompts that differ in the time of day, which stands before text that stays the same."""

    kind = "volatile-text"

    def __init__(self):
        self.talk = Talk()
        self.opening, self.rest = self.talk.words(OPENING_WORDS), self.talk.words(3 * TURN_WORDS)
        self.asked = 0

    def next(self):
        self.asked += 1
        moment = f"{self.asked // 60 % 24:02}:{self.asked % 60:02}"
        return [{"role": "system", "content": f"{self.opening}\nIt is {moment} now.\n{self.rest}"},
                {"role": "user", "content": "Go on."}], self.asked == 1


LOADS = {"a turn of a conversation": Talk, "a prompt with a new time of day": Clock}


def ask(side, messages, reply_tokens):
    """Milliseconds to the first token, of each further token, and of processor time; and the last event with timings."""
    body = {"messages": messages, "max_tokens": reply_tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    cpu_ns = side.cpu_ns()
    first = last = timings = None
    for at, event in side.process.stream(CHAT, body, timeout_s=LIMIT_S):
        if event == "[DONE]":
            break
        timings = event.get("timings", timings)
        if any(choice["delta"].get("content") for choice in event["choices"]):
            first, last = first or at, at
    if side.is_full:
        side.process.get("/metrics")
    time.sleep(SETTLE_S)
    cpu_ms = (side.cpu_ns() - cpu_ns) / 1e6
    return {"TTFT": first * 1e3, "time per token": (last - first) * 1e3 / (reply_tokens - 1),
            "processor time of a reply": cpu_ms}, timings


def check(side, timings, kind):
    """The servers differ as they should."""
    found = (timings.get("cache_break") or {}).get("kind")
    if found != (kind if side.is_full else None):
        raise RuntimeError(f"the server {side.name} explained a request as {found}")


@contextlib.contextmanager
def all_sides(options, model, folder):
    flags = ["-m", model, "-c", "8192", "-t", "1", "-np", "1", "--no-kv-disk", "--no-prefill-ahead"]
    full = [options.kvkeep, "serve", *flags, "--trace", os.path.join(folder, "trace.jsonl")]
    bare = [options.unexplained, "serve", *flags, "--no-metrics"]
    with contextlib.ExitStack() as stack:
        sides = []
        for name, command in ((WITH, full), (WITHOUT, bare), (AGAIN, bare)):
            side = Side(name, stack.enter_context(ServerProcess(command)))
            side.is_full = name == WITH
            sides.append(side)
        yield sides


def measure(options, sides, load, rounds):
    """Per figure and server the values of all rounds, in which each server is asked the same."""
    talk = load()
    values = {}
    for number in range(rounds):
        messages, is_fresh = talk.next()
        while is_fresh:
            for side in sides:
                ask(side, messages, 2)
            messages, is_fresh = talk.next()
        turn = number % len(sides)
        for side in sides[turn:] + sides[:turn]:
            figures, timings = ask(side, messages, options.reply_tokens)
            check(side, timings, load.kind)
            for name, value in figures.items():
                values.setdefault(name, {}).setdefault(side.name, []).append(value)
    return values


def median_interval(values):
    """Between these the median lies with a probability of 95 %, whatever the distribution."""
    ordered, half = sorted(values), 0.98 * math.sqrt(len(values))
    low, high = math.floor(len(values) / 2 - half), math.ceil(len(values) / 2 + half)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def add_ratios(figures, name, ratios, goal):
    figures.add(name, "ratio", ratios, goal)
    low, high = median_interval(ratios)
    figures.parts[-1] |= {"median_low": low, "median_high": high}
    print(f"  the median lies between {low:.4f} and {high:.4f}", flush=True)


def without_of(values):
    """The geometric mean of the two equal servers: chance moves it less than one of them."""
    return [math.sqrt(a * b) for a, b in zip(values[WITHOUT], values[AGAIN])]


def compare(figures, name, values, tiny):
    without = without_of(values)
    ratios = [[a / b for a, b in zip(ours, theirs)] for ours, theirs in
              ((values[WITH], without), (values[AGAIN], values[WITHOUT]))]
    added = [a - b for a, b in zip(tiny[WITH], without_of(tiny))]
    usual = statistics.median(without)
    add_ratios(figures, f"{name}: {WITH} / {WITHOUT}", ratios[0], None)
    add_ratios(figures, f"{name}: {AGAIN} / {WITHOUT}", ratios[1], None)
    add_ratios(figures, f"{name}: {WITHOUT} + added / {WITHOUT}", [1 + each / usual for each in added], MOST)
    figures.add(f"{name}: {WITHOUT}", "ms", without)
    figures.add(f"{name}: added", "ms", added)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvkeep")
    parser.add_argument("unexplained")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--reply-tokens", type=int, default=48)
    parser.add_argument("--size", default="small")
    parser.add_argument("--json")
    options = parser.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        models = {size: os.path.join(folder, f"{size}.gguf") for size in (options.size, "tiny")}
        for size, model in models.items():
            subprocess.run([options.kvkeep, "model", "make", "--size", size, model], check=True, capture_output=True)
        for load, kind in LOADS.items():
            with all_sides(options, models["tiny"], folder) as sides:
                tiny = measure(options, sides, kind, TINY_ROUNDS * options.rounds)
            with all_sides(options, models[options.size], folder) as sides:
                for name, values in measure(options, sides, kind, options.rounds).items():
                    compare(figures, f"{load}, {name}", values, tiny[name])
    if options.json:
        report = {"ended": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()), "size": options.size,
                  "reply_tokens": options.reply_tokens, "load": os.getloadavg(), "parts": figures.parts}
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    return int(any(part["holds"] is False for part in figures.parts))


if __name__ == "__main__":
    sys.exit(main())
