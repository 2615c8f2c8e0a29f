"""Peers of `kvkeep bench`: what each may be, and what one that cannot be played costs the others."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import unittest

from bench_case import IDEALS, MOCK, PROGRAM, PROMPTS, WORKLOAD, BenchCase, wait_until


class PeersTest(BenchCase):
    def test_a_peer_that_does_not_start_costs_nobody_elses_figures(self):
        second = self.directory / "second.txt"
        second.write_text(WORKLOAD)
        done, run = self.bench_mock("missing", second, runs=4)
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

    def test_a_workload_that_a_peer_refuses_has_no_figures_and_is_no_problem(self):
        page = self.directory / "report.html"
        done, run = self.bench_mock("narrow", "--html", page)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(run["problems"], [])
        self.assertEqual(run["refused"], "request 3 (turn main 3): status 400: the prompt is too long for me")
        self.assertEqual((run["totals"]["ratio"], run["totals"]["ttft_ms"], run["server_cpu_seconds"]), (None, None, None))
        name = pathlib.Path(sys.executable).name
        self.assertIn(f"three {name}: - (refused)", done.stderr)
        self.assertRegex(done.stdout, rf"{name} +3 \(refused\) +- +- +- +- +- +-\n")
        self.assertIn("Not played: the server refuses a request of the workload\n"
                      f"- three on {name}: {run['refused']}", done.stdout)
        self.assertNotIn("problem", done.stdout)

    def test_other_failures_of_a_peer_are_problems(self):
        done, run = self.bench_mock("refusing")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["refused"], "")
        self.assertIn("request 3 (turn main 3): status 500: out of patience; the rest was not played", run["problems"])

    def test_a_report_opens_with_what_was_found(self):
        done, run = self.bench_mock("honest")
        found = f"kvkeep 1.00, {run['server']} {run['totals']['ratio']:.2f}"
        self.assertEqual(done.stdout.splitlines()[0],
                         f"{found}: tokens prefilled for each token that was never computed before")
        self.assertEqual(json.loads(self.json.read_text())["finding"], found)

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
        model = self.directory / "broken.gguf"
        model.write_bytes(b"GGUF, and nothing more")
        done = self.bench("-m", model, self.workload)
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

    def test_a_peer_that_cannot_be_played_is_reported_before_anything_runs(self):
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

    def test_a_cache_from_before_is_reported(self):
        peer = f"{PROGRAM} serve --restore always --kv-disk-dir {self.directory}/kept"
        self.assertEqual(self.bench("--peer", peer, self.workload).returncode, 0)
        done = self.bench("--peer", peer, self.workload)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the server knew them from before this run", done.stdout)


if __name__ == "__main__":
    unittest.main()
