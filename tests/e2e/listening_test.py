"""Where the server listens: lists of addresses, Unix sockets, sockets of a service manager; and what it tells the manager."""

import contextlib
import http.client
import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess

from flag_case import FlagCase, covers
from support import fresh_directory, fresh_path, main, serve_command, wait_until

LIMIT_S = 60


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def ask(connection, path="/health", body=None, **headers):
    """Returns status and body of one request."""
    with contextlib.closing(connection):
        connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def serves(connection):
    return ask(connection)[0] == 200


def text_of(path):
    with open(path) as file:
        return file.read()


def line_with(text, stream):
    return next(line for line in stream if text in line)


@contextlib.contextmanager
def running(*flags, environment=None, wrapper=(), **keywords):
    """Yields the process and its line of a server that is ready."""
    command = [*wrapper, *serve_command("--no-kv-disk", *flags)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                          env=dict(os.environ, **(environment or {})), **keywords) as process:
        try:
            yield process, line_with(" serving ", process.stderr)
        finally:
            process.terminate()
            process.communicate(timeout=LIMIT_S)


class Addresses(FlagCase):
    @covers("--host", "--port")
    def test_a_list_of_addresses_and_a_unix_socket(self):
        path = os.path.join(fresh_directory(), "kvkeep.sock")
        with running("--host", "127.0.0.1,127.0.0.2", "--host", path, "--port", "0") as (process, line):
            port = int(re.search(r"http://127.0.0.1:(\d+)/v1", line).group(1))
            self.assertIn(f"also at http://127.0.0.2:{port} and the Unix socket {path}", line)
            self.assertTrue(serves(http.client.HTTPConnection("127.0.0.1", port)))
            self.assertTrue(serves(http.client.HTTPConnection("127.0.0.2", port)))
            with self.assertRaises(ConnectionRefusedError):
                serves(http.client.HTTPConnection("127.0.0.3", port))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            status, text = ask(UnixConnection(path), "/v1/chat/completions",
                               {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}, Host="runner.internal")
            self.assertEqual(status, 200, text)
            self.assertTrue(json.loads(text)["choices"])
        self.assertEqual(process.returncode, 0)
        self.assertFalse(os.path.exists(path))

    def test_every_interface_of_both_kinds(self):
        if not socket.has_ipv6 or not can_bind_ipv6():
            return  # as on machines that were started with ipv6.disable=1
        with running("--host", "::", "--host", "127.0.0.1", "--port", "0") as (_, line):
            port = int(re.search(r"http://\[::1\]:(\d+)/v1", line).group(1))
            self.assertIn(f"http://127.0.0.1:{port}", line)
            self.assertTrue(serves(http.client.HTTPConnection("::1", port)))
            self.assertTrue(serves(http.client.HTTPConnection("127.0.0.1", port)))

    def test_a_unix_socket_by_itself_and_its_keys(self):
        path = os.path.join(fresh_directory(), "a.sock")
        keys = fresh_path("keys")
        with open(keys, "w") as file:
            file.write("secret\n")
        with running("--host", path, "--api-key-file", keys, environment={"LLAMA_ARG_PORT": "1"}) as (_, line):
            self.assertIn(f"at the Unix socket {path}", line)
            for public in ("/health", "/v1/models", "/models", "/api/hello", "/"):  # docs/README.md says why
                self.assertEqual(ask(UnixConnection(path), public)[0], 200, public)
            self.assertEqual(ask(UnixConnection(path), "/props")[0], 401)
            self.assertEqual(ask(UnixConnection(path), "/tokenize", {"content": "x"})[0], 401)
            self.assertEqual(ask(UnixConnection(path), "/tokenize", {"content": "x"}, Authorization="Bearer secret")[0],
                             200)

    def test_only_abandoned_socket_files_are_replaced(self):
        path = os.path.join(fresh_directory(), "a.sock")
        with running("--host", path) as (first, _):
            second = subprocess.run(serve_command("--no-kv-disk", "--host", path), capture_output=True, text=True,
                                    timeout=LIMIT_S, stdin=subprocess.DEVNULL)
            self.assertEqual(second.returncode, 1)
            self.assertIn("another server listens there", second.stderr)
            self.assertTrue(serves(UnixConnection(path)))
            first.kill()
            first.wait(LIMIT_S)
            self.assertTrue(stat.S_ISSOCK(os.stat(path).st_mode))
            with running("--host", path):
                self.assertTrue(serves(UnixConnection(path)))
        self.assertFalse(os.path.exists(path))
        with open(path, "w") as file:
            file.write("precious")
        third = subprocess.run(serve_command("--no-kv-disk", "--host", path), capture_output=True, text=True,
                               timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        self.assertIn("not a socket", third.stderr)
        self.assertTrue(os.path.exists(path))


def can_bind_ipv6():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


# Runs the rest of its words under the pid that LISTEN_PID names, as systemd does.
ACTIVATED = ("sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh")


class PassedSockets(FlagCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(fresh_directory(), "passed")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(self.path)
        self.unix.listen()
        self.addCleanup(self.tcp.close)
        self.addCleanup(self.unix.close)
        self.port = self.tcp.getsockname()[1]

    def activated(self, *flags):
        # Copies first: a descriptor may have the number that another one is to get.
        copies = [os.dup(self.tcp.fileno()), os.dup(self.unix.fileno())]
        self.addCleanup(lambda: [os.close(copy) for copy in copies])
        high = [copy + 100 for copy in copies]

        def place():
            for copy, number in zip(copies, high):
                os.dup2(copy, number)
            for number, target in zip(high, (3, 4)):
                os.dup2(number, target)
                os.close(number)
        return running(*flags, environment={"LISTEN_FDS": "2"}, wrapper=ACTIVATED, preexec_fn=place, close_fds=False)

    def test_are_served_instead_of_the_default_address(self):
        with self.activated() as (process, line):
            self.assertIn(f"http://127.0.0.1:{self.port}/v1", line)
            self.assertIn(f"the Unix socket {self.path}", line)
            self.assertNotIn(":8080", line)
            self.assertTrue(serves(http.client.HTTPConnection("127.0.0.1", self.port)))
            self.assertTrue(serves(UnixConnection(self.path)))
            with open(f"/proc/{process.pid}/net/tcp") as table:
                listening = [row.split()[1] for row in table if " 0A " in row]
            self.assertIn(f"0100007F:{self.port:04X}", listening)
        self.assertTrue(os.path.exists(self.path), "the manager's file is the manager's")

    def test_a_flag_adds_an_address(self):
        with self.activated("--port", "0") as (_, line):
            urls = re.findall(r"http://127.0.0.1:(\d+)\b(?!/v1)", line)
            self.assertEqual(len(set(urls)), 2, line)
            for port in urls:
                self.assertTrue(serves(http.client.HTTPConnection("127.0.0.1", int(port))))


class Manager(FlagCase):
    def test_hears_of_each_state(self):
        path, log, trace = os.path.join(fresh_directory(), "notify"), fresh_path("log"), fresh_path("trace")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(LIMIT_S)
            flags = ("--port", "0", "--log-file", log, "--trace", trace)
            with running(*flags, environment={"NOTIFY_SOCKET": path}) as (process, line):
                port = int(re.search(r":(\d+)/v1", line).group(1))
                self.assertTrue(manager.recv(1000).startswith(b"READY=1\n"))
                for file in (log, trace):
                    os.rename(file, file + ".1")
                process.send_signal(signal.SIGHUP)
                self.assertRegex(manager.recv(1000), rb"^RELOADING=1\nMONOTONIC_USEC=\d+\n")
                self.assertTrue(manager.recv(1000).startswith(b"READY=1\n"))
                wait_until(lambda: os.path.exists(log) and os.path.exists(trace), "both files, made anew")
                self.assertTrue(serves(http.client.HTTPConnection("127.0.0.1", port)))
                process.terminate()
                self.assertTrue(manager.recv(1000).startswith(b"STOPPING=1\n"))
            self.assertEqual(process.returncode, 0)
        self.assertIn("SIGHUP: opening log files anew", text_of(log))
        self.assertIn("bye", text_of(log))
        self.assertIn(" serving ", text_of(log + ".1"))
        self.assertEqual(stat.S_IMODE(os.stat(log).st_mode), 0o600)

    def test_a_server_ends_with_its_terminal(self):
        log = fresh_path("log")
        command = serve_command("--no-kv-disk", "--port", "0", "--log-file", log)
        child, terminal = pty.fork()
        if child == 0:
            os.execv(command[0], command)
        wait_until(lambda: os.path.exists(log) and " serving " in text_of(log), "a server", limit_s=LIMIT_S)
        os.kill(child, signal.SIGHUP)  # the terminal is still there: only the logs are opened anew
        wait_until(lambda: "SIGHUP" in text_of(log), "a reload")
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertIn("bye", text_of(log))


if __name__ == "__main__":
    main()
