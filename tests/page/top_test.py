"""`kvkeep top`: a terminal of 80 by 24 that the test reads, and the text without a terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from page_case import support

from terminal_screen import TerminalScreen

URL = "http://127.0.0.1:{}"


class Terminal:
    """kvkeep top in a terminal of this size."""

    def __init__(self, *flags, columns=80, rows=24, environment=None):
        self.screen = TerminalScreen(columns, rows)
        controller, theirs = pty.openpty()
        self._controller = controller
        self.resize(columns, rows)
        variables = {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(environment or {})}
        self.process = subprocess.Popen([support.PROGRAM, "top", *map(str, flags)], stdin=theirs, stdout=theirs, stderr=theirs,
                                        start_new_session=True, env={**os.environ, **variables})
        os.close(theirs)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self._controller)

    def resize(self, columns, rows):
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self._controller, keys.encode())

    def read(self, seconds=0.1):
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._controller], [], [], left)[0]:
                return
            try:
                self.screen.feed(os.read(self._controller, 65536))
            except OSError:  # its program has ended
                return

    def wait(self, pattern, limit_s=60):
        """Waits until the screen shows the pattern; returns the match."""
        deadline = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.screen.text())):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {limit_s} s: {pattern}\n{self.screen.text()}")
            self.read()
        return found

    def wait_for_end(self, limit_s=30):
        deadline = time.monotonic() + limit_s
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError("kvkeep top does not end")
            self.read(0.05)
        return self.process.returncode


class Top(support.ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.shared = cls.class_server("--kv-disk-dir", support.fresh_directory())
        for ending in ("", " and more"):
            cls.shared.chat([support.user(support.words(120, 31) + ending)], max_tokens=4)

    def top(self, *flags, server=None, **settings):
        return self.enterContext(Terminal("--url", URL.format((server or self.shared).port), "--interval", 0.2, *flags, **settings))

    def test_an_old_terminal_has_room_for_all_of_it(self):
        top = self.top()
        top.wait(r"kvkeep top +model-\d+\.gguf.* live")
        for part in (r"reused \d+\.\d %", r"ram +\[", r"disk +\[", r"Running 0, waiting 0", r"Last requests", r"q quits"):
            top.wait(part)
        lines = top.screen.lines()
        self.assertIn("q quits", lines[-1])
        self.assertTrue(any("new content" in line for line in lines), lines)

    def test_a_request_is_chosen_and_explained(self):
        top = self.top()
        top.wait("Last requests")
        top.press("\x1bOB")  # as a terminal in application mode, which ncurses asks for, sends the arrow
        top.press("\r")
        second = self.shared.get("/cache")["ended"][1]["id"]
        top.wait(f"Why {second} did not reuse more")
        top.press("k")
        top.wait(f"Why {self.shared.get('/cache')['ended'][0]['id']} did not reuse more")
        top.press("\r")
        deadline = time.monotonic() + 30
        while "did not reuse more" in top.screen.text():
            self.assertLess(time.monotonic(), deadline)
            top.read()

    def test_keys_show_the_other_lists(self):
        server = self.server("--kv-disk-dir", support.fresh_directory())
        for day in range(3):
            server.chat([support.system(f"Today is 2026-05-0{day + 1}. " + support.words(120, 32)), support.user("hi")], max_tokens=2)
        for salt in ({}, {"cache_salt": "secret"}):
            for _ in range(2):
                server.chat([support.user(support.words(120, 33))], max_tokens=2, **salt)
        top = self.top(server=server, columns=120)
        top.wait(r"\[1:requests\]")
        top.press("2")
        top.wait(r"\[2:causes\]")
        top.wait(r"2 of \d+ .*volatile text: date, in system")
        top.press("\r")
        top.wait(r"tokens were prefilled again in 2 of \d+ requests")
        top.press("3")
        used = [one["id"] for one in server.get("/cache")["hottest"]]
        top.wait(rf"Tokens +uses(.|\n)*{used[0]}")
        top.press("\x1bOB\r")
        top.wait(f"Prefix {used[min(1, len(used) - 1)]}")
        top.press("\t")
        top.wait(r"\[4:tenants\]")
        top.wait(r"(?m)^ +2 +2 +\d+\.\d %")
        top.wait(r"(?m)^ +1 +5 .* you, no salt")
        self.assertNotIn("secret", top.screen.text())
        top.press("\t")
        top.wait("Last requests")

    def test_a_paused_look_shows_other_lists_too(self):
        top = self.top()
        top.wait(" live")
        top.press("p3")
        top.wait("paused")
        top.wait(self.shared.get("/cache")["hottest"][0]["id"])

    def test_a_list_can_be_printed(self):
        url = ("--url", URL.format(self.shared.port))
        for name, shown in (("requests", "Last requests"), ("causes", "No known text was prefilled again"),
                            ("prefixes", self.shared.get("/cache")["hottest"][0]["id"]), ("tenants", "you, no salt")):
            run = support.run_program("top", "--once", "--list", name, *url)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(shown, run.stdout)

    def test_a_stream_is_followed(self):
        server = self.server()
        top = self.top(server=server)
        top.wait("Running 0")
        stream = server.stream("/v1/chat/completions", {"messages": [support.user("hello")], "max_tokens": 3000, "stream": True})
        with contextlib.closing(stream):
            for _ in range(5):
                next(stream)
            first = int(top.wait(r"writes .* ([\d,]+) written").group(1).replace(",", ""))
            for _ in range(200):
                next(stream)
            deadline = time.monotonic() + 60
            while int(top.wait(r"([\d,]+) written").group(1).replace(",", "")) <= first:
                self.assertLess(time.monotonic(), deadline)
                top.read()
        top.wait("Running 0")

    def test_it_waits_for_a_server_that_died(self):
        server = self.server()
        top = self.top(server=server)
        top.wait(" live")
        server.kill()
        top.wait("no connection")
        top.wait(r"model-\d+\.gguf")
        server.start()
        top.wait(" live")

    def test_the_terminal_is_as_it_was_afterwards(self):
        for end in (lambda top: top.press("q"), lambda top: top.press("\x03"), lambda top: top.process.send_signal(signal.SIGTERM)):
            top = self.top()
            top.wait(" live")
            self.assertTrue(top.screen.alternate)
            end(top)
            status = top.wait_for_end()
            top.read()
            self.assertIn(status, (0, 128 + signal.SIGTERM, -signal.SIGTERM, 1))
            self.assertFalse(top.screen.alternate, "the shell's screen is back")

    def test_it_follows_the_size_of_its_window(self):
        top = self.top(columns=120, rows=40)
        top.wait(" live")
        for columns, rows in ((40, 10), (200, 50), (80, 24)):
            top.screen.resize(columns, rows)
            top.resize(columns, rows)
            os.killpg(top.process.pid, signal.SIGWINCH)
            top.wait("kvkeep top")
            deadline = time.monotonic() + 30
            while rows >= 24 and "q quits" not in top.screen.lines()[-1]:
                self.assertLess(time.monotonic(), deadline, top.screen.text())
                top.read()

    def test_it_sends_the_first_key_of_a_file(self):
        server = self.server("--api-key", "sesame")
        path = support.fresh_path("keys")
        with open(path, "w") as file:
            file.write("# keys\nsesame\nother\n")
        os.chmod(path, 0o600)
        self.top("--api-key-file", path, server=server).wait(" live")
        refused = support.run_program("top", "--once", "--url", URL.format(server.port))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--api-key-file", refused.stderr)

    def test_without_a_terminal_it_prints_once(self):
        run = support.run_program("top", "--url", URL.format(self.shared.port))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("\x1b", run.stdout)
        self.assertRegex(run.stdout, r"^kvkeep top +model")
        self.assertIn("Last requests", run.stdout)

    def test_a_wrong_address_is_told_at_once(self):
        port = support.free_port()
        for flags, said in ((("--url", URL.format(port)), "127.0.0.1"), (("--url", "ftp://x"), "ftp://x"), (("--interval", "0"), "--interval")):
            run = support.run_program("top", "--once", *flags)
            self.assertEqual(run.returncode, 1, flags)
            self.assertIn(said, run.stderr)

    def test_a_terminal_that_is_not_known_is_told(self):
        top = self.top(environment={"TERM": "no-such-terminal"})
        self.assertEqual(top.wait_for_end(), 1)


if __name__ == "__main__":
    support.main()
