"""`kvkeep replay` from outside, against a server whose counts are known (mock_server.py).

Environment: KVKEEP_PROGRAM, the program under test.
"""

import json
import lzma
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from mock_server import MockServer

PROGRAM = os.environ["KVKEEP_PROGRAM"]
LIMIT_S = 60
MOCK = f"{sys.executable} -B {pathlib.Path(__file__).with_name('mock_server.py')}"


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def line(t, *messages, path="/v1/chat/completions", **fields):
    """A request of a recording. Strings are user messages."""
    turns = [user(message) if isinstance(message, str) else message for message in messages]
    body = {"model": "recorded-model", "messages": turns, "max_tokens": 100}
    return {"t": t, "client": "gardener", "session": "beans", "method": "POST", "path": path, "body": body, **fields}


class ReplayTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="kvkeep-replay-test-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.temporary = self.path("tmp")
        os.mkdir(self.temporary)

    def path(self, name):
        return os.path.join(self.directory, name)

    def record(self, *lines, name="session.jsonl"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in lines)
        return self.path(name)

    def run_replay(self, *arguments, status=0, **options):
        result = subprocess.run([PROGRAM, "replay", *arguments], capture_output=True, text=True, timeout=LIMIT_S,
                                env=dict(os.environ, TMPDIR=self.temporary), **options)
        self.assertEqual(result.returncode, status, result.stderr + result.stdout)
        self.assertEqual(os.listdir(self.temporary), [], "left behind")
        return result

    def replay(self, url, *arguments, **options):
        """The one run of the report, and what was printed."""
        report = self.path("report.json")
        result = self.run_replay("--url", url, "--json", report, *arguments, **options)
        with open(report, encoding="utf-8") as file:
            runs = json.load(file)["runs"]
        self.assertEqual(len(runs), 1)
        return runs[0], result.stdout

    # --- counts ---

    def test_counts_and_ideal(self):
        first, second = "a" * 74, "b" * 68
        session = self.record(line(5, first), line(5.1, first, assistant("ok 1"), second), line(5.2, first),
                              line(5.3, "c" * 10))
        with MockServer() as server:
            run, output = self.replay(server.url, session)
        counted = [(one["prompt_tokens"], one["cached_tokens"], one["prefilled_tokens"], one["ideal_tokens"],
                    one["reply_tokens"]) for one in run["requests"]]
        self.assertEqual(counted[0], (74, 0, 74, 74, 4))
        # The first prompt was counted as 74, and three of the reply's four ids were decoded: all else is new.
        self.assertEqual(counted[1], (146, 77, 69, 69, 4))
        self.assertEqual(counted[2], (74, 74, 0, 0, 4))
        # Canonical text: "%message user\n%text\n" (20), the content, "\n%end\n%message assistant\n" (25). The first
        # 20 are shared with everything: so much of the prompt's ten tokens is taken to be.
        self.assertEqual(counted[3], (10, 0, 10, round(10 * 35 / 55), 4))
        self.assertEqual(run["counted_by"], "reply")
        self.assertEqual(run["problems"], [])
        self.assertTrue(all(one["ttft_ms"] > 0 and one["total_ms"] >= one["ttft_ms"] for one in run["requests"]))
        self.assertRegex(output, r"total of 4 +304 +151 +153 ")

    def test_ideal_is_exact_where_the_template_is_known(self):
        shared = "a" * 500
        session = self.record(line(0, shared + "b" * 7), line(0.1, shared + "c" * 9),
                              line(0.2, shared + "c" * 9, assistant("ok 2"), "d" * 11))
        with MockServer(has_template=True) as server:
            run, output = self.replay(server.url, session)
        self.assertEqual([one["ideal_tokens"] for one in run["requests"]], [507, 9, 12])
        self.assertIn("3 requests recorded, ideal exact", output)
        with MockServer() as server:
            estimated, output = self.replay(server.url, session)
        self.assertRegex(output, "3 requests recorded, ideal within [0-9]+ tokens")
        allowed = int(re.search("ideal within ([0-9]+) tokens", output)[1])
        off_by = sum(abs(one["ideal_tokens"] - other["ideal_tokens"])
                     for one, other in zip(run["requests"], estimated["requests"]))
        self.assertLess(0, off_by)
        self.assertLessEqual(off_by, allowed)
        self.assertLess(allowed, 100)

    def test_a_prompt_that_changes_without_reason_is_no_excuse(self):
        session = self.record(line(0, "a" * 500), line(0.1, "a" * 500))
        with MockServer(has_template=True, stamps=True) as server:
            run, _ = self.replay(server.url, session)
        self.assertEqual([one["prefilled_tokens"] > 490 for one in run["requests"]], [True, True])
        self.assertEqual([one["ideal_tokens"] for one in run["requests"]], [508, 0])

    def test_the_templates_text_about_the_first_tools_is_new(self):
        shared = "a" * 500
        lines = [line(0, shared, "b" * 7), line(0.1, shared, "c" * 9), line(0.2, shared, "d" * 9)]
        for one in lines[1:]:
            one["body"]["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        session = self.record(*lines)
        with MockServer(has_template=True) as server:
            run, output = self.replay(server.url, session)
        self.assertIn("3 requests recorded, ideal exact", output)
        self.assertEqual(run["problems"], [])
        self.assertGreater(run["requests"][1]["ideal_tokens"], 190)
        self.assertEqual([one["ideal_tokens"] for one in run["requests"]],
                         [one["prefilled_tokens"] for one in run["requests"]])
        with MockServer(has_template=True, stamps=True) as server:
            run, _ = self.replay(server.url, session)
        self.assertLess(run["requests"][2]["ideal_tokens"], 100, "known by then: a prefix that changes is no excuse")

    # --- what the engine saw ---

    def replay_mock(self, *flags, status=0):
        """Problems of three requests, the last of them refused, and what was printed."""
        session = self.record(line(0, "one"), line(0.1, "one", assistant("ok 1"), "two"), line(0.2, "three refuse"))
        report = self.path("report.json")
        output = self.run_replay("--server", " ".join([MOCK, *flags]), "--json", report, session, status=status).stdout
        problems = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["runs"][0]["problems"]
        self.assertEqual(len([problem for problem in problems if "refuse" in problem or "failed" in problem]), 1)
        return [problem for problem in problems if "failed" not in problem], output

    def test_claims_are_compared_with_what_the_engine_was_given(self):
        problems, output = self.replay_mock()
        self.assertEqual(problems, [])
        self.assertIn("= as the server's replies say; their sum was counted at its engine", output)
        self.assertNotIn("not counted", output)
        # 3 + 3 of the first, 10 - 6 + 3 of the second.
        problems, output = self.replay_mock("--claims-less", "2", status=1)
        self.assertIn("* as the server's replies say, not counted", output)
        self.assertEqual(problems,
                         ["the replies say that 9 ids were computed (prefilled, or sampled and fed back), the engine saw "
                          "13"])

    def test_a_server_that_cannot_be_seen_into_is_reported(self):
        problems, output = self.replay_mock("--uncounted")
        self.assertEqual(len(problems), 1)
        self.assertIn("* as the server's replies say, not counted", output)
        self.assertRegex(problems[0], "nothing was counted at the engine .* are only the server's claim")

    def test_all_forms_of_the_report(self):
        session = self.record(line(0, "hello"), line(0.1, "hello refuse"))
        names = {flag: self.path("out." + flag) for flag in ("json", "html")}
        with MockServer() as server:
            flags = [part for flag, name in names.items() for part in ("--" + flag, name)]
            self.run_replay("--url", server.url, *flags, session)
        self.assertIn("gardener beans", pathlib.Path(names["html"]).read_text(encoding="utf-8"))
        report = json.loads(pathlib.Path(names["json"]).read_text(encoding="utf-8"))
        self.assertEqual(report["model"], "mock-model")
        self.assertEqual(report["servers"][0], {"name": server.url, "version": "", "flags": "was running, calls itself mock/7"})

    def test_refusals_are_reported_and_do_not_stop_it(self):
        session = self.record(line(0, "one refuse", kind="main", turn=1), line(0.1, "two"), line(0.2, "three refuse"))
        with MockServer() as server:
            run, output = self.replay(server.url, session)
        self.assertEqual([one["status"] for one in run["requests"]], [400, 200, 400])
        self.assertEqual(run["requests"][0]["error"], "tools are not supported")
        self.assertEqual(run["problems"], ['2 requests failed, the first of them "main turn 1": status 400: '
                                           "tools are not supported"])
        self.assertIn("failed (400)", output)
        self.assertIn("2 requests failed", output)

    def test_a_server_that_knew_the_prompts_before_is_reported(self):
        session = self.record(line(0, "hello " * 100))
        with MockServer() as server:
            self.assertEqual(self.replay(server.url, session)[0]["problems"], [])
            again = self.replay(server.url, session)[0]
            printed = self.run_replay("--url", server.url, session).stdout
        self.assertEqual(again["requests"][0]["prefilled_tokens"], 0)
        self.assertEqual(len(again["problems"]), 1)
        self.assertRegex(again["problems"][0], r"the server knew at least \d+ tokens before this replay began, so there is "
                                               "no ratio")
        self.assertGreater(again["known_before"], 500)
        self.assertIsNone(again["totals"]["ratio"])
        self.assertNotIn("0.00", printed, "a ratio near 0 would look like a result")

    def test_the_rate_of_tokens_that_come_at_once_is_the_servers_or_none(self):
        """The mock sends all tokens of a reply in one write: seen from here they take no time."""
        session = self.record(line(0, "hello"), line(0.1, "hello again"))
        with MockServer() as server:
            run, _ = self.replay(server.url, session)
        for one in run["requests"]:
            self.assertLess(one["decode_tokens_per_second"], 10_000)
        with MockServer(rate=123.5) as server:
            run, _ = self.replay(server.url, session)
        self.assertEqual([one["decode_tokens_per_second"] for one in run["requests"]], [123.5, 123.5])

    def test_a_recording_that_grows_while_it_is_played_is_reported(self):
        session = self.record(line(0, "one"), line(0.1, "two"))
        with MockServer(traces_to=session) as server:
            result = self.run_replay("--url", server.url, session)
            self.assertEqual(len(server.requests), 2, "what the server appends is not played")
        self.assertIn("grew while it was played", result.stdout)
        self.assertIn("copy", result.stdout)

    def test_nothing_played_is_an_error(self):
        session = self.record(line(0, "refuse"))
        with MockServer() as server:
            result = self.run_replay("--url", server.url, session, status=1)
        self.assertEqual(result.stderr, "kvkeep: nothing was played: all 1 requests failed\n")

    def test_a_server_that_does_not_tokenize(self):
        session = self.record(line(0, "hello " * 100))
        with MockServer(tokenizes=False) as server:
            run, _ = self.replay(server.url, session)
        self.assertEqual(run["requests"][0]["ideal_tokens"], 600)
        self.assertEqual(run["problems"], ["the ideal is estimated, four bytes a token: POST /tokenize: status 404, "
                                           "{\"error\": {\"message\": \"no such thing\"}}"])

    # --- order, overlap, pauses ---

    def test_overlapping_requests_overlap(self):
        session = self.record(line(0, "first together"), line(0.05, "second together", inflight=2),
                              line(0.1, "third", inflight=1))
        for flags in ([], ["--fast"]):
            with self.subTest(flags), MockServer() as server:
                run, _ = self.replay(server.url, *flags, "--echo", "generated", session)
                self.assertEqual([one["under_way"] for one in server.requests], [1, 2, 1])
                self.assertEqual([one["reply_tokens"] for one in run["requests"]], [8, 8, 4], "together, together, ok 3")

    def test_other_requests_do_not_overlap(self):
        session = self.record(*(line(0, f"number {i}") for i in range(8)))
        with MockServer() as server:
            self.replay(server.url, "--fast", session)
            self.assertEqual(server.most_under_way, 1)
            self.assertEqual([one["body"]["messages"][0]["content"] for one in server.requests],
                             [f"number {i}" for i in range(8)])

    def test_no_more_in_flight_than_asked_for(self):
        session = self.record(*(line(0, f"number {i} together", inflight=i + 1) for i in range(8)))
        with MockServer() as server:
            self.replay(server.url, "--in-flight", "2", session)
            self.assertEqual(server.most_under_way, 2)

    def test_pauses(self):
        session = self.record(line(7, "one"), line(7.6, "two"))
        for flags, kept in (([], True), (["--fast"], False)):
            with self.subTest(flags), MockServer() as server:
                self.replay(server.url, *flags, session)
                pause_s = server.requests[1]["at"] - server.requests[0]["at"]
                if kept:
                    self.assertGreater(pause_s, 0.55)
                else:
                    self.assertLess(pause_s, 0.55)

    # --- what is sent ---

    def test_requests_are_sent_as_recorded(self):
        session = self.record(line(0, "hello", path="/api/v1/chat/completions?x=1",
                                   headers={"Authorization": "Bearer recorded", "X-Session-Id": "s1"}))
        with MockServer() as server:
            self.replay(server.url, "--model", "mine", "--reply-tokens", "7", "--api-key", "given", session)
            request = server.requests[0]
        self.assertEqual(request["path"], "/v1/chat/completions?x=1")
        headers = {name.lower(): value for name, value in request["headers"].items()}
        self.assertEqual(headers["authorization"], "Bearer given")
        self.assertEqual(headers["x-session-id"], "s1")
        self.assertEqual(headers["connection"], "close")
        self.assertEqual(request["body"], {"model": "mine", "messages": [user("hello")], "max_tokens": 7, "stream": True,
                                           "stream_options": {"include_usage": True}})

    def test_echo(self):
        session = self.record(line(0, "ask"), line(0.1, "ask", assistant("recorded"), "more"))
        for flags, said in ((["--echo", "recorded"], "recorded"), (["--echo", "generated"], "ok 1")):
            with self.subTest(flags), MockServer() as server:
                self.replay(server.url, *flags, session)
                self.assertEqual(server.requests[1]["body"]["messages"], [user("ask"), assistant(said), user("more")])

    def test_other_requests_are_played_too(self):
        session = self.record({"t": 0, "method": "GET", "path": "/v1/models"}, {"t": 0, "method": "GET", "path": "/x"},
                              line(0.1, "hello"))
        with MockServer() as server:
            run, _ = self.replay(server.url, session)
        self.assertEqual([(one["label"], one["status"]) for one in run["requests"]],
                         [("GET /v1/models", 200), ("GET /x", 404), ("request 3", 200)])

    # --- servers that die ---

    def test_a_broken_reply_is_reported_and_the_rest_is_played(self):
        session = self.record(line(0, "one break"), line(0.1, "two"))
        with MockServer() as server:
            run, _ = self.replay(server.url, session)
        self.assertEqual([bool(one["error"]) for one in run["requests"]], [True, False])
        self.assertRegex(run["problems"][0], '"request 1" failed: .*broke')

    def test_the_request_that_killed_the_server_is_named(self):
        session = self.record(line(0, "one"), line(0.1, "two die", kind="main", turn=2), line(0.2, "three"),
                              line(0.3, "four"))
        report = self.path("report.json")
        self.run_replay("--server", MOCK, "--json", report, session, status=1)
        run = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))["runs"][0]
        self.assertEqual(run["problems"][0], 'the server was killed by signal 9, killed by the request "main turn 2"; '
                                             "2 requests were not sent")
        self.assertEqual([one["error"] == "not sent" for one in run["requests"]], [False, False, True, True])
        self.assert_no_mock_runs()

    def test_a_started_server_is_stopped(self):
        result = self.run_replay("--server", MOCK, self.record(line(0, "one")))
        self.assertNotIn("Python 3", result.stdout, "that of the interpreter is not the server's version")
        self.assertIn("total of 1", result.stdout)
        self.assert_no_mock_runs()

    def test_interrupted_it_leaves_nothing_behind(self):
        session = self.record(line(0, "one"), line(0.1, "hang"), line(0.2, "three"))
        with subprocess.Popen([PROGRAM, "replay", "--server", MOCK, session], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=dict(os.environ, TMPDIR=self.temporary)) as process:
            deadline = time.monotonic() + LIMIT_S
            while not self.mocks() and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.5)  # somewhere between the start of the server and the request that hangs
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=LIMIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("interrupted", errors)
        self.assertEqual(os.listdir(self.temporary), [])
        self.assert_no_mock_runs()

    def mocks(self):
        """Command lines of mock servers that this test's program started: they have its temporary directory."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                environment, command = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"mock_server.py" in command and self.temporary.encode() in environment:
                found.append(command)
        return found

    def assert_no_mock_runs(self):
        self.assertEqual(self.mocks(), [])

    # --- what cannot be played ---

    def test_errors_are_one_line(self):
        good = self.record(line(0, "one"))
        broken = self.path("broken.jsonl")
        pathlib.Path(broken).write_text("{\n", encoding="utf-8")
        packed = self.path("packed.jsonl.xz")
        pathlib.Path(packed).write_bytes(lzma.compress(b"{}"))
        nowhere = "http://127.0.0.1:1"
        for arguments, pattern in (
                ([good], "name one server to play against"),
                (["--url", nowhere, "--server", "x", good], "name one server to play against"),
                (["--url", nowhere], "no recording to play"),
                (["--url", nowhere, good], "no server at http://127.0.0.1:1: .*no connection"),
                (["--url", "ftp://x", good], "'ftp://x' is not a URL"),
                (["--url", nowhere, broken], "broken.jsonl:1: not JSON"),
                (["--url", nowhere, packed], r"packed with xz; unpack it first: xz -dc .* \| kvkeep replay -"),
                (["--url", nowhere, self.path("none")], "none"),
                (["--url", nowhere, "--fasst", good], "did you mean '--fast'"),
                (["--url", nowhere, "--echo", "loud", good], "'loud' is not one of recorded, generated"),
                (["--url", nowhere, "--in-flight", "33", good], "'33' is not a whole number from 1 to 32"),
                (["--server", "no-such-program-anywhere", good], "no-such-program-anywhere"),
        ):
            with self.subTest(arguments):
                result = self.run_replay(*arguments, status=1)
                self.assertTrue(result.stderr.startswith("kvkeep: "), result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertTrue(re.search(pattern, result.stderr), result.stderr)
                self.assertEqual(result.stdout, "")

    def test_a_report_that_cannot_be_written(self):
        session = self.record(line(0, "one"))
        with MockServer() as server:
            result = self.run_replay("--url", server.url, "--json", self.path("none/x.json"), session, status=1)
        self.assertIn("none/x.json", result.stderr)
        self.assertEqual(result.stdout, "", "it was told before anything was sent")

    def test_standard_input(self):
        text = json.dumps(line(0, "one")) + "\n"
        with MockServer() as server:
            result = self.run_replay("--url", server.url, "-", input=text)
        self.assertIn("gardener beans, 1 request recorded", result.stdout)


if __name__ == "__main__":
    unittest.main()
