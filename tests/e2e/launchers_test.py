"""Programs that start llama-server themselves start this server under that name: their command lines, how they wait, what
they send on, and how they stop it. Facts about them are in docs/clients.md."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
import unittest

from support import PROGRAM, fresh_directory, fresh_path, free_port, main, model, wait_until, words

LIMIT_S = 60


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


class Launched:
    """A server as a launcher knows it: a process, and a way to connect to it."""

    def __init__(self, process, connect, log):
        self.process, self.connect, self.log = process, connect, log

    def ask(self, method, path, body=None, headers=None):
        """Status, parsed or plain body, and header fields of one request on a connection of its own."""
        with contextlib.closing(self.connect()) as connection:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            text = reply.read().decode()
            is_json = reply.headers.get("Content-Type", "").startswith("application/json")
            return reply.status, json.loads(text) if is_json else text, reply.headers

    def wait(self, path, is_ready, pause_s=0.05):
        """Polls as launchers do: an error or another status means not yet; a process that ended is a failure."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, body, _ = self.ask("GET", path)
                if is_ready(status, body):
                    return body
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"not ready:\n{self.text()}")
            time.sleep(pause_s)

    def stop(self, sent, limit_s=10):
        """Exit status after one signal; launchers kill a server that takes longer."""
        self.process.send_signal(sent)
        return self.process.wait(limit_s)

    def text(self):
        with open(self.log, errors="replace") as log:
            return log.read()


