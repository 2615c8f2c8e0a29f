"""A server whose replies and counts are known beforehand: the last word of the last user message says what happens.

  (anything)  "ok " and the number of the request, in a stream; a cache that knows all prompts so far
  together    replies when a second request is under way, at most 3 s later: "together", or "alone" if none came
  refuse      400
  break       closes the connection in the middle of the reply
  hang        does not reply for a minute
  die         kill -9 of itself

A token is a byte of the messages' contents, one behind the other. Run as a program: mock_server.py --host H --port N.
"""

import argparse
import http.server
import json
import os
import signal
import threading
import time


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class MockServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address=("127.0.0.1", 0), tokenizes=True):
        super().__init__(address, Handler)
        self.tokenizes = tokenizes
        self.lock = threading.Condition()
        self.under_way = 0
        self.most_under_way = 0
        self.requests = []  # dictionaries: path, headers, body, at, under_way
        self.prompts = []   # texts decoded so far

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

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
        server = self.server
        with server.lock:
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body,
                                    "at": time.monotonic(), "under_way": server.under_way})
            number = len(server.requests)
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

    def reply(self, body, number):
        prompt = "".join(text_of(message) for message in body["messages"])
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
            self.server.prompts.append(prompt + text)
        self.stream(text, len(prompt), cached, breaks=last_word == "break")

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
        self.send_event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": len(text),
                                                  "prompt_tokens_details": {"cached_tokens": cached}}})
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
    options = parser.parse_args()
    server = MockServer((options.host, options.port))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.01)


if __name__ == "__main__":
    main()
