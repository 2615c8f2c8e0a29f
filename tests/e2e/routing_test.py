"""The nginx lines of docs/sharing.md, run by nginx in front of two servers that answer with their names: requests of one
session reach one server, and the other one when that is gone.

    routing_test.py NGINX DOCS PACKAGING
"""

import http.client
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testing", "e2e"))

from kvkeep_process import free_port  # noqa: E402

NGINX, DOCS, PACKAGING = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)


def documented_lines():
    with open(os.path.join(DOCS, "sharing.md")) as page:
        return re.search(r"```nginx\n(.*?)```", page.read(), re.S).group(1)


class Named(http.server.ThreadingHTTPServer):
    """Answers every POST with its name, if that came for the address that the client asked: kvkeep knows that one, and refuses
    the name that nginx has for both servers."""
    daemon_threads = True

    def __init__(self, name):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200 if self.headers["Host"].startswith("127.0.0.1:") else 403)
                self.send_header("Content-Length", str(len(name)))
                self.end_headers()
                self.wfile.write(name.encode())

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()


class Routing(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="kvkeep-routing-"))
        self.servers = [Named("one"), Named("two")]
        self.port = free_port()
        lines = documented_lines().replace("listen 8080", f"listen 127.0.0.1:{self.port}")
        for address, server in zip(("10.0.0.11:8080", "10.0.0.12:8080"), self.servers):
            self.assertIn(address, lines)
            lines = lines.replace(address, f"127.0.0.1:{server.server_address[1]}")
        temporary = " ".join(f"{kind}_temp_path {self.folder}/{kind};"
                             for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(os.path.join(self.folder, "nginx.conf"), "w") as config:
            config.write(f"daemon off; pid {self.folder}/pid; error_log stderr; events {{}}\n"
                         f"http {{ access_log off; {temporary}\n{lines}}}\n")
        self.nginx = subprocess.Popen([NGINX, "-p", self.folder, "-c", os.path.join(self.folder, "nginx.conf")],
                                      stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        self.wait_for_nginx()

    def stop(self):
        self.nginx.terminate()
        self.nginx.wait(10)
        for server in self.servers:
            server.end()

    def wait_for_nginx(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                return self.ask()
            except OSError:
                self.assertIsNone(self.nginx.poll(), "nginx refused the lines")
                self.assertLess(time.monotonic(), deadline, "nginx does not listen")
                time.sleep(0.02)

    def ask(self, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("POST", "/v1/chat/completions", "{}",
                               {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            self.assertEqual(reply.status, 200)
            return reply.read().decode()
        finally:
            connection.close()

    def test_a_session_stays_at_its_server(self):
        for header in ("x_claude_code_session_id", "x_session_id", "session_id"):
            places = {number: self.ask(**{header: f"session-{number}"}) for number in range(24)}
            self.assertEqual(set(places.values()), {"one", "two"}, header)
            for number, place in places.items():
                for _ in range(2):
                    self.assertEqual(self.ask(**{header: f"session-{number}"}), place, header)

    def test_the_other_server_takes_over(self):
        gone = next(number for number in range(100) if self.ask(x_session_id=str(number)) == "one")
        self.servers[0].end()
        self.assertEqual(self.ask(x_session_id=str(gone)), "two")

    def test_the_container_has_the_same_lines(self):
        with open(os.path.join(PACKAGING, "docker", "nginx.conf")) as config:
            packaged = config.read().split("\n", 1)[1]
        self.assertEqual(packaged.replace("one:8080", "10.0.0.11:8080").replace("two:8080", "10.0.0.12:8080"),
                         documented_lines())


if __name__ == "__main__":
    unittest.main()
