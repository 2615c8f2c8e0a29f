"""Between a client and the server: says what the model answers, which random weights could not.

A request goes on as it came, but for a grammar that leaves the model one reply: a text, or a call of a tool. The model
writes it token by token, the server parses and streams it, and the client takes it for a model's work. Requests that are
no part of the main conversation (titles, side agents) get a text.

    with ScriptedProxy(server.port, is_main=lambda body: "tools" in body) as proxy:
        proxy.script += [Call("read", {"filePath": "README.md"}), "It is about trees."]
"""

import contextlib
import dataclasses
import http.client
import http.server
import json
import re
import threading

MOST_TOKENS = 600
REPLY_ID = re.compile(rb'"id":"((?:chatcmpl-|resp_|msg_)[0-9a-f]+)"')


@dataclasses.dataclass
class Call:
    name: str
    arguments: dict


def literal(text):
    """A text as GBNF spells it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


class ScriptedProxy:
    def __init__(self, server_port, is_main):
        self.server_port = server_port
        self.is_main = is_main
        self.script = []
        self.errors = []     # what went wrong here or was answered with an error
        self.main_ids = []   # of the main requests' replies, as the trace has them
        self._lock = threading.Lock()
        self._begin, self._end = map(self._token, ("<tool_call>", "</tool_call>"))
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                proxy._forward(self)

            do_POST = do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def _token(self, tag):
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST", "/tokenize", json.dumps({"content": tag, "parse_special": True}))
            [token] = json.load(connection.getresponse())["tokens"]
        return token

    def _grammar(self, reply):
        if isinstance(reply, str):
            return "root ::= " + literal(reply)
        call = json.dumps({"name": reply.name, "arguments": reply.arguments})
        return f"root ::= <[{self._begin}]> {literal(chr(10) + call + chr(10))} <[{self._end}]>"

    def _next_reply(self, is_main):
        if not is_main:
            return "A side matter."
        with self._lock:
            if self.script:
                return self.script.pop(0)
            self.errors.append("a request behind the end of the script")
            return "There is no more."

    def _bend(self, data):
        """The request to send, and whether it is one of the main conversation."""
        try:
            body = json.loads(data)
        except ValueError:
            return data, False
        if not isinstance(body, dict) or not ("messages" in body or "input" in body):
            return data, False
        is_main = self.is_main(body)
        body["grammar"] = self._grammar(self._next_reply(is_main))
        for field in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            if field in body:
                body[field] = MOST_TOKENS
        return json.dumps(body).encode(), is_main

    def _forward(self, handler):
        data = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        is_main = False
        if handler.command == "POST":
            data, is_main = self._bend(data)
        headers = {name: value for name, value in handler.headers.items()
                   if name.lower() not in ("host", "content-length", "connection", "accept-encoding", "expect")}
        connection = http.client.HTTPConnection("127.0.0.1", self.server_port, timeout=600)
        try:
            connection.request(handler.command, handler.path, data, headers)
            self._answer(handler, connection.getresponse(), is_main)
        except OSError as error:  # the client left, or the server did
            handler.close_connection = True
            self.errors.append(f"{handler.command} {handler.path}: {error!r}")
        finally:
            connection.close()

    def _answer(self, handler, response, is_main):
        handler.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                handler.send_header(name, value)
        handler.send_header("connection", "close")
        handler.close_connection = True
        handler.end_headers()
        seen = b""
        while piece := response.read1(65536):
            seen += piece
            handler.wfile.write(piece)
            handler.wfile.flush()
        if response.status >= 400:
            self.errors.append(f"{handler.command} {handler.path}: {response.status} {seen[:500]}")
        elif is_main and (found := REPLY_ID.search(seen)):
            with self._lock:
                self.main_ids.append(found.group(1).decode())
