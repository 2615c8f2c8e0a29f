"""`kvkeep bench` from outside, against a server with known counts (mock_server.py) and against itself."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

from bench_case import LIMIT_S, MOCK, PROGRAM, WORKLOAD, BenchCase, alive, wait_until

# Of the mock: a word is a token; "system:", "user:" and "assistant:" are one each.
FIRST_PROMPT = 1 + 50 + 1 + 20 + 1
NEXT_TURN = 4 + 1 + 20 + 1        # the reply, the next message
NEXT_IDEAL = NEXT_TURN - 4 + 1    # all but the reply, whose last id was never decoded
PROMPTS = [FIRST_PROMPT, FIRST_PROMPT + NEXT_TURN, FIRST_PROMPT + 2 * NEXT_TURN]
IDEALS = [FIRST_PROMPT, NEXT_IDEAL, NEXT_IDEAL]


class BenchTest(BenchCase):
    def test_counts_of_a_known_server(self):
        done, run = self.bench_mock("honest")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual([request["prompt_tokens"] for request in run["requests"]], PROMPTS)
        self.assertEqual([request["prefilled_tokens"] for request in run["requests"]], PROMPTS)
        self.assertEqual([request["ideal_tokens"] for request in run["requests"]], IDEALS)
        self.assertEqual([request["reply_tokens"] for request in run["requests"]], [4, 4, 4])
        self.assertEqual([request["label"] for request in run["requests"]], ["turn main 1", "turn main 2", "turn main 3"])
        self.assertEqual(run["problems"], [])
        self.assertIn(f"{sum(PROMPTS) / sum(IDEALS):.3f}", done.stdout)

    def test_a_lying_server_is_caught(self):
        done, run = self.bench_mock("lying")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(f"request 1 (turn main 1): the reply says prefilled tokens {FIRST_PROMPT - 1}, "
                      f"the engine saw {FIRST_PROMPT}", run["problems"])
        self.assertEqual(run["requests"][0]["prefilled_tokens"], FIRST_PROMPT)
        self.assertIn("the engine saw", done.stdout)

    def test_what_is_computed_between_requests_is_told(self):
        done, run = self.bench_mock("busy")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex("\n".join(run["problems"]), r"\d+ ids were decoded outside of requests")

    def test_a_server_that_dies_is_reported_with_the_request(self):
        done, run = self.bench_mock("dying")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(len(run["problems"]), 1)
        self.assertIn("request 3 (turn main 3): the server was killed by signal 9", run["problems"][0])
        self.assertIn("about to die", run["problems"][0])
        self.assertEqual(len(run["requests"]), 3)
        self.assertNotEqual(run["requests"][2]["error"], "")

    def test_a_refusal_is_reported_in_the_servers_words(self):
        done, run = self.bench_mock("refusing")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(len(run["problems"]), 1)
        self.assertIn("request 3 (turn main 3)", run["problems"][0])
        self.assertIn("out of patience", run["problems"][0])
        self.assertEqual(run["requests"][2]["status"], 500)

    def test_what_fails_before_a_request_is_not_called_one(self):
        done, run = self.bench_mock("wordless")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["requests"], [])
        self.assertRegex(run["problems"][0], "^system [a-z]+, before request 1: POST /tokenize: status 404, .*no /tokenize "
                                             "here.*; the rest was not played$")

    def test_what_measuring_costs_is_measured(self):
        self.bench_mock("honest")
        part = json.loads(self.json.read_text())["parts"][-1]
        self.assertEqual(part["name"], "CPU time of the bench itself while a request is under way / time of the request")
        self.assertEqual(part["samples"], 6, "three requests to each server")
        self.assertLess(0, part["low_quartile"])
        self.assertLess(part["high_quartile"], 1)

    def test_a_peer_that_does_not_start_costs_nobody_elses_figures(self):
        second = self.directory / "second.txt"
        second.write_text(WORKLOAD)
        forms = {form: self.directory / f"report.{form}" for form in ("csv", "html", "markdown")}
        done, run = self.bench_mock("missing", second, *(w for form, path in forms.items() for w in (f"--{form}", path)),
                                    runs=4)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["requests"], [])
        self.assertIsNone(run["totals"]["ratio"])
        self.assertIn("ended with status 5 before it was ready", run["problems"][0])
        self.assertIn("there is no model here", run["problems"][0])
        report = json.loads(self.json.read_text())
        ours = [run for run in report["runs"] if run["server"] == "kvkeep"]
        self.assertEqual([len(run["requests"]) for run in ours], [3, 3])
        self.assertEqual([run["problems"] for run in ours], [[], []])
        theirs = [run["problems"] for run in report["runs"] if run["server"] != "kvkeep"]
        self.assertEqual(theirs[1], ["was not tried again"])
        name = pathlib.Path(sys.executable).name
        self.assertIn(f"three {name}: - (problems)", done.stderr)
        self.assertRegex(done.stdout, rf"{name} +0 +- +- +- +-")
        self.assertIn("| Three turns | 1.000 | - |", forms["markdown"].read_text())
        self.assertIn("none was answered", forms["html"].read_text())
        self.assertNotIn(name, forms["csv"].read_text())

    def test_parity_that_cannot_be_measured_costs_nothing_else(self):
        done, _ = self.bench_mock("missing", "--parity")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        report = json.loads(self.json.read_text())
        self.assertEqual(len(report["problems"]), 1)
        self.assertIn("parity: ", report["problems"][0])
        self.assertIn("there is no model here", report["problems"][0])
        self.assertIn(report["problems"][0], " ".join(done.stdout.split()))
        self.assertTrue(self.written(report), "what was written is measured before")

    def test_kvkeep_that_does_not_start_ends_the_run(self):
        done = self.bench("-m", "/dev/null", self.workload)
        self.assertEqual(done.returncode, 1)
        self.assertIn("before it was ready", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_peer_named_kvkeep_is_not_taken_for_us(self):
        peer = self.directory / "kvkeep"
        peer.write_text(f"#!/bin/sh\nexec {sys.executable} {MOCK} honest \"$@\"\n")
        peer.chmod(0o755)
        done = self.bench("--peer", peer, "--json", self.json, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(self.json.read_text())
        self.assertEqual([server["name"] for server in report["servers"]], ["kvkeep", "kvkeep-peer"])
        ratios = {run["server"]: run["totals"]["ratio"] for run in report["runs"]}
        self.assertEqual(ratios, {"kvkeep": 1.0, "kvkeep-peer": sum(PROMPTS) / sum(IDEALS)})

    def test_an_interrupted_run_leaves_nothing_behind(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=number):
                self.interrupt(number, status)

    def interrupt(self, number, status):
        command = [PROGRAM, "bench", "--quick", "--peer", f"{sys.executable} {MOCK} hanging", str(self.workload)]
        with subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as bench:
            pid = wait_until(self.hanging_server, "the server hangs")
            bench.send_signal(number)
            output = bench.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(bench.returncode, status, output)
        self.assertIn("interrupted", output)
        wait_until(lambda: not alive(pid), "the server is gone")
        self.assertEqual(list(self.temporary.iterdir()), [])

    def hanging_server(self):
        for log in self.temporary.glob("*/*.log"):
            with contextlib.suppress(FileNotFoundError):
                words = log.read_text().split()
                if words[:3] == ["hanging", "in", "process"]:
                    return int(words[3])
        return None

    def test_a_regression_against_a_kept_report_is_told(self):
        kept = self.directory / "kept.json"
        self.assertEqual(self.bench("--keep", kept, self.workload).returncode, 0)
        done = self.bench("--check", kept, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("No regression", done.stdout)
        report = json.loads(kept.read_text())
        report["runs"][0]["requests"][0]["prompt_tokens"] += 1
        kept.write_text(json.dumps(report))
        done = self.bench("--check", kept, self.workload)
        self.assertEqual(done.returncode, 1)
        self.assertIn("REGRESSION: three, kvkeep: prompt tokens", done.stdout)

    def test_a_kept_report_that_is_none_is_told_in_one_line(self):
        for name, content, expected in (("empty", b"", "the file is empty"),
                                        ("model", b"GGUF\x03\0\0\xff", "not JSON from line 1 on"),
                                        ("cut", b'{"format": "kvkeep-bench-report",\n', "it ends too early"),
                                        ("other", b"{}", "format: is missing")):
            with self.subTest(name):
                path = self.directory / name
                path.write_bytes(content)
                self.expect_refusal(["--check", path], f"--check {path}: no report that --keep or --json wrote: ")
                self.expect_refusal(["--check", path], expected)
        self.expect_refusal(["--check", self.directory], f"--check {self.directory}: ")
        self.expect_refusal(["--check", self.directory / "none"], f"--check {self.directory}/none: ")

    def test_mistakes_on_the_command_line_are_told_before_anything_runs(self):
        for arguments, expected in ((["1-growin"], "did you mean '1-growing'"), (["nothing-like-it"], "--list"),
                                    (["--qick"], "did you mean '--quick'"), ([self.directory / "no.txt"], "no.txt"),
                                    (["--peer-url", "u", "--peer", "x"], "one of them"),
                                    (["--parity"], "--peer"), (["--pairs", "3"], "--parity"),
                                    (["--no-workloads"], "--parts"),
                                    (["--no-workloads", "--parts", "1-growing"], "leave out '1-growing'"),
                                    (["--size", "huge"], "--size"),
                                    (["-m", "/nowhere.gguf"], "--model /nowhere.gguf: no such file"),
                                    (["--check", "/nowhere.json"], "/nowhere.json"),
                                    (["1-growing", "1-growing"], "twice")):
            with self.subTest(arguments=arguments):
                self.expect_refusal(arguments, expected)

    def expect_refusal(self, arguments, expected):
        """In one line, so before anything was played: each run that ended has a line of its own."""
        done = self.bench(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_report_that_cannot_be_written_is_told_before_anything_runs(self):
        nowhere = self.directory / "nowhere" / "report"
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        for flag in ("--json", "--csv", "--html", "--markdown", "--keep"):
            for path, expected in ((nowhere, "its folder does not exist"), (self.directory, "not a regular file"),
                                   (pipe, "not a regular file"), ("/proc/report", "/proc/report: ")):
                with self.subTest(flag=flag, path=path):
                    self.expect_refusal([flag, path, self.workload], f"{flag} {path}: ")
                    self.expect_refusal([flag, path, self.workload], expected)
        self.expect_refusal(["--json", self.json, "--csv", self.directory / "." / "report.json", self.workload],
                            "--json and --csv name the same file")

    def test_a_report_replaces_what_a_link_leads_to(self):
        old = self.directory / "old.json"
        old.write_text("old")
        self.json.symlink_to(old)
        self.expect_refusal(["--json", self.json, "--csv", old, self.workload], "--json and --csv name the same file")
        self.assertEqual(old.read_text(), "old", "a check changes nothing")
        self.assertEqual(self.bench("--json", self.json, self.workload).returncode, 0)
        self.assertTrue(self.json.is_symlink())
        self.assertEqual(json.loads(old.read_text())["format"], "kvkeep-bench-report")
        self.assertEqual(list(self.directory.glob("*.tmp")), [])

    def test_a_peer_that_cannot_be_played_is_told_before_anything_runs(self):
        text = self.directory / "text"
        text.write_text("no program")
        for program in ("no-such-server", self.directory / "none", text, self.directory):
            with self.subTest(program=program):
                self.expect_refusal(["--peer", program, self.workload], f"--peer: {program}: no such program")
        for url, expected in (("https://127.0.0.1", "https"), ("127.0.0.1:9", "http://"),
                              ("http://127.0.0.1:9", "no connection")):
            with self.subTest(url=url):
                self.expect_refusal(["--peer-url", url, self.workload], f"--peer-url {url}: ")
                self.expect_refusal(["--peer-url", url, self.workload], expected)
        for mode, expected in (("loading", "not ready yet"), ("other", "POST /apply-template: status 404")):
            with self.subTest(mode=mode), self.running_mock(mode) as url:
                self.expect_refusal(["--peer-url", url, self.workload], expected)

    @contextlib.contextmanager
    def running_mock(self, mode):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, MOCK, mode, "--host", "127.0.0.1", "--port", str(port)]
        environment = dict(os.environ, KVKEEP_COUNT_FILE=str(self.directory / "count"))
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL) as server:
            def answers():
                self.assertIsNone(server.poll(), "the mock has ended")
                with socket.socket() as one:
                    return one.connect_ex(("127.0.0.1", port)) == 0
            try:
                wait_until(answers, "the mock answers")
                yield f"http://127.0.0.1:{port}"
            finally:
                server.kill()

    def test_a_running_server_is_played_by_its_own_claims(self):
        with self.running_mock("honest") as url:
            done = self.bench("--peer-url", url, "--json", self.json, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(self.json.read_text())
        run = report["runs"][1]
        self.assertEqual((run["server"], run["counted_by"], run["server_cpu_seconds"]), (url, "reply", None))
        said = next(server for server in report["servers"] if server["name"] == url)
        self.assertEqual(said["version"], "b7-mock", "as its /props says")
        self.assertRegex(said["flags"], "^was running, calls itself BaseHTTP/")
        self.assertEqual([request["prefilled_tokens"] for request in run["requests"]], PROMPTS)

    def test_cpu_time_of_each_server_is_told(self):
        done, run = self.bench_mock("honest")
        ours = next(run for run in json.loads(self.json.read_text())["runs"] if run["server"] == "kvkeep")
        for seconds in (ours["server_cpu_seconds"], run["server_cpu_seconds"]):
            self.assertGreater(seconds, 0)
            self.assertLess(seconds, 60)
        self.assertRegex(done.stdout, r"wall TTFT ms +CPU s\n")

    def test_all_forms_of_the_report_are_written(self):
        paths = {form: self.directory / f"report.{form}" for form in ("json", "csv", "html", "markdown")}
        done = self.bench(*(word for form, path in paths.items() for word in (f"--{form}", path)), self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for path in paths.values():
            self.assertIn("three", path.read_text().lower(), path)
        report = json.loads(paths["json"].read_text())
        self.assertEqual(report["model"], "generated-tiny.gguf")
        self.assertIn("--restore always", report["servers"][0]["flags"])

    def test_a_cache_from_before_is_told(self):
        peer = f"{PROGRAM} serve --restore always --kv-disk-dir {self.directory}/kept"
        self.assertEqual(self.bench("--peer", peer, self.workload).returncode, 0)
        done = self.bench("--peer", peer, self.workload)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the server knew them from before this run", done.stdout)

    @staticmethod
    def written(report):
        return [part for part in report["parts"] if "bytes" in part["name"]]

    def test_what_was_written_is_compared_with_what_was_new(self):
        # Longer than what is not worth a file: everything reaches the disk.
        done = self.bench("--json", self.json, self.workload)
        parts = self.written(json.loads(self.json.read_text()))
        self.assertEqual([part["name"] for part in parts], ["payload bytes written / bytes of new rows, Three turns",
                                                            "bytes given to write() / payload bytes written, Three turns"])
        self.assertEqual(done.returncode, 0, done.stdout)
        for part in parts:
            self.assertGreaterEqual(part["median"], 1)
            self.assertTrue(part["holds"])
        self.assertLess(parts[0]["median"], 1.1)
        self.assertGreaterEqual(parts[1]["median"], parts[0]["median"])

    def test_prompts_that_are_too_short_to_be_written_say_nothing_of_writing(self):
        self.workload.write_text(WORKLOAD.replace("prompt 50", "prompt 5").replace("main 20", "main 2"))
        done = self.bench("--json", self.json, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(self.written(json.loads(self.json.read_text())), [])

    def test_list_names_the_workloads(self):
        done = self.bench("--list")
        self.assertEqual(done.returncode, 0)
        self.assertIn("8-kills", done.stdout)


if __name__ == "__main__":
    unittest.main()
