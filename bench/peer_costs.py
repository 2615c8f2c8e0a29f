#!/usr/bin/env python3
"""Processor time of requests and of held replies, kvkeep's next to llama-server's: both run at once and are asked in turn.

  peer_costs.py KVKEEP LLAMA_SERVER [--rounds N] [--only requests|grammars] [--json FILE]

docs/bench.md says what the figures mean. All are processor time of the servers' threads (/proc/PID/task/TID/schedstat).
"""

import argparse
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "testing" / "e2e"))

from kvkeep_process import HttpError, ServerProcess  # noqa: E402

CHAT = "/v1/chat/completions"
COUNT = "/v1/chat/completions/input_tokens"
TEMPLATES = [None, "qwen3", "llama3", "harmony", "glm4"]  # None: the generated model's own
ASKED_PER_ROUND = 10
WORDS = ("the river garden of and to in that with for people time year day thing man world life hand part child eye woman place "
         "work week case point company number group problem fact").split()

RECORDS = {"type": "array", "minItems": 200, "items": {
    "type": "object", "required": ["name", "count", "kind", "ok"], "additionalProperties": False, "properties": {
        "name": {"type": "string", "maxLength": 40}, "count": {"type": "integer", "minimum": 0, "maximum": 1000},
        "kind": {"enum": ["first", "second", "third"]}, "ok": {"type": "boolean"}}}}
ARGUMENTS = {"type": "object", "properties": {"records": RECORDS}, "required": ["records"], "additionalProperties": False}
TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 500}
TOOLS = [{"type": "function", "function": {"name": f"write_{i}", "description": "Writes records.", "parameters": ARGUMENTS}}
         for i in range(4)]
HELD = {"no grammar": {"ignore_eos": True},
        "records": {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": ARGUMENTS}}},
        "texts": {"response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": TEXTS}}},
        "a call of a tool": {"tools": TOOLS, "tool_choice": "required"}}
# llama-server begins a required call with free text. Its tokens under the same schema, after as long a prompt, stand for it.
STAND_IN = {**HELD["records"], "messages": [{"role": "user", "content": json.dumps(TOOLS) + " Write."}]}


def post(process, path, body):
    """The reply; None if llama-server cannot parse a reply that ends in the middle, which it notices when it has all of it."""
    try:
        return process.post(path, body)
    except HttpError as error:
        if error.status != 500:
            raise
        return None


class Side:
    """A server, and the processor time of its threads."""

    def __init__(self, name, process):
        self.name, self.process = name, process

    def cpu_ns(self, outside=False):
        """So far, of all threads or of all but the one that runs the model: "engine" here, the main one in llama-server."""
        pid, total = self.process.process.pid, 0
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                runs_model = (task / "comm").read_text().strip() == "engine" if self.name == "kvkeep" else int(task.name) == pid
                if not (outside and runs_model):
                    total += int((task / "schedstat").read_text().split()[0])
        return total

    def cost_ms(self, asks, outside=False):
        """Milliseconds of one of the requests, and the reply to the last."""
        reply, begin = None, self.cpu_ns(outside)
        for path, body in asks:
            reply = post(self.process, path, body)
        time.sleep(0.1)  # work after the last reply counts, too
        return (self.cpu_ns(outside) - begin) / 1e6 / len(asks), reply


