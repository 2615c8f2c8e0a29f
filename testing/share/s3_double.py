"""An S3 server in memory that verifies signatures itself (AWS Signature Version 4), for tests of clients.

    python3 s3_double.py --port-file FILE [--access-key KEY --secret-key SECRET --region NAME --bucket NAME]

It writes its port to FILE once it listens. Path style, one bucket; GET with ranges, HEAD, PUT, copies, DELETE,
and lists of objects (ListObjectsV2) of at most --most-keys keys. It answers each request after --delay-ms, as one across a
network does, and never answers on connection number --silent-connection, as one whose packets are lost. Of each range it
sends nothing after --stall-after bytes, as one that is cut off in the middle. After each range it sends --excess-bytes that
it did not announce, as Ceph's gateway does when it keeps objects in SQLite. A copy takes --copy-ms-per-mb as well, and is never
answered where the key ends with --hang-copies-of.
"""

import argparse
import hashlib
import hmac
import os
import re
import sys
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

MOST_BODY_BYTES = 256 << 20
SILENT_S = 600
AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def canonical_query(query):
    pairs = []
    for part in query.split("&") if query else []:
        name, _, value = part.partition("=")
        pairs.append((quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~")))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def signature(secret, method, target, headers, signed, scope):
    """Returns the signature of a request. `headers` has lower-case names, `signed` those that are signed."""
    path, query = urlsplit(target)[2], urlsplit(target)[3]
    lines = [method, quote(unquote(path), safe="/-_.~"), canonical_query(query)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    lines += ["", ";".join(signed), headers["x-amz-content-sha256"]]
    date, region, service, _ = scope.split("/")
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, sha256("\n".join(lines).encode())])
    key = ("AWS4" + secret).encode()
    for word in (date, region, service, "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def refusal(server, method, target, headers, body):
    """Returns why a request is refused, or None."""
    given = AUTHORIZATION.match(headers.get("authorization", ""))
    if not given:
        return "no signature"
    credential, signed, code = given.group(1), given.group(2).split(";"), given.group(3)
    access_key, _, scope = credential.partition("/")
    if access_key != server.access_key:
        return "unknown key"
    if scope.split("/")[1:] != [server.region, "s3", "aws4_request"]:
        return "wrong scope"
    must = {"host", "x-amz-date", "x-amz-content-sha256"} | {name for name in headers if name.startswith("x-amz-")}
    if not must <= set(signed) or signed != sorted(signed) or any(name not in headers for name in signed):
        return "not all headers are signed"
    when = time.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
    if abs(time.time() - time.mktime(when) + time.timezone) > 900 or not scope.startswith(headers["x-amz-date"][:8]):
        return "too old"
    content = headers["x-amz-content-sha256"]
    if content not in ("UNSIGNED-PAYLOAD", sha256(body)):
        return "wrong sum of the body"
    if not hmac.compare_digest(code, signature(server.secret_key, method, target, headers, signed, scope)):
        return "wrong signature"
    return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A head and a body that leave in two packets wait for each other: 40 ms on a connection that is used again.
    wbufsize = -1
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.is_silent = self.server.count_connection() == self.server.silent_connection

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        size = int(self.headers.get("Content-Length") or 0)
        if size > MOST_BODY_BYTES:
            return self.answer(413)
        body = self.rfile.read(size)
        if self.is_silent:
            self.close_connection = True
            time.sleep(SILENT_S)
            return None
        time.sleep(self.server.delay_s)
        headers = {name.lower(): value for name, value in self.headers.items()}
        why = refusal(self.server, self.command, self.path, headers, body)
        if why:
            return self.answer(403, f"<Error><Code>AccessDenied</Code><Message>{why}</Message></Error>".encode())
        key = unquote(urlsplit(self.path).path)
        if not key.startswith(f"/{self.server.bucket}/"):
            return self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        return getattr(self, "serve_" + self.command.lower())(key, body, headers)

    do_GET = do_HEAD = do_PUT = do_DELETE = serve

    def serve_list(self, query):
        wanted = {name: values[0] for name, values in parse_qs(query).items()}
        if wanted.get("list-type") != "2":
            return self.answer(400, b"<Error><Code>InvalidArgument</Code></Error>")
        start = len(f"/{self.server.bucket}/")
        keys = sorted(path[start:] for path in list(self.server.objects))
        after = wanted.get("start-after", "")
        keys = [key for key in keys if key.startswith(wanted.get("prefix", "")) and key > after]
        most = min(int(wanted.get("max-keys", 1000)), self.server.most_keys)
        contents = "".join(f"<Contents><Key>{escape(key)}</Key><Size>1</Size></Contents>" for key in keys[:most])
        truncated = "true" if len(keys) > most else "false"
        body = (f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult><Name>{self.server.bucket}</Name>'
                f"<KeyCount>{min(most, len(keys))}</KeyCount><IsTruncated>{truncated}</IsTruncated>{contents}"
                "</ListBucketResult>")
        return self.answer(200, body.encode(), [("Content-Type", "application/xml")])

    def serve_get(self, key, _body, headers):
        if key == f"/{self.server.bucket}/":
            return self.serve_list(urlsplit(self.path).query)
        if key not in self.server.objects:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        data = self.server.objects[key][0]
        wanted = re.match(r"bytes=(\d+)-(\d+)$", headers.get("range", ""))
        if not wanted:
            return self.answer(200, data)
        first, last = int(wanted.group(1)), int(wanted.group(2))
        if first >= len(data):
            return self.answer(416)
        part = data[first:last + 1]
        stalls = len(part) > self.server.stall_after
        self.answer(206, part[:self.server.stall_after] if stalls else part,
                    [("Content-Length", str(len(part))),
                     ("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")])
        self.wfile.flush()
        if stalls:
            time.sleep(SILENT_S)
        return self.wfile.write(b"x" * self.server.excess_bytes)

    def serve_head(self, key, _body, _headers):
        if key == f"/{self.server.bucket}/":
            return self.answer(200)
        if key not in self.server.objects:
            return self.answer(404)
        data, modified = self.server.objects[key]
        return self.answer(200, b"", [("Content-Length", str(len(data))), ("Last-Modified", formatdate(modified, usegmt=True))])

    def serve_put(self, key, body, headers):
        source = headers.get("x-amz-copy-source")
        if source is not None:
            if source not in self.server.objects:
                return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            body = self.server.objects[source][0]
            if self.server.hang_copies_of and key.endswith(self.server.hang_copies_of):
                time.sleep(SILENT_S)
            time.sleep(self.server.copy_s_per_mb * len(body) / 1e6)
        self.server.objects[key] = (body, time.time())
        return self.answer(200)

    def serve_delete(self, key, _body, _headers):
        self.server.objects.pop(key, None)
        return self.answer(204)

    def log_message(self, *_arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # clients connect often at once: the kernel forgets those that do not fit, for a second
    silent_connection = 0
    excess_bytes = 0
    copy_s_per_mb = 0
    hang_copies_of = ""
    stall_after = sys.maxsize

    def __init__(self, address):
        super().__init__(address, Handler)
        self.connections, self.lock = 0, threading.Lock()

    def count_connection(self):
        with self.lock:
            self.connections += 1
            return self.connections


def make_server(access_key, secret_key, region, bucket, port=0, most_keys=1000, delay_ms=0):
    server = Server(("127.0.0.1", port))
    server.delay_s = delay_ms / 1e3
    server.access_key, server.secret_key, server.region, server.bucket = access_key, secret_key, region, bucket
    server.most_keys = most_keys
    server.objects = {}  # path -> (bytes, time of the last change)
    return server


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port-file", required=True)
    parser.add_argument("--access-key", default="kvkey")
    parser.add_argument("--secret-key", default="kvsecret")
    parser.add_argument("--region", default="eu-test-1")
    parser.add_argument("--bucket", default="kvbucket")
    parser.add_argument("--most-keys", type=int, default=1000)
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--silent-connection", type=int, default=0)
    parser.add_argument("--excess-bytes", type=int, default=0)
    parser.add_argument("--stall-after", type=int, default=sys.maxsize)
    parser.add_argument("--copy-ms-per-mb", type=float, default=0)
    parser.add_argument("--hang-copies-of", default="")
    options = parser.parse_args()
    server = make_server(options.access_key, options.secret_key, options.region, options.bucket,
                         most_keys=options.most_keys, delay_ms=options.delay_ms)
    server.silent_connection, server.excess_bytes = options.silent_connection, options.excess_bytes
    server.stall_after = options.stall_after
    server.copy_s_per_mb, server.hang_copies_of = options.copy_ms_per_mb / 1e3, options.hang_copies_of
    with open(options.port_file + ".new", "w", encoding="ascii") as file:
        file.write(str(server.server_address[1]))
    os.rename(options.port_file + ".new", options.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
