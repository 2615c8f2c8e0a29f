"""A server whose replies and counts are known beforehand: the last word of the last user message says what happens.

  (anything)  "ok " and the number of the request, in a stream; a cache that knows all prompts so far
  together    replies when a second request is under way, at most 3 s later: "together", or "alone" if none came
  refuse      400
  break       closes the connection in the middle of the reply
  hang        does not reply for a minute
  die         kill -9 of itself

A token is a byte of the messages' contents, one behind the other. Run as a program:

  mock_server.py [--claims-less N] [--uncounted] --host H --port N

counts the ids it "decodes" in KVKEEP_COUNT_FILE, as the counting shim does; --claims-less N: its replies say that they
computed N fewer; --uncounted: nothing is counted, as of a server that the shim cannot see into.
"""

import argparse
import http.server
import itertools
import json
import os
import signal
import struct
import threading
import time


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class MockServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0), tokenizes=True, has_template=False, stamps=False, claims_less=0,
                 count_file=None, rate=None, traces_to=None):
        super().__init__(address, Handler)
        self.tokenizes = tokenizes
        self.has_template = has_template  # /apply-template is served
        self.stamps = stamps              # prompts begin with their number: none has a prefix of another
        self.claims_less = claims_less
        self.count_file = count_file
        self.rate = rate            # tokens per second that replies claim
        self.traces_to = traces_to  # a file to which every request is appended
        self.decoded = 0
        self.stamp = itertools.count()
        self.lock = threading.Condition()
        self.under_way = 0
        self.most_under_way = 0
        self.requests = []  # dictionaries: path, headers, body, at, under_way
        self.prompts = []   # texts decoded so far

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def count(self, ids):
        self.decoded += ids
        if self.count_file:
            with open(self.count_file, "wb") as file:
                file.write(struct.pack("<QQ", self.decoded, 1))

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "mock/7"
    sys_version = ""
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_json(200 if self.path in ("/health", "/v1/models") else 404, {"data": [{"id": "mock-model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            if not self.server.tokenizes:
                return self.send_json(404, {"error": {"message": "no such thing"}})
            return self.send_json(200, {"tokens": list(body["content"].encode())})
        if self.path == "/apply-template":
            if not self.server.has_template:
                return self.send_json(404, {"error": {"message": "no such thing"}})
            return self.send_json(200, {"prompt": self.prompt_of(body)})
        server = self.server
        with server.lock:
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body,
                                    "at": time.monotonic(), "under_way": server.under_way})
            number = len(server.requests)
            if server.traces_to:
                with open(server.traces_to, "a", encoding="utf-8") as trace:
                    trace.write(json.dumps({"t": number, "path": self.path, "body": body}) + "\n")
            server.lock.notify_all()
        self.left = False
        try:
            self.reply(body, number)
        finally:
            self.leave()

    def leave(self):
        """Before the last byte goes: who has it may send the next request at once."""
        with self.server.lock:
            self.server.under_way -= not self.left
            self.left = True

    def prompt_of(self, body):
        """If the server stamps prompts, no two begin alike. Tools come after the first message, explained."""
        stamp = f"{next(self.server.stamp):08}" if self.server.stamps else ""
        first, *others = (text_of(message) for message in body["messages"])
        tools = "how to call a tool " * 10 + json.dumps(body["tools"]) if body.get("tools") else ""
        return stamp + first + tools + "".join(others)

    def reply(self, body, number):
        prompt = self.prompt_of(body)
        last_word = prompt.split()[-1]
        text = f"ok {number}"
        if last_word == "refuse":
            self.leave()
            return self.send_json(400, {"error": {"message": "tools are not supported", "type": "invalid_request_error"}})
        if last_word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if last_word == "hang":
            time.sleep(60)
        if last_word == "together":
            with self.server.lock:
                text = "together" if self.server.lock.wait_for(lambda: self.server.most_under_way > 1, 3) else "alone"
        with self.server.lock:
            cached = max([len(os.path.commonprefix([prompt, known])) for known in self.server.prompts], default=0)
            self.server.prompts.append(prompt + text[:-1])  # the last one sampled is not decoded
            self.server.count(len(prompt) - cached + len(text) - 1)
        self.stream(text, len(prompt), cached + self.server.claims_less, breaks=last_word == "break")

    def stream(self, text, prompt_tokens, cached, breaks):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.send_event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
        self.send_event({"choices": [{"index": 0, "delta": {"content": text}}]})
        if breaks:
            self.close_connection = True
            self.leave()
            return self.connection.close()
        self.send_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        last = {"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(text),
                                         "prompt_tokens_details": {"cached_tokens": cached}}}
        if self.server.rate:
            last["timings"] = {"predicted_n": len(text), "predicted_per_second": self.server.rate}
        self.send_event(last)
        self.send_piece("data: [DONE]\n\n")
        self.leave()
        self.wfile.write(b"0\r\n\r\n")

    def send_event(self, event):
        self.send_piece("data: " + json.dumps(event) + "\n\n")

    def send_piece(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def send_json(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--claims-less", type=int, default=0)
    parser.add_argument("--uncounted", action="store_true")
    options = parser.parse_args()
    count_file = None if options.uncounted else os.environ.get("KVKEEP_COUNT_FILE")
    server = MockServer((options.host, options.port), claims_less=options.claims_less, count_file=count_file)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.01)


if __name__ == "__main__":
    main()
