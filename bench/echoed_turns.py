#!/usr/bin/env python3
"""The cost of a turn that a client sends back in its own words: prefilled tokens beyond the new ones.

    KVKEEP_PROGRAM=build/kvkeep KVKEEP_COUNT_SHIM=build/count_shim.so bench/echoed_turns.py [server flags] > table.md

docs/exact-replay.md has the table; its last column is of a server with --replay off.
Conversations of calls and answers with generated models, whose calls strict schemas and grammars force into shapes that
no template writes. Each reply goes back as a kind of client sends it; tokens are counted at the engine. What is new in a
prompt is all after the previous turn: its end, the result or question, and the opening of the answer; of the turn itself,
the last token was never evaluated. Exit status 1 if a turn costs more than LIMIT tokens beyond that.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing", "e2e"))

from kvkeep_process import ServerProcess  # noqa: E402

LIMIT = 16
ROUNDS = 3  # questions; each is answered after two calls

SCHEMA = {"type": "object", "additionalProperties": False, "required": ["file", "old", "line"],
          "properties": {"file": {"type": "string", "enum": ["main.c", "notes.txt"]},
                         "old": {"type": "string", "enum": ["one two", " three", "\"four\""]},
                         "line": {"type": "integer", "minimum": 1}, "replace_all": {"type": "boolean"}}}
# In the grammars below a marker is the token, never letters that spell it. Not as any template writes calls: spaces, and a
# key's place.
THOUGHT = '<think> " " [a-z ]{20,60} </think> "\\n"'
CALL = ('<tool_call> "{ \\"name\\":  \\"edit\\", \\"arguments\\" : {\\"line\\":" [1-9]{1,3} " ,\\"file\\":\\"" [a-z]{4,9}'
        ' "\\",  \\"old\\": \\"" [a-z ]{2,9} "\\" } }" </tool_call>')
XML_CALL = ('<tool_call> "\\n<function=edit>\\n\\n<parameter=line>\\n" [1-9]{1,3} "\\n\\n</parameter> <parameter=file>" [a-z]{4,9}'
            ' "</parameter><parameter=old>\\n" [a-z]{2,9} "\\n</parameter>\\n\\n</function>" </tool_call>')
TEXT = '"  " [a-z ]{30,60} " \\n"'


# --- clients ---

def each_call(message, change):
    for call in message.get("tool_calls", []):
        function = call["function"]
        function["arguments"] = change(json.loads(function["arguments"]))


def compact(arguments):
    return json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)


def as_told(message):
    """Arguments as the string they came in (codex)."""


def parsed(message):
    """Arguments parsed and written anew, no content as "" (opencode, qwen-code)."""
    each_call(message, compact)
    message["content"] = message.get("content") or ""


def defaults_added(message):
    """The same, with a default value put first (Claude Code's edits)."""
    each_call(message, lambda arguments: compact({"replace_all": False, **arguments}))
    message["content"] = message.get("content") or None


def sorted_and_indented(message):
    """Keys in another order, over several lines."""
    each_call(message, lambda arguments: json.dumps(arguments, indent=2, sort_keys=True))


def thinking_dropped(message):
    """Parsed, thinking left out, white space at both ends of texts cut off (continue, cline)."""
    parsed(message)
    message.pop("reasoning_content", None)
    message["content"] = message["content"].strip()


CLIENTS = [as_told, parsed, defaults_added, sorted_and_indented, thinking_dropped]


# --- dialects: a turn of the assistant, and what is sent next ---

TOOL = {"name": "edit", "description": "Edits.", "strict": True}
TOOLS = [{"type": "function", "function": {**TOOL, "parameters": SCHEMA}}]


class Chat:
    name = "chat completions"

    def __init__(self, server, client):
        self.server, self.client, self.messages = server, client, []

    def ask(self, fields):
        reply = self.server.post("/v1/chat/completions", {"messages": self.messages, "tools": TOOLS, "max_tokens": 400,
                                                          "temperature": 1, "parallel_tool_calls": False, **fields})
        message = copy.deepcopy(reply["choices"][0]["message"])
        self.client(message)
        self.messages.append(message)
        self.calls = [call["id"] for call in message.get("tool_calls", [])]
        return reply["usage"]["completion_tokens"]

    def add(self, text):
        """A result of each call, or a question; the template renders it."""
        new = [{"role": "tool", "tool_call_id": call, "content": text} for call in self.calls]
        new = new or [{"role": "user", "content": text}]
        self.messages += new
        return new

    calls = ()


class Messages:
    """Anthropic's: thinking and calls are blocks of the content."""

    name = "messages"

    def __init__(self, server, client):
        self.server, self.client, self.messages, self.calls = server, client, [], []

    def ask(self, fields):
        kind = {"required": "any"}.get(fields.get("tool_choice"), fields.get("tool_choice", "auto"))
        single = {} if kind == "none" else {"disable_parallel_tool_use": True}
        body = {"model": "any", "messages": self.messages, "max_tokens": 400, "temperature": 1,
                "tools": [{**TOOL, "input_schema": SCHEMA}], **fields, "tool_choice": {"type": kind, **single}}
        reply = self.server.post("/v1/messages", body)
        content = copy.deepcopy(reply["content"])
        for block in content:
            if block["type"] == "tool_use" and self.client is not as_told:
                block["input"] = {"replace_all": False, **block["input"]}
            if block["type"] == "text" and self.client is thinking_dropped:
                block["text"] = block["text"].strip()
        if self.client is thinking_dropped:
            content = [block for block in content if block["type"] != "thinking"]
        self.messages.append({"role": "assistant", "content": content})
        self.calls = [block["id"] for block in content if block["type"] == "tool_use"]
        return reply["usage"]["output_tokens"]

    def add(self, text):
        results = [{"type": "tool_result", "tool_use_id": call, "content": text} for call in self.calls]
        self.messages.append({"role": "user", "content": results or text})
        return [{"role": "tool", "content": text} for _ in self.calls] or [{"role": "user", "content": text}]


class Responses:
    """OpenAI's newer API: items instead of messages."""

    name = "responses"

    def __init__(self, server, client):
        self.server, self.client, self.items, self.calls = server, client, [], []

    def ask(self, fields):
        fields = dict(fields)
        body = {"model": "any", "input": self.items, "max_output_tokens": fields.pop("max_tokens", 400), "temperature": 1,
                "tools": [{"type": "function", **TOOL, "parameters": SCHEMA}], "parallel_tool_calls": False,
                "include": ["reasoning.encrypted_content"], "store": False, **fields}
        reply = self.server.post("/v1/responses", body)
        items = copy.deepcopy(reply["output"])
        for item in items:
            if item["type"] == "function_call":
                self.client({"tool_calls": [{"function": item}]})
            if item["type"] == "message" and self.client is thinking_dropped:
                item["content"][0]["text"] = item["content"][0]["text"].strip()
        if self.client is thinking_dropped:
            items = [item for item in items if item["type"] != "reasoning"]
        self.items += items
        self.calls = [item["call_id"] for item in items if item["type"] == "function_call"]
        return reply["usage"]["output_tokens"]

    def add(self, text):
        results = [{"type": "function_call_output", "call_id": call, "output": text} for call in self.calls]
        self.items += results or [{"role": "user", "content": text}]
        return [{"role": "tool", "content": text} for _ in self.calls] or [{"role": "user", "content": text}]


DIALECTS = [Chat, Messages, Responses]


# --- measuring ---

def words(count, seed):
    kinds = ["river", "stone", "light", "paper", "house", "green", "seven", "table", "music"]
    return " ".join(kinds[(seed * 7 + number * number + number // 3) % len(kinds)] for number in range(count))


def new_tokens(server, new):
    """Counts the ids after a turn's text: its end, these messages, and the opening of the answer."""
    before = {"role": "assistant", "content": "kvkeepanswer"}
    body = {"messages": [{"role": "user", "content": "kvkeepquestion"}, before, *new], "tools": TOOLS}
    prompt = server.post("/apply-template", body)["prompt"]
    return len(server.tokenize(prompt.split("kvkeepanswer")[1], special=True))


def settled(server, quiet_s, first_s):
    """Ids given to the engine, when nothing more is prefilled ahead: for so long nothing was, and at first for longer."""
    seen, since = server.decoded_ids(), time.monotonic() + first_s - quiet_s
    while time.monotonic() - since < quiet_s:
        time.sleep(0.01)
        if (now := server.decoded_ids()) != seen:
            seen, since = now, time.monotonic()
    return seen


class Shapes:
    """Fields that make a model of random weights write a call, or an answer."""

    def __init__(self, server, call, thinks):
        end, think = (server.tokenize(marker, special=True)[0] for marker in ("<|im_end|>", "<think>"))
        ending = {"logit_bias": [[end, 50]]}
        thought = THOUGHT if thinks else ""
        self.turns = {
            "call": {"grammar": f"root ::= {thought} {call}", **ending},
            "strict call": {"tool_choice": "required", "chat_template_kwargs": {"enable_thinking": False},
                            "logit_bias": [[think, -100]]},
            "answer": {"grammar": f"root ::= {thought} {TEXT}", **ending},
            "cut answer": {"grammar": f"root ::= {thought} {TEXT} [a-z]{{400}}", "max_tokens": 60, "tool_choice": "none"},
        }


def conversation(server, dialect, client, shapes, seed, rounds, pauses_s):
    """For each request but the first: kind of the previous turn, tokens prefilled beyond the new ones, and ahead of it."""
    talk, rows, kind = dialect(server, client), [], None
    for number in range(rounds):
        last = "answer" if number % 2 == 0 else "cut answer"
        for step, kind_now in enumerate(("call", "strict call", last)):
            place = seed * 100 + number * 10 + step
            new = talk.add(f"{place} {words(40, place)}")  # never asked before
            wanted = new_tokens(server, new)
            answered = kind and not kind.endswith("call")
            before = settled(server, *pauses_s if answered else (0, 0))
            sampled = talk.ask({**shapes.turns[kind_now], "seed": place})
            prefilled = server.decoded_ids() - before - (sampled - 1)  # the last is not evaluated
            if kind:
                rows.append((kind, prefilled - wanted, before - done))
            kind, done = kind_now, before + prefilled + sampled - 1
    return rows


MODELS = [("own", CALL, False), ("qwen3.jinja", CALL, True), ("qwen3_coder.jinja", XML_CALL, False)]


def flags_of(template):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "jinja", "templates")
    return [] if template == "own" else ["--chat-template-file", os.path.join(folder, template)]


def measure(command, shim, models=MODELS, clients=CLIENTS, dialects=DIALECTS, rounds=ROUNDS, ahead=True):
    """Rows: template, thinks, dialect, client, and of its turns kind, tokens beyond the new ones, tokens ahead."""
    for template, call, thinks in models:
        with ServerProcess([*command, *flags_of(template)], count_shim=shim) as server:
            shapes = Shapes(server, call, thinks)
            pauses_s = (0.5, 5) if thinks and ahead else (0.2, 0.2)  # the template writes thoughts otherwise next time
            for place, dialect in enumerate(dialects):
                for number, client in enumerate(clients, start=place * len(clients)):
                    if dialect is Messages and client in (parsed, sorted_and_indented):
                        continue  # arguments are objects, which have no spelling
                    turns = conversation(server, dialect, client, shapes, number, rounds, pauses_s)
                    yield template, thinks, dialect.name, client, turns


def most_beyond(row):
    return max(beyond for _, beyond, _ in row[-1])


def table(rows, without):
    """`without`: the same for a server that neither replays nor prefills ahead."""
    lines = ["| template | API | the client sends | most for one turn | ahead of a turn | without replay: most |",
             "|---|---|---|---:|---:|---:|"]
    for row, plain in zip(rows, without, strict=True):
        template, thinks, dialect, client, turns = row
        ahead = sum(tokens for *_, tokens in turns) / len(turns)
        lines.append(f"| {template}{', thinks' if thinks else ''} | {dialect} | {client.__name__.replace('_', ' ')} |"
                     f" {most_beyond(row)} | {ahead:.0f} | {most_beyond(plain)} |")
    return "\n".join(lines)


def main():
    program, shim = os.environ["KVKEEP_PROGRAM"], os.environ["KVKEEP_COUNT_SHIM"]
    version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.split("\n")[0]
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.gguf")
        subprocess.run([program, "model", "make", model], stdout=sys.stderr, check=True)
        command = [program, "serve", "-m", model, "-c", "8192", "-t", "1", "--no-kv-disk", "--restore", "always"]
        rows = list(measure([*command, *sys.argv[1:]], shim))
        without = list(measure([*command, *sys.argv[1:], "--replay", "off"], shim, ahead=False))
    print(f"{version}, {ROUNDS} questions:\n\n{table(rows, without)}")
    sys.exit(any(most_beyond(row) > LIMIT for row in rows))


if __name__ == "__main__":
    main()
