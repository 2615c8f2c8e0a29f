"""The S3 double verifies signatures as Amazon's documentation computes them, and as curl does; and it refuses others."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../testing/share"))
import s3_double  # noqa: E402  pylint: disable=wrong-import-position

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SCOPE = "20130524/us-east-1/s3/aws4_request"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = {"host": "examplebucket.s3.amazonaws.com", "x-amz-date": "20130524T000000Z"}
# The four examples of "Signature Calculations for the Authorization Header" in the S3 API reference.
EXAMPLES = [
    ("GET", "/test.txt", {"range": "bytes=0-9", "x-amz-content-sha256": EMPTY},
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("PUT", "/test%24file.text", {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY",
                                  "x-amz-content-sha256":
                                  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"},
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    ("GET", "/?lifecycle", {"x-amz-content-sha256": EMPTY},
     "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("GET", "/?max-keys=2&prefix=J", {"x-amz-content-sha256": EMPTY},
     "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
]


class Vectors(unittest.TestCase):
    def test_amazons_examples_have_their_signatures(self):
        for method, target, headers, expected in EXAMPLES:
            headers = {**HOST, **headers}
            self.assertEqual(s3_double.signature(SECRET, method, target, headers, sorted(headers), SCOPE), expected, target)

    def test_each_part_of_a_request_changes_the_signature(self):
        method, target, headers, expected = EXAMPLES[0]
        headers = {**HOST, **headers}
        changes = [(SECRET + "x", method, target, headers, SCOPE), (SECRET, "PUT", target, headers, SCOPE),
                   (SECRET, method, target + "x", headers, SCOPE), (SECRET, method, target + "?x", headers, SCOPE),
                   (SECRET, method, target, {**headers, "range": "bytes=0-8"}, SCOPE),
                   (SECRET, method, target, headers, SCOPE.replace("us", "eu"))]
        for secret, verb, path, lines, scope in changes:
            self.assertNotEqual(s3_double.signature(secret, verb, path, lines, sorted(lines), scope), expected)


class Curl(unittest.TestCase):
    def setUp(self):
        self.server = s3_double.make_server("kvkey", "kvsecret", "eu-test-1", "kvbucket")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/kvbucket/"

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()

    def curl(self, key, *arguments, user="kvkey:kvsecret", region="eu-test-1"):
        command = ["curl", "-s", "-o", "-", "-w", "%{http_code}", "--aws-sigv4", f"aws:amz:{region}:s3", "--user", user,
                   "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *arguments, self.url + key]
        return subprocess.run(command, check=True, capture_output=True, timeout=20).stdout

    def test_curl_writes_and_reads(self):
        self.assertEqual(self.curl("a/b.r", "--upload-file", "-"), b"200")
        self.assertEqual(self.curl("a/b.r", "-X", "PUT", "--data-binary", "0123456789"), b"200")
        self.assertEqual(self.curl("a/b.r"), b"0123456789200")
        self.assertEqual(self.curl("a/b.r", "-r", "2-4"), b"234206")
        self.assertEqual(self.curl("c")[-3:], b"404")

    def test_curl_lists_a_page_at_a_time(self):
        self.server.most_keys = 2
        for key in ("a/1", "b/1", "b/2", "b/3"):
            self.curl(key, "-X", "PUT", "--data-binary", "x")
        first = self.curl("?list-type=2&max-keys=1000&prefix=b%2F").decode()
        self.assertIn("<Key>b/1</Key>", first)
        self.assertIn("<Key>b/2</Key>", first)
        self.assertIn("<IsTruncated>true</IsTruncated>", first)
        self.assertNotIn("a/1", first)
        last = self.curl("?list-type=2&max-keys=1000&prefix=b%2F&start-after=b%2F2").decode()
        self.assertIn("<Key>b/3</Key>", last)
        self.assertIn("<IsTruncated>false</IsTruncated>", last)
        self.assertNotIn("b/2", last)

    def test_the_query_of_a_list_is_signed(self):
        path = "/kvbucket/?list-type=2&prefix=a"
        headers = {**HOST, "x-amz-content-sha256": EMPTY}
        whole = s3_double.signature(SECRET, "GET", path, headers, sorted(headers), SCOPE)
        self.assertNotEqual(whole, s3_double.signature(SECRET, "GET", path + "b", headers, sorted(headers), SCOPE))
        self.assertEqual(self.curl("?list-type=2&prefix=a", user="kvkey:other")[-3:], b"403")

    def test_curl_with_another_secret_key_or_region_is_refused(self):
        for user, region in (("kvkey:other", "eu-test-1"), ("other:kvsecret", "eu-test-1"), ("kvkey:kvsecret", "eu-2")):
            self.assertEqual(self.curl("a", user=user, region=region)[-3:], b"403", (user, region))

    def ask(self, connection, key):
        """An unsigned request: its refusal is an answer as well."""
        connection.sendall(f"GET /kvbucket/{key} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"</Error>"):
            answer += connection.recv(4096)
        return answer

    def test_a_connection_that_is_used_again_answers_at_once(self):
        """With a packet for the head and one for the body, each answer but the first takes 40 ms."""
        times = []
        with socket.create_connection(self.server.server_address, timeout=20) as connection:
            for number in range(20):
                begin = time.monotonic()
                self.assertIn(b"403", self.ask(connection, number))
                times.append(time.monotonic() - begin)
        self.assertLess(sorted(times)[10], 0.03, times)

    def test_clients_that_connect_at_once_are_answered(self):
        """A full queue of connections costs the next one a second."""
        self.server.shutdown()  # nothing is accepted meanwhile
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(socket.create_connection(self.server.server_address, timeout=20))
                           for _ in range(64)]
            threading.Thread(target=self.server.serve_forever, daemon=True).start()
            begin = time.monotonic()
            for connection in connections:
                self.assertIn(b"403", self.ask(connection, "a"))
            self.assertLess(time.monotonic() - begin, 10)

    def test_an_answer_may_be_delayed(self):
        self.server.delay_s = 0.1
        with socket.create_connection(self.server.server_address, timeout=20) as connection:
            begin = time.monotonic()
            self.ask(connection, "a")
            self.assertGreaterEqual(time.monotonic() - begin, 0.1)

    def test_unsigned_requests_are_refused(self):
        command = ["curl", "-s", "-o", "-", "-w", "%{http_code}", self.url + "a"]
        self.assertEqual(subprocess.run(command, check=True, capture_output=True, timeout=20).stdout[-3:], b"403")


if __name__ == "__main__":
    unittest.main()
