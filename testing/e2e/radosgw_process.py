"""Ceph's S3 gateway as a child process, on loopback: a real service that checks every signature. It keeps objects in SQLite.

It runs from a file system of its own (scripts/setup-s3-gateway makes one), because its packages would replace half of an
older Debian. The program that uses this needs a mount namespace of its own, in which it is root (own_mounts.enter()).

With SQLite it sends more than it announces: for a range of 256 bytes, `Content-Length: 256` and the first 1024 bytes of the
object or all of it, so that the next answer on the same connection begins with the rest. Clients therefore reach it by a relay
that has one connection to it for each request and passes on as many bytes as were announced.
"""

import http.client
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kvkeep_process import free_port

ACCESS_KEY, SECRET_KEY = "kvkey", "kvsecret"
BUCKET = "kvbucket"
# Without tcp_nodelay small answers wait for 40 ms.
CONFIGURATION = """[client]
rgw_backend_store=dbstore
rgw_config_store=dbstore
dbstore_config_uri=file:{place}/config.db
dbstore_db_dir={place}/db
rgw_data={place}
run_dir={place}
log_file={place}/log
rgw_frontends=beast endpoint=127.0.0.1:{port} tcp_nodelay=1
"""


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one write

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.gateway_port, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # the signature covers them as they are
                if name.lower() != "expect":
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()  # no more than its length says
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # as the gateway itself would, if it is gone
            return
        finally:
            connection.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_DELETE = relay

    def log_message(self, *_arguments):
        pass


class RadosgwProcess:
    """Runs from `with` to its end. `root` is a file system with radosgw."""

    place = "/tmp/gateway"  # inside of it

    def __init__(self, root):
        self.root, self.port, self.process = root, free_port(), None
        self.relay = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
        self.relay.daemon_threads = True
        self.relay.gateway_port = self.port
        threading.Thread(target=self.relay.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.relay.server_address[1]}"
        self.url = f"s3://{BUCKET}/fleet?endpoint={self.endpoint}"

    def __enter__(self):
        # Nothing is left in the file system: what is mounted here ends with this program's namespace.
        for arguments in (("-t", "tmpfs", "kvkeep-test", f"{self.root}/tmp"), ("--rbind", "/proc", f"{self.root}/proc"),
                          ("--rbind", "/dev", f"{self.root}/dev")):
            subprocess.run(["mount", *arguments], check=True, capture_output=True)
        os.makedirs(f"{self.root}{self.place}/db")
        with open(f"{self.root}{self.place}/ceph.conf", "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(place=self.place, port=self.port))
        self._run("radosgw-admin", "user", "create", "--uid=kv", "--display-name=kv", f"--access-key={ACCESS_KEY}",
                  f"--secret-key={SECRET_KEY}")
        try:
            self.start()
            self._make_bucket()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def _command(self, program, *arguments):
        return ["chroot", self.root, program, "-c", f"{self.place}/ceph.conf", "--no-mon-config", *arguments]

    def _run(self, *command):
        done = subprocess.run(self._command(*command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")

    def start(self, limit_s=60):
        with open(f"{self.root}{self.place}/out", "ab") as out:
            self.process = subprocess.Popen(self._command("radosgw", "-n", "client.admin", "-f"), stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out)
        deadline = time.monotonic() + limit_s
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}", timeout=2).close()
                return
            except urllib.error.HTTPError:
                return  # it answers, if only that this request lacks a signature
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"radosgw does not start; see {self.root}{self.place}/log") from None
            time.sleep(0.05)

    def _make_bucket(self):
        made = subprocess.run(["curl", "-s", "-o", "-", "-w", "%{http_code}", "--aws-sigv4", "aws:amz:us-east-1:s3", "--user",
                               f"{ACCESS_KEY}:{SECRET_KEY}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-X", "PUT",
                               f"{self.endpoint}/{BUCKET}"], capture_output=True, text=True, timeout=60, check=True)
        if made.stdout != "200":
            raise RuntimeError(f"no bucket: {made.stdout}")

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def end(self):
        self.relay.shutdown()
        self.relay.server_close()
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for place in ("tmp", "proc", "dev"):
            subprocess.run(["umount", "--recursive", "--lazy", f"{self.root}/{place}"], check=False, capture_output=True)
