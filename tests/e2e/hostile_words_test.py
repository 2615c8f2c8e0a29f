"""Words of others on their way to a terminal or a log: an engine, a server, a name of a file. None of them steers the
terminal, begins a line of its own, or keeps a command from ending."""

import json
import os
import socket
import threading

from support import ServerCase, fresh_directory, fresh_path, main, run_program, user, wait_until, words

# C0 without the line end, DEL, C1, and the marks that turn the direction of text.
STEERING = [chr(code) for code in (*range(1, 10), *range(11, 32), 0x7f, *range(0x80, 0xa0), 0x61c, 0x200e, 0x200f,
                                   *range(0x202a, 0x202f), *range(0x2066, 0x206a))]
HARMLESS = "\t"


class Answering:
    """Gives each connection the next of `answers` for whatever it asks, and the last one again and again."""

    def __init__(self, *answers, endless=False):
        self.answers = [answer.encode() for answer in answers]
        self.endless = endless
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        try:
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        except OSError:
            pass  # The test is over.

    def _serve(self, connection):
        left = list(self.answers)
        with connection:
            try:
                while connection.recv(1 << 16):
                    answer = left.pop(0) if len(left) > 1 else left[0]
                    connection.sendall(answer)
                    while self.endless:
                        connection.sendall(answer)
            except OSError:
                pass  # The client had enough.


def http_reply(status, body):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}"


class Words(ServerCase):
    def assert_harmless(self, text, *parts):
        found = [f"{ord(one):#x}" for one in STEERING if one in text and one not in HARMLESS]
        self.assertEqual(found, [], text)
        for part in parts:
            self.assertIn(part, text)

    def read(self, path):
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()

    def test_an_engine_steers_neither_log_nor_terminal(self):
        # Errors are cut at 200 bytes.
        for part in (STEERING[:60], STEERING[60:]):
            text = "ERR " + "".join(part).replace("\r", "")  # the protocol knows no such errors
            with Answering(f"-{text}\r\n") as engine:
                url = f"valkey://127.0.0.1:{engine.port}"
                for form in ("text", "json"):
                    file = fresh_path("x.log")
                    server = self.server("--share", url, "--log-file", file, "--log-format", form)
                    wait_until(lambda: "in trouble" in self.read(file), "the engine's error in the log")
                    server.stop()
                    for log in (self.read(file), server.log()):
                        self.assert_harmless(log, "\\u001f" if part[0] == STEERING[0] else "\\u202e")
                    if form == "json":
                        messages = [json.loads(line)["message"] for line in self.read(file).splitlines()]
                        self.assertTrue(any(text in message for message in messages), "escapes lose nothing")
                run = run_program("cache", "stat", "--share", url)
                self.assertEqual(run.returncode, 1)
                self.assert_harmless(run.stdout + run.stderr, "ERR")

    def test_a_server_does_not_steer_the_terminal(self):
        body = "".join(STEERING)
        file = fresh_path("warm.json")
        with open(file, "w") as request:
            json.dump({"messages": [user(words(50))]}, request)
        with Answering(http_reply(500, body)) as server:
            run = run_program("warm", "--url", f"http://127.0.0.1:{server.port}", file)
        self.assertEqual(run.returncode, 1)
        self.assert_harmless(run.stderr, "answered 500: ", "\\u009b")
        described = json.dumps({"model": body, "memory_class": body, "tiers": [{"name": body, "used": 1}]})
        with Answering(http_reply(200, described)) as server:
            run = run_program("top", "--once", "--url", f"http://127.0.0.1:{server.port}")
        self.assert_harmless(run.stdout + run.stderr)

    def test_names_and_arguments_do_not_steer_the_terminal(self):
        name = "".join(STEERING) + "\nkvkeep: all is well"
        directory = fresh_directory()
        os.mkdir(os.path.join(directory, "web"))
        with open(os.path.join(directory, "web", "".join(STEERING[:80]) + ".html"), "w"):
            pass
        for arguments in (("serve", "-m", name + ".gguf"), ("cache", "ls", "--kv-disk-dir", name), (name,),
                          ("warm", name), ("top", "--url", name), ("serve", "--" + name), ("replay", name)):
            run = run_program(*arguments)
            self.assertEqual(run.returncode, 1, arguments)
            self.assertEqual(run.stdout, "")
            self.assert_harmless(run.stderr)
            self.assertNotIn("\nkvkeep: all is well", run.stderr)
        self.assert_harmless(self.server("--path", os.path.join(directory, "web")).log())

    def test_no_command_waits_for_ever(self):
        file = fresh_path("warm.json")
        with open(file, "w") as request:
            json.dump({"messages": [user(words(50))]}, request)
        with Answering("HTTP/1.1 100 Continue\r\n\r\n", endless=True) as server:
            url = f"http://127.0.0.1:{server.port}"
            for arguments in (("top", "--once", "--url", url), ("warm", "--url", url, file),
                              ("replay", "--url", url, file)):
                run = run_program(*arguments, limit_s=300)
                self.assertIn("interim replies", run.stdout + run.stderr, arguments)


if __name__ == "__main__":
    main()
