"""A real server as a child process, for end-to-end tests, the demo and the workloads. Python's standard library only.

    with ServerProcess(["build/kvkeep", "serve", "-m", "tiny.gguf"]) as server:
        reply = server.chat([{"role": "user", "content": "hello"}], max_tokens=8)

Every wait has a limit, and no process outlives the `with`.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class HttpError(Exception):
    """A reply that is not 2xx: .status and the parsed .body (or text)."""

    def __init__(self, status, body):
        super().__init__(f"HTTP {status}: {body}")
        self.status = status
        self.body = body


class ServerProcess:
    """Starts `command` + --host/--port, waits until /health says ok.

    `count_shim`: path of the counting shim; then decoded_ids() tells how many ids the server gave to libllama since
    start-up, over restarts of this object too.
    """

    def __init__(self, command, *, count_shim=None, environment=None, start_limit_s=120, log_path=None):
        self.command = list(command)
        self.port = free_port()
        self.start_limit_s = start_limit_s
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None
        self._log = log_path or tempfile.NamedTemporaryFile(prefix="kvkeep-server-", suffix=".log", delete=False).name
        self._own_log = log_path is None
        self._count_file = None
        self._settled_ids = 0  # of earlier processes of this object
        self._base_ids = 0     # decoded by this process before it was ready (warm-up)
        if count_shim:
            self._count_file = tempfile.NamedTemporaryFile(prefix="kvkeep-count-", delete=False).name
            self.environment["LD_PRELOAD"] = count_shim
            self.environment["KVKEEP_COUNT_FILE"] = self._count_file

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_):
        self.close()

    # --- life ---

    def start(self):
        if self._count_file:
            with open(self._count_file, "wb") as count:
                count.write(b"\0" * 16)
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                self.command + ["--host", "127.0.0.1", "--port", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + self.start_limit_s
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with status {self.process.returncode}:\n{self.log()[-2000:]}")
            with contextlib.suppress(OSError, HttpError, http.client.HTTPException):
                self.get("/health", timeout_s=2)
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server was not ready within {self.start_limit_s} s:\n{self.log()[-2000:]}")
            time.sleep(0.02)
        self._base_ids = self._raw_ids()
        return self

    def stop(self, limit_s=30):
        """Sends SIGTERM and waits; returns the exit status."""
        if self.process is None:
            return None
        self._settle()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
                raise RuntimeError(f"the server did not stop within {limit_s} s:\n{self.log()[-2000:]}") from None
        status = self.process.returncode
        self.process = None
        return status

    def kill(self):
        """kill -9."""
        self._settle()
        self.process.kill()
        self.process.wait(10)
        self.process = None

    def restart_after_kill(self):
        self.kill()
        self.start()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        self.process = None
        for path in ([self._count_file] if self._count_file else []) + ([self._log] if self._own_log else []):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._count_file = None

    def log(self):
        with open(self._log, errors="replace") as log:
            return log.read()

    def cpu_seconds(self):
        """User and system time of the running process."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # --- counting at the engine ---

    def _raw_ids(self):
        if not self._count_file:
            return 0
        with open(self._count_file, "rb") as count:
            return struct.unpack("<QQ", count.read(16))[0]

    def _settle(self):
        self._settled_ids += self._raw_ids() - self._base_ids
        self._base_ids = self._raw_ids()

    def decoded_ids(self):
        return self._settled_ids + self._raw_ids() - self._base_ids

    # --- HTTP ---

    def connection(self, timeout_s=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)

    def request(self, method, path, body=None, headers=None, timeout_s=120):
        connection = self.connection(timeout_s)
        try:
            payload = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            text = reply.read().decode("utf-8", "replace")
        finally:
            connection.close()
        try:
            parsed = json.loads(text) if text else None
        except ValueError:
            parsed = text
        if not 200 <= reply.status < 300:
            raise HttpError(reply.status, parsed)
        return parsed

    def get(self, path, **keywords):
        return self.request("GET", path, **keywords)

    def post(self, path, body, **keywords):
        return self.request("POST", path, body, **keywords)

    def stream(self, path, body, timeout_s=120):
        """Yields (seconds since the request, parsed event) from a server-sent event stream; '[DONE]' as that string."""
        connection = self.connection(timeout_s)
        begin = time.monotonic()
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            if reply.status != 200:
                text = reply.read().decode("utf-8", "replace")
                try:
                    raise HttpError(reply.status, json.loads(text))
                except ValueError:
                    raise HttpError(reply.status, text) from None
            for line in reply:
                line = line.decode("utf-8").rstrip("\r\n")
                if line.startswith("data: "):
                    data = line[6:]
                    yield time.monotonic() - begin, data if data == "[DONE]" else json.loads(data)
        finally:
            connection.close()

    def chat(self, messages, **fields):
        return self.post("/v1/chat/completions", {"messages": messages, "temperature": 0, **fields})

    def prompt_ids(self, messages):
        """Returns the ids that the server evaluates for a chat request with these messages."""
        prompt = self.post("/apply-template", {"messages": messages})["prompt"]
        return self.tokenize(prompt, special=True)

    def tokenize(self, text, special=False):
        return self.post("/tokenize", {"content": text, "add_special": special, "parse_special": special})["tokens"]


def reply_text(reply):
    return reply["choices"][0]["message"]["content"]


class DecodedPrefixes:
    """Which prefixes were ever decoded: the denominator of 'prefilled / never computed before'."""

    def __init__(self):
        self._root = {}

    def never_decoded(self, ids):
        """Counts positions of `ids` whose prefix (including the id itself) was never decoded."""
        node = self._root
        for at, token in enumerate(ids):
            node = node.get(token)
            if node is None:
                return len(ids) - at
        return 0

    def add(self, ids):
        node = self._root
        for token in ids:
            node = node.setdefault(token, {})