class Figures:
    def __init__(self):
        self.parts = []

    def add(self, name, unit, values, most=None):
        """A goal counts as missed if the lower quartile is above it, and as not measurable if only the median is."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        part = {"name": name, "unit": unit, "median": median, "low_quartile": low, "high_quartile": high, "samples": len(values),
                "goal": "" if most is None else f"<= {most:g}", "holds": None if most is None else median <= most or low <= most,
                "unmeasurable": most is not None and low <= most < median}
        self.parts.append(part)
        print(f"{name}: {median:.3f} {unit} ({low:.3f} to {high:.3f}) {part['goal']}"
              f"{'' if part['holds'] is not False else ' MISSED'}", flush=True)

    def compare(self, name, unit, ours, theirs, most):
        self.add(f"{name}: kvkeep / llama-server", "ratio", [a / b for a, b in zip(ours, theirs)], most)
        self.add(f"{name}: kvkeep", unit, ours)
        self.add(f"{name}: llama-server", unit, theirs)


@contextlib.contextmanager
def both(options, *flags):
    flags = ["-c", "8192", "-np", "1", "-t", "1", "-fa", "on", "--jinja", *map(str, flags)]
    ours = ServerProcess([options.kvkeep, "serve", *flags, "--no-kv-disk"])
    theirs = ServerProcess([options.peer, *flags, "--no-webui"])
    with ours, theirs:
        yield Side("kvkeep", ours), Side("llama-server", theirs)


class Chats:
    """Chats of some 2,000 tokens. No two share a message."""

    def __init__(self):
        self.random = random.Random(5)

    def words(self, count):
        return " ".join(self.random.choices(WORDS, k=count))

    def plain(self):
        messages = [{"role": "system", "content": self.words(600)}]
        for _ in range(5):
            messages += [{"role": "user", "content": self.words(90)}, {"role": "assistant", "content": self.words(130)}]
        return {"messages": [*messages, {"role": "user", "content": self.words(40)}]}

    def with_tools(self):
        tools = [{"type": "function", "function": {"name": f"tool_{i}", "description": self.words(20), "parameters": {
            "type": "object", "properties": {"path": {"type": "string", "description": self.words(5)}, "count": {"type": "integer"}},
            "required": ["path"]}}} for i in range(8)]
        messages = [{"role": "system", "content": self.words(300)}]
        for i in range(4):
            call = {"id": f"call_{i}", "type": "function", "function": {
                "name": "tool_1", "arguments": json.dumps({"path": self.words(1), "count": i})}}
            messages += [{"role": "user", "content": self.words(30)}, {"role": "assistant", "content": "", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": call["id"], "content": self.words(140)},
                         {"role": "assistant", "content": self.words(30)}]
        return {"messages": [*messages, {"role": "user", "content": self.words(30)}], "tools": tools}

    def next_turn(self, chat):
        """The same with another last message."""
        return {**chat, "messages": [*chat["messages"][:-1], {"role": "user", "content": self.words(30)}]}


def measure_requests(options, model, figures):
    for template in TEMPLATES:
        file = [] if template is None else ["--chat-template-file", HERE.parent / "tests/jinja/templates" / f"{template}.jinja"]
        with both(options, "-m", model, *file) as sides:
            for kind in ("plain", "with_tools"):
                requests_of(options, sides, kind, f"{kind.replace('_', ' ')}, template {template or 'of the model'}", figures)


def requests_of(options, sides, kind, name, figures):
    chats = Chats()
    make = getattr(chats, kind)
    standing = make()
    new, beyond, warm = ({side.name: [] for side in sides} for _ in range(3))
    for number in range(options.rounds + 1):
        asked = [make() for _ in range(ASKED_PER_ROUND)]
        turns = [{**chats.next_turn(standing), "max_tokens": 1, "temperature": 0} for _ in range(ASKED_PER_ROUND)]
        for side in sides if number % 2 == 0 else sides[::-1]:
            texts = [side.process.post("/apply-template", chats.next_turn(chat))["prompt"] for chat in asked]
            costs = (side.cost_ms([(COUNT, chat) for chat in asked])[0],
                     side.cost_ms([("/tokenize", {"content": text, "parse_special": True}) for text in texts])[0],
                     side.cost_ms([(CHAT, turn) for turn in turns], outside=True)[0])
            if number == 0:
                continue  # warms up, and computes the prompt
            new[side.name].append(costs[0])
            beyond[side.name].append(costs[0] - costs[1])
            warm[side.name].append(costs[2])
    ours, theirs = (side.name for side in sides)
    figures.compare(f"a new chat, {name}, to ids", "ms", new[ours], new[theirs], 1.3)
    figures.add(f"a new chat, {name}, to ids, beyond tokenizing its text: kvkeep", "ms", beyond[ours], 2)
    figures.compare(f"a further turn, {name}, without the engine", "ms", warm[ours], warm[theirs], 1.3)


def held_cost_ms(side, fields, tokens, seed):
    """Milliseconds of a token, without those of the prompt and of reading the grammar."""
    def spent(limit):
        body = {"messages": [{"role": "user", "content": "Write."}], "max_tokens": limit, "temperature": 1, "seed": seed, **fields}
        begin = side.cpu_ns()
        reply = post(side.process, CHAT, body)
        return side.cpu_ns() - begin, reply["usage"]["completion_tokens"] if reply else limit
    first, last = spent(1), spent(tokens)
    if last[1] < tokens:
        raise RuntimeError(f"{side.name} ended after {last[1]} tokens")
    return (last[0] - first[0]) / 1e6 / (tokens - 1)


def measure_grammars(options, folder, figures):
    for name, flags in (("131,072 tokens, words", ["--vocabulary", "131072"]),
                        ("131,072 tokens, any text", ["--vocabulary", "131072", "--free-output"]),
                        ("a model of real size, 32,768 tokens", ["--size", "real", "--vocabulary", "32768"])):
        model = made(options, folder, *flags)
        tokens = 60 if "real" in flags else 300
        with both(options, "-m", model, "--chat-template-file", HERE.parent / "tests/jinja/templates/hermes.jinja") as sides:
            for kind, fields in HELD.items():
                costs = {side.name: [] for side in sides}
                for number in range(options.rounds):
                    for side in sides if number % 2 == 0 else sides[::-1]:
                        same = STAND_IN if "tools" in fields and side.name != "kvkeep" else fields
                        costs[side.name].append(held_cost_ms(side, same, tokens, number + 1))
                ours, theirs = (costs[side.name] for side in sides)
                figures.compare(f"a token held to {kind}, {name}" if kind in list(HELD)[1:] else f"a token, {kind}, {name}", "ms",
                                ours, theirs, 1 / 0.95)


def made(options, folder, *flags):
    path = str(pathlib.Path(folder) / f"{len(list(pathlib.Path(folder).iterdir()))}.gguf")
    subprocess.run([options.kvkeep, "model", "make", *flags, path], check=True, capture_output=True)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvkeep")
    parser.add_argument("peer")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=["requests", "grammars"])
    parser.add_argument("--json")
    options = parser.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "grammars":
            measure_requests(options, made(options, folder), figures)
        if options.only != "requests":
            measure_grammars(options, folder, figures)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures.parts, indent=1) + "\n")
    return int(any(part["holds"] is False for part in figures.parts))


if __name__ == "__main__":
    sys.exit(main())
