"""OpenStack Swift's S3 interface (testing/share/swift_gateway.py) as a child process: a service that checks every signature.

It needs a Python that has Swift, which KVKEEP_SWIFT_PYTHON names: Debian's own, after scripts/setup-s3-gateway.
"""

import http.client
import os
import subprocess
import sys
import time

TESTING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTING, "share"))

from s3_double import signature  # noqa: E402
from s3_process import AWS  # noqa: E402

GATEWAY = os.path.join(TESTING, "share/swift_gateway.py")
BUCKET = "kvbucket"
REGION = "eu-test-1"


class SwiftProcess:
    """Runs from `with` to its end. `directory` takes its objects, its log and the file with its port; its file system must
    have user attributes."""

    def __init__(self, directory):
        self.directory = directory
        self.port = 0  # any, and the same one after a kill
        self.process = None

    def __enter__(self):
        try:
            self.start()
            status, body = self.ask("PUT", f"/{BUCKET}", AWS["AWS_SECRET_ACCESS_KEY"])
            if status != 200:
                raise RuntimeError(f"Swift makes no bucket: status {status}: {body}")
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    @property
    def url(self):
        return f"s3://{BUCKET}/fleet?endpoint=http://127.0.0.1:{self.port}&region={REGION}"

    def start(self, limit_s=120):
        port_file = f"{self.directory}/port"
        with open(f"{self.directory}/log", "ab") as log:
            self.process = subprocess.Popen(
                [os.environ["KVKEEP_SWIFT_PYTHON"], "-B", GATEWAY, self.directory, "--port-file", port_file, "--port",
                 str(self.port), "--access-key", AWS["AWS_ACCESS_KEY_ID"], "--secret-key", AWS["AWS_SECRET_ACCESS_KEY"],
                 "--region", REGION], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + limit_s
        while not os.path.exists(port_file):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"Swift does not start:\n{self.log()[-2000:]}")
            time.sleep(0.02)
        with open(port_file, encoding="ascii") as file:
            self.port = int(file.read())
        os.unlink(port_file)

    def log(self):
        with open(f"{self.directory}/log", encoding="utf-8", errors="replace") as log:
            return log.read()

    def ask(self, method, target, secret_key):
        """One request without a body, signed with that key. Returns the status and the body."""
        date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": date}
        scope = f"{date[:8]}/{REGION}/s3/aws4_request"
        signed = sorted(headers)
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={AWS['AWS_ACCESS_KEY_ID']}/{scope}, SignedHeaders={';'.join(signed)}, "
            f"Signature={signature(secret_key, method, target, headers, signed, scope)}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, target, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def kill(self):
        self.process.kill()
        self.process.wait(10)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
