"""The processes, directories, signals and variables of `kvkeep bench`: nothing is left behind, nothing obeyed unsaid."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from bench_case import LIMIT_S, MOCK, PROGRAM, WORKLOAD, BenchCase, alive, wait_until

# It unwinds, and where that takes more than 5 s it leaves without.
INTERRUPTED_WITHIN_S = 15
WITH_A_KILL = WORKLOAD + "kill 0.1\nturn main 20\n"


class ProcessesTest(BenchCase):
    def setUp(self):
        super().setUp()
        self.processes = self.directory / "processes"
        self.variables = {"MOCK_PROCESSES": str(self.processes)}

    def environment(self):
        return {**super().environment(), **self.variables}

    def mock_processes(self):
        return [int(line) for line in self.processes.read_text().split()] if self.processes.exists() else []

    def wrapper(self, mode):
        """A script that starts the mock, waits for it, and is not the server itself."""
        script = self.directory / "wrapper"
        script.write_text(f"#!/bin/sh\n{sys.executable} {MOCK} {mode} \"$@\"\necho over\n")
        script.chmod(0o755)
        return script

    def expect_nothing_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [], "a directory was left behind")
        for process in self.mock_processes():
            wait_until(lambda process=process: not alive(process), f"process {process} is gone")

    def test_a_server_in_a_wrapper_is_killed_and_stopped(self):
        self.workload.write_text(WITH_A_KILL)
        prefilled = []
        for peer in (f"{sys.executable} {MOCK} honest", self.wrapper("honest")):
            self.processes.unlink(missing_ok=True)
            done = self.bench("--peer", peer, "--json", self.json, self.workload)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(len(self.mock_processes()), 2)
            self.expect_nothing_left()
            run = next(run for run in json.loads(self.json.read_text())["runs"] if run["server"] != "kvkeep")
            self.assertEqual(run["kills"], 1)
            prefilled.append([request["prefilled_tokens"] for request in run["requests"]])
        self.assertEqual(prefilled[0], prefilled[1])

    def test_tokens_computed_at_a_restart_are_reported(self):
        self.workload.write_text(WITH_A_KILL)
        done, run = self.bench_mock("recomputing")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["problems"], ["50 ids were decoded outside of requests and are not in the ratio"])

    def test_a_peer_that_cannot_be_counted_is_believed_and_that_is_said(self):
        done, run = self.bench_mock("unseen")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(run["counted_by"], "reply")
        text = " ".join(done.stdout.split())
        self.assertEqual(text.count("its engine was not seen: prefilled tokens are what its replies say"), 1, text)
        self.assertIn("* as the server's replies say, not counted", text)

    def test_silence_of_a_peer_that_cannot_be_counted_flatters_it_not(self):
        done, run = self.bench_mock("silent")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        prompts = [request["prompt_tokens"] for request in run["requests"]]
        self.assertEqual([request["prefilled_tokens"] for request in run["requests"]], prompts)
        self.assertEqual(len(prompts), 3)
        self.assertEqual(len(run["problems"]), 3)
        for problem in run["problems"]:
            self.assertIn("does not say how many tokens were prefilled: the whole prompt counts", problem)

    def test_that_kvkeep_cannot_be_counted_is_a_problem(self):
        self.temporary = self.directory / "a b"  # LD_PRELOAD takes the space for the end of a name
        self.temporary.mkdir()
        done = self.bench("--json", self.json, self.workload)
        run = json.loads(self.json.read_text())["runs"][0]
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["counted_by"], "reply")
        self.assertEqual(len(run["problems"]), 1)
        self.assertIn("the engine was not seen, so that nothing was counted", run["problems"][0])

    def test_variables_that_would_change_servers_are_cleared_and_named(self):
        self.variables["LLAMA_ARG_CTX_SIZE"] = "16"
        self.variables["LLAMA_ARG_CACHE_REUSE"] = "1"  # kvkeep would refuse to start
        done, _ = self.bench_mock("honest")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        servers = json.loads(self.json.read_text())["servers"]
        self.assertEqual(len(servers), 2)
        for server in servers:
            self.assertIn("; without LLAMA_ARG_CACHE_REUSE, LLAMA_ARG_CTX_SIZE of the environment", server["flags"])
        self.assertIn("LLAMA_ARG_CTX_SIZE", done.stdout)

    def test_a_peer_that_is_a_kvkeep_remembers_no_other_run(self):
        self.variables["XDG_CACHE_HOME"] = str(self.directory / "cache")
        for _ in range(2):
            done = self.bench("--peer", f"{PROGRAM} serve --restore always", self.workload)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertFalse((self.directory / "cache").exists())

    def start(self, *arguments, **more):
        command = [PROGRAM, "bench", "--quick", *map(str, arguments)]
        return subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, **more)

    def interrupt(self, bench, number, status):
        begin = time.monotonic()
        bench.send_signal(number)
        output = bench.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(bench.returncode, status, output)
        self.assertLess(time.monotonic() - begin, INTERRUPTED_WITHIN_S)
        self.expect_nothing_left()

    def test_interrupts_while_a_server_starts(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            self.processes.unlink(missing_ok=True)
            with self.subTest(signal=number), self.start("--peer", self.wrapper("loading"), self.workload) as bench:
                wait_until(self.mock_processes, "the server starts")
                self.interrupt(bench, number, 128 + number)

    def test_interrupts_while_a_peer_is_asked_for_its_version(self):
        script = self.directory / "silent"
        script.write_text(f"#!/bin/sh\necho $$ >> {self.processes}\nsleep 600\n")
        script.chmod(0o755)
        with self.start("--peer", script, self.workload) as bench:
            wait_until(self.mock_processes, "the peer is asked")
            begin = time.monotonic()
            self.interrupt(bench, signal.SIGINT, 130)
            self.assertLess(time.monotonic() - begin, 4, "it did not unwind")

    def test_interrupts_in_the_middle_of_parity(self):
        with self.start("--no-workloads", "--parity", "--peer", self.wrapper("hanging")) as bench:
            wait_until(self.mock_processes, "both servers were started")
            time.sleep(1)
            self.interrupt(bench, signal.SIGHUP, 129)

    def test_interrupts_in_the_middle_of_parts(self):
        for pause_s in (0, 0.5, 2):
            with self.subTest(pause_s=pause_s), self.start("--no-workloads", "--parts") as bench:
                wait_until(lambda: list(self.temporary.glob("*/*.parts*")), "the model of the parts is made")
                time.sleep(pause_s)
                self.interrupt(bench, signal.SIGINT, 130)

    def test_a_second_signal_leaves_nothing_behind_either(self):
        with self.start("--no-workloads", "--parts") as bench:
            wait_until(lambda: list(self.temporary.glob("*/*.parts*")), "the model of the parts is made")
            bench.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            self.interrupt(bench, signal.SIGINT, 143)

    def test_a_hangup_ends_no_bench_that_ignores_it(self):
        def ignore_hangup():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        with self.start("--peer", self.wrapper("loading"), self.workload, preexec_fn=ignore_hangup) as bench:
            wait_until(self.mock_processes, "the server starts")
            bench.send_signal(signal.SIGHUP)
            time.sleep(1)
            self.assertIsNone(bench.poll(), "it obeyed")
            self.interrupt(bench, signal.SIGTERM, 143)


if __name__ == "__main__":
    unittest.main()
