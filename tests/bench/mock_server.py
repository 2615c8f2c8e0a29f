#!/usr/bin/env python3
"""A server with known counts, for tests of `kvkeep bench`: a word is a token, nothing is cached, replies are fixed words.

    mock_server.py MODE [ignored flags] --host ADDRESS --port N

MODE: honest; lying (claims to have computed one token less than it counts); dying (kills itself at the third chat);
busy (computes between chats, too); refusing (answers the third chat with 500); narrow (with 400, as too much); hanging (never answers the third chat);
missing (ends at once); loading (is never ready); other (knows no /apply-template); wordless (knows no /tokenize);
unseen (counts nothing); silent (counts nothing, and does not say what it prefilled); recomputing (decodes 50 ids
more before it is ready again).

The ids "decoded" are counted in KVKEEP_COUNT_FILE, as the counting shim does, 1,000 of them before it is ready. Its
process id is added to the file MOCK_PROCESSES, if that is set.
"""

import http.server
import json
import os
import signal
import struct
import sys
import time
import zlib

MODE = sys.argv[1]
WARM_UP_IDS = 1000
RECOMPUTED_IDS = 50
CHATS_BEFORE_TROUBLE = 2


def value_of(flag):
    return sys.argv[sys.argv.index(flag) + 1]


def ids_of(text):
    return [zlib.crc32(word.encode()) & 0x7FFFFFFF for word in text.split()]


def render(messages):
    turns = [f"{message['role']}: {message['content']}" for message in messages]
    return "\n".join([*turns, "assistant:"])


class State:
    decoded = 0
    chats = 0

    @classmethod
    def count(cls, ids):
        cls.decoded += ids
        if MODE in ("unseen", "silent"):
            return
        with open(os.environ["KVKEEP_COUNT_FILE"], "wb") as file:
            file.write(struct.pack("<QQ", cls.decoded, 1))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(503 if MODE == "loading" else 200, {"status": MODE, "build_info": "b7-mock"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize" and MODE != "wordless":
            if MODE == "busy":
                State.count(5)
            self.answer(200, {"tokens": ids_of(body["content"])})
        elif self.path == "/apply-template" and MODE != "other":
            self.answer(200, {"prompt": render(body["messages"])})
        elif self.path == "/v1/chat/completions":
            self.chat(body)
        else:
            self.answer(404, {"error": {"message": f"no {self.path} here"}})

    def chat(self, body):
        State.chats += 1
        if State.chats > CHATS_BEFORE_TROUBLE:
            self.trouble()
        prompt = len(ids_of(render(body["messages"])))
        reply = [f"reply{State.chats}word{n}" for n in range(body["max_tokens"])]
        State.count(prompt + len(reply) - 1)
        if State.chats > CHATS_BEFORE_TROUBLE and MODE == "refusing":
            self.answer(500, {"error": {"message": "out of patience"}})
            return
        if State.chats > CHATS_BEFORE_TROUBLE and MODE == "narrow":
            self.answer(400, {"error": {"message": "the prompt is too long for me"}})
            return
        self.stream(body, prompt, reply)

    @staticmethod
    def trouble():
        if MODE == "dying":
            print("about to die", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if MODE == "hanging":
            print(f"hanging in process {os.getpid()}", flush=True)
            time.sleep(600)

    def stream(self, body, prompt, reply):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number, word in enumerate(reply):
            self.event({"choices": [{"index": 0, "delta": {"content": ("" if number == 0 else " ") + word}}]})
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        claimed = prompt - (1 if MODE == "lying" else 0)
        usage = {"prompt_tokens": prompt, "completion_tokens": len(reply)}
        if MODE == "silent":
            self.event({"choices": [], "usage": usage})
        else:
            usage["prompt_tokens_details"] = {"cached_tokens": prompt - claimed}
            self.event({"choices": [], "usage": usage, "timings": {"cache_n": prompt - claimed, "prompt_n": claimed}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, body):
        body = {"object": "chat.completion.chunk", "id": "1", "model": "mock", **body}
        self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main():
    if "--version" in sys.argv:
        print("version: 7 (mock)")
        return
    if MODE == "missing":
        print("error: there is no model here", flush=True)
        sys.exit(5)
    if "MOCK_PROCESSES" in os.environ:
        with open(os.environ["MOCK_PROCESSES"], "a") as file:
            file.write(f"{os.getpid()}\n")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    State.count(WARM_UP_IDS)
    if MODE == "recomputing":
        started = os.environ["KVKEEP_COUNT_FILE"] + ".started"
        if os.path.exists(started):
            State.count(RECOMPUTED_IDS)
        open(started, "w").close()
    http.server.ThreadingHTTPServer((value_of("--host"), int(value_of("--port"))), Handler).serve_forever()


main()