class Launchers(unittest.TestCase):
    def launch(self, *flags, socket_path=None, port=None, environment=None):
        """Starts a link named llama-server in a folder of its own, as the launcher does, with its output in a file."""
        folder = fresh_directory()
        program = os.path.join(folder, "llama-server")
        os.symlink(PROGRAM, program)
        log = fresh_path("launched.log")
        with open(log, "wb") as out:
            process = subprocess.Popen([program, *map(str, flags)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder,
                                       env=dict(os.environ, LLAMA_ARG_KV_DISK_DIR=os.path.join(folder, "kv"),
                                                **(environment or {})))

        def end():
            if process.poll() is None:
                process.kill()
            process.wait(LIMIT_S)

        self.addCleanup(end)
        if socket_path:
            return Launched(process, lambda: UnixConnection(os.path.join(folder, socket_path)), log), folder
        return Launched(process, lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=20), log), folder

    def chat(self, server, **fields):
        return server.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": words(20)}],
                                                           "max_tokens": 4, **fields}, fields.pop("headers", None))

    # --- Docker's model runner: a Unix socket, SIGINT ---

    def docker(self, *mode, model_path):
        name = "inference-runner-0.sock"
        server, folder = self.launch("-ngl", 999, "--metrics", "--threads", 1, "--model", model_path, "--host", name, *mode,
                                     "--ctx-size", 4096, "--jinja", socket_path=name)
        server.wait("/health", lambda status, _: status == 200)
        return server, os.path.join(folder, name)

    def test_docker_model_runner(self):
        server, path = self.docker(model_path=model())
        status, body, _ = self.chat(server, model="ai/smollm2")
        self.assertEqual((status, len(body["choices"])), (200, 1), body)
        status, text, _ = server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn("llamacpp:prompt_tokens_total", text)
        self.assertEqual(server.ask("GET", "/v1/models")[0], 200)
        self.assertEqual(server.stop(signal.SIGINT), 0, server.text())
        self.assertFalse(os.path.exists(path), "the socket's file is gone")

    def test_docker_model_runner_for_embeddings_and_reranking(self):
        server, _ = self.docker("--embeddings", model_path=model("--arch", "bert"))
        status, body, _ = server.ask("POST", "/v1/embeddings", {"model": "ai/some", "input": "a text"})
        self.assertEqual((status, len(body["data"])), (200, 1), body)
        self.assertEqual(server.stop(signal.SIGINT), 0)
        server, _ = self.docker("--reranking", model_path=model("--arch", "bert", "--rerank"))
        status, body, _ = server.ask("POST", "/v1/rerank", {"model": "ai/some", "query": "a", "documents": ["b", "c"]})
        self.assertEqual((status, len(body["results"])), (200, 2), body)

    # --- Lemonade: a port, both names of the reply's limit, erasing slots when it needs memory ---

    def test_lemonade(self):
        port = free_port()
        server, _ = self.launch("-m", model(), "--ctx-size", 4096, "--port", port, "--jinja", "--metrics", "--keep", 16,
                                "--reasoning-format", "auto", "--no-ui", "--load-mode", "none", port=port)
        server.wait("/health", lambda status, _: status == 200)
        status, body, _ = self.chat(server, max_tokens=3, max_completion_tokens=3)
        self.assertEqual((status, body["usage"]["completion_tokens"]), (200, 3), body)
        status, slots, _ = server.ask("GET", "/slots")
        self.assertEqual(status, 200)
        for slot in slots:  # a launcher that cannot erase a slot unloads the model instead
            status, body, _ = server.ask("POST", f"/slots/{slot['id']}?action=erase", {})
            self.assertEqual((status, body["error"]["type"]), (501, "not_supported_error"), body)
        self.assertEqual(server.ask("POST", "/tokenize", {"content": "a text"})[0], 200)
        self.assertEqual(server.stop(signal.SIGTERM), 0, server.text())

    # --- RamaLama: waits until /models has the alias ---

    def test_ramalama(self):
        port, log = free_port(), fresh_path("ramalama.log")
        server, _ = self.launch("--host", "127.0.0.1", "--port", port, "--log-file", log, "--model", model(), "--jinja",
                                "--no-warmup", "--reasoning-budget", 0, "--alias", "library/smollm:135m", "--ctx-size", 2048,
                                "--temp", 0.8, "--cache-reuse", 0, "-v", "--no-webui", "-ngl", 999, "--threads", 1, "--seed", 5,
                                "--log-colors", "on", "-n", 5, port=port)
        body = server.wait("/models", lambda status, body: status == 200 and body["models"])
        self.assertEqual([one["name"] for one in body["models"]], ["library/smollm:135m"])
        status, body, _ = self.chat(server, max_tokens=None, model="library/smollm:135m")
        self.assertEqual((status, body["usage"]["completion_tokens"]), (200, 5), body)
        with open(log) as text:
            self.assertIn("serving", text.read())
        self.assertEqual(server.stop(signal.SIGTERM), 0, server.text())

    # --- llama-swap: passes the client's Host on, and the headers of a proxy; ends a stream by ending the server ---

    def test_llama_swap(self):
        port = free_port()
        server, _ = self.launch("--port", port, "-m", model(), "-c", 4096, "--allowed-hosts", "swap.lan,192.168.1.7", port=port)
        server.wait("/health", lambda status, _: status == 200)
        proxied = {"X-Forwarded-For": "192.168.1.20", "Accept-Encoding": "gzip"}
        for host in (f"127.0.0.1:{port}", "localhost:8080", "192.168.1.7:8080", "swap.lan:8080"):
            self.assertEqual(self.chat(server, headers={**proxied, "Host": host})[0], 200, host)
        status, body, _ = self.chat(server, headers={**proxied, "Host": "other.lan:8080"})
        self.assertEqual(status, 403)
        self.assertIn("--allowed-hosts other.lan", json.dumps(body))
        for path in ("/props", "/v1/models", "/props?model=some&autoload=false"):
            self.assertEqual(server.ask("GET", path)[0], 200, path)
        with contextlib.closing(server.connect()) as connection:
            connection.request("POST", "/completion", json.dumps({"prompt": "x", "n_predict": 100_000, "stream": True}))
            reply = connection.getresponse()
            self.assertTrue(reply.readline().startswith(b"data: "))
            self.assertEqual(server.stop(signal.SIGTERM), 0, server.text())

    # --- Ollama and others: short polls that expect JSON, /completion with all its fields, no connection kept ---

    def test_ollama_style_supervisor(self):
        port = free_port()
        server, _ = self.launch("--model", model(), "--port", port, "--host", "127.0.0.1", "--no-webui", "--offline",
                                "-c", 4096, "-np", 2, "--log-verbosity", 4, "--chat-template", "chatml", "--flash-attn", "auto",
                                "-b", 512, "-ub", 512, "--split-mode", "none", "--main-gpu", 0, port=port,
                                environment={"LLAMA_MEDIA_MARKER": "<__some_media_0__>"})
        server.wait("/health", lambda status, body: status == 200 and body["status"] == "ok")
        close = {"Connection": "close"}
        status, text, headers = server.ask("POST", "/completion", {
            "prompt": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "stream": True, "cache_prompt": True,
            "n_predict": 6, "n_keep": 4, "temperature": 0.8, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "stop": ["<|im_start|>"],
            "repeat_penalty": 1.1, "repeat_last_n": 64, "frequency_penalty": 0.0, "presence_penalty": 0.0, "typical_p": 1.0,
            "seed": 3, "preserved_tokens": ["<tool_call>"], "timings_per_token": True}, close)
        self.assertEqual(status, 200, text)
        self.assertEqual(headers["Connection"], "close")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        self.assertTrue(all({"content", "stop"} <= set(event) for event in events), text)
        self.assertEqual((events[-1]["stop"], events[-1]["stop_type"]), (True, "limit"))
        self.assertEqual(events[-1]["timings"]["predicted_n"], 6)
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        status, body, _ = server.ask("POST", "/completion", {"prompt": "x", "n_predict": 200, "json_schema": schema, "seed": 1}, close)
        self.assertEqual((status, type(json.loads(body["content"])["a"])), (200, int), body)
        status, body, _ = server.ask("POST", "/apply-template", {"messages": [{"role": "user", "content": "hi"}]}, close)
        self.assertIn("hi<|im_end|>", body["prompt"])
        self.assertEqual(server.stop(signal.SIGTERM), 0, server.text())

    def test_polls_while_the_model_is_loaded_and_a_signal_meanwhile(self):
        """Supervisors poll from the first moment on, and may change their mind."""
        port = free_port()
        server, _ = self.launch("-m", model("--size", "small"), "--port", port, "-c", 1024, "-t", 1, port=port)
        seen = set()
        while 200 not in seen:
            self.assertIsNone(server.process.poll(), server.text())
            with contextlib.suppress(ConnectionRefusedError):
                seen.add(server.ask("GET", "/health")[0])
        self.assertLessEqual(seen, {200, 503})
        self.assertEqual(server.stop(signal.SIGINT), 0)
        early, _ = self.launch("-m", model("--size", "small"), "--port", free_port(), "-c", 1024, "-t", 1, port=port)
        wait_until(lambda: "loading" in early.text(), "the early server loads")
        self.assertEqual(early.stop(signal.SIGTERM), 0, early.text())


if __name__ == "__main__":
    main()
