"""The S3 double (testing/share/s3_double.py) as a child process, and how clients reach it."""

import os
import subprocess
import sys
import time

DOUBLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../share/s3_double.py")
# The environment of its clients. Swift, the other S3 service of tests (swift_process.py), has colons in all its access keys.
AWS = {"AWS_ACCESS_KEY_ID": "kv:server", "AWS_SECRET_ACCESS_KEY": "kvsecret"}


class S3Process:
    """Runs from `with` to its end. `directory` takes the file with its port."""

    def __init__(self, directory, *flags):
        self.directory, self.flags = directory, flags
        self.process = None

    def __enter__(self, limit_s=20):
        port_file = f"{self.directory}/port"
        keys = ["--access-key", AWS["AWS_ACCESS_KEY_ID"], "--secret-key", AWS["AWS_SECRET_ACCESS_KEY"]]
        self.process = subprocess.Popen([sys.executable, "-B", DOUBLE, "--port-file", port_file, *keys, *self.flags],
                                        stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + limit_s
        while not os.path.exists(port_file):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.end()
                raise RuntimeError("the S3 double does not start")
            time.sleep(0.02)
        with open(port_file, encoding="ascii") as file:
            self.url = f"s3://kvbucket/fleet?endpoint=http://127.0.0.1:{file.read()}&region=eu-test-1"
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()
