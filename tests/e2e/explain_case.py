"""The base of the suites of explanations: conversations that each dialect writes in its own way."""

import json
import os

from flag_case import FlagCase
from support import assistant, system, user

TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jinja", "templates")
QWEN = ["--chat-template-file", os.path.join(TEMPLATES, "qwen3.jinja")]
EXPLAIN = "/cache/explain"


class Talk:
    """A conversation that each dialect writes in its own way."""

    def __init__(self, system_text="", tools=(), turns=()):
        self.system, self.tools, self.turns = system_text, list(tools), list(turns)


def tool(name, description):
    return name, description, {"type": "object", "properties": {"path": {"type": "string", "description": "of a file"}}}


def chat_body(talk):
    messages = [system(talk.system)] if talk.system else []
    for turn in talk.turns:
        kind = turn["kind"]
        if kind == "user":
            messages.append(user(turn["text"]))
        elif kind == "assistant":
            message = assistant(turn["text"])
            if turn.get("thinking"):
                message["reasoning_content"] = turn["thinking"]
            messages.append(message)
        elif kind == "call":
            message = {"role": "assistant", "content": "", "tool_calls": [
                {"id": turn["id"], "type": "function",
                 "function": {"name": turn["name"], "arguments": turn["arguments"]}}]}
            if turn.get("thinking"):
                message["reasoning_content"] = turn["thinking"]
            messages.append(message)
        else:
            messages.append({"role": "tool", "tool_call_id": turn["id"], "content": turn["text"]})
    body = {"messages": messages, "max_tokens": 2, "temperature": 0}
    if talk.tools:
        body["tools"] = [{"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
                         for name, text, schema in talk.tools]
    return body


def messages_body(talk):
    messages = []
    for turn in talk.turns:
        kind = turn["kind"]
        thought = [{"type": "thinking", "thinking": turn["thinking"], "signature": "x"}] if turn.get("thinking") else []
        if kind == "user":
            messages.append(user(turn["text"]))
        elif kind == "assistant":
            messages.append(assistant([*thought, {"type": "text", "text": turn["text"]}]))
        elif kind == "call":
            messages.append(assistant([*thought, {"type": "tool_use", "id": turn["id"], "name": turn["name"],
                                                  "input": json.loads(turn["arguments"])}]))
        else:
            messages.append(user([{"type": "tool_result", "tool_use_id": turn["id"], "content": turn["text"]}]))
    body = {"model": "x", "messages": messages, "max_tokens": 2, "temperature": 0}
    if talk.system:
        body["system"] = talk.system
    if talk.tools:
        body["tools"] = [{"name": name, "description": text, "input_schema": schema} for name, text, schema in talk.tools]
    return body


def responses_body(talk):
    items = []
    for turn in talk.turns:
        kind = turn["kind"]
        if turn.get("thinking"):
            items.append({"type": "reasoning", "summary": [],
                          "content": [{"type": "reasoning_text", "text": turn["thinking"]}]})
        if kind == "user":
            items.append({"type": "message", "role": "user", "content": turn["text"]})
        elif kind == "assistant":
            items.append({"type": "message", "role": "assistant",
                          "content": [{"type": "output_text", "text": turn["text"]}]})
        elif kind == "call":
            items.append({"type": "function_call", "call_id": turn["id"], "name": turn["name"],
                          "arguments": turn["arguments"]})
        else:
            items.append({"type": "function_call_output", "call_id": turn["id"], "output": turn["text"]})
    body = {"model": "x", "input": items, "max_output_tokens": 2, "temperature": 0}
    if talk.system:
        body["instructions"] = talk.system
    if talk.tools:
        body["tools"] = [{"type": "function", "name": name, "description": text, "parameters": schema}
                         for name, text, schema in talk.tools]
    return body


def completion_body(talk):
    text = "\n".join([talk.system, *(turn["text"] for turn in talk.turns)])
    return {"prompt": text, "max_tokens": 2, "temperature": 0}


CHATS = {"chat": ("/v1/chat/completions", chat_body), "messages": ("/v1/messages", messages_body),
         "responses": ("/v1/responses", responses_body)}
TEXTS = {"completions": ("/v1/completions", completion_body), "native": ("/completion", completion_body)}
ALL = {**CHATS, **TEXTS}


def infill_body(talk):
    """The text before a gap; it is no conversation, so that few tests have it."""
    return {"input_prefix": completion_body(talk)["prompt"], "input_suffix": "", "n_predict": 2, "temperature": 0}


ROUTES = {**ALL, "infill": ("/infill", infill_body)}


def says(text):
    return {"kind": "user", "text": text}


def answers(text, thinking=None):
    return {"kind": "assistant", "text": text, "thinking": thinking}


def calls(arguments, name="read", thinking=None):
    return {"kind": "call", "id": "call_1", "name": name, "arguments": arguments, "thinking": thinking}


def returns(text):
    return {"kind": "result", "id": "call_1", "text": text}


class ExplainCase(FlagCase):
    def ask(self, server, dialect, talk, headers=None, **fields):
        path, body = ALL[dialect]
        return server.post(path, {**body(talk), **fields}, headers=headers)

    def break_of(self, server, dialect, *talks, **keywords):
        """The break of the last of the requests."""
        for talk in talks:
            reply = self.ask(server, dialect, talk, **keywords)
        return reply["timings"]["cache_break"]

    def seed(self):
        """Each prompt begins with words of its own."""
        self._seeds = getattr(self, "_seeds", 0) + 1
        return 1000 * self._seeds + sum(map(ord, self.id()))
