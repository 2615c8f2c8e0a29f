"""`kvkeep bench` from outside, against a server with known counts (mock_server.py): what it counts and says of them."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import unittest

from bench_case import FIRST_PROMPT, IDEALS, LIMIT_S, MOCK, PROGRAM, PROMPTS, WORKLOAD, BenchCase, alive, wait_until


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

    def test_tokens_computed_between_requests_are_reported(self):
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

    def test_a_failure_before_a_request_is_not_called_one(self):
        done, run = self.bench_mock("wordless")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(run["requests"], [])
        self.assertRegex(run["problems"][0], "^system [a-z]+, before request 1: POST /tokenize: status 404, .*no /tokenize "
                                             "here.*; the rest was not played$")

    def test_the_cost_of_measuring_is_measured(self):
        self.bench_mock("honest")
        part = json.loads(self.json.read_text())["parts"][-1]
        self.assertEqual(part["name"], "CPU time of the bench itself while a request is under way / time of the request")
        self.assertEqual(part["samples"], 6, "three requests to each server")
        self.assertLess(0, part["low_quartile"])
        self.assertLess(part["high_quartile"], 1)

    def test_an_interrupted_run_leaves_nothing_behind(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            with self.subTest(signal=number):
                self.interrupt(number, status)

    def interrupt(self, number, status):
        command = [PROGRAM, "bench", "--quick", "--peer", f"{sys.executable} {MOCK} hanging", str(self.workload)]
        bench = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        with bench, contextlib.ExitStack() as at_end:
            at_end.callback(bench.kill)  # else a failure below would wait for the bench, and the bench for the server
            pid = wait_until(self.hanging_server, "the server hangs")
            bench.send_signal(number)
            output = bench.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(bench.returncode, status, output)
        self.assertIn("interrupted", output)
        wait_until(lambda: not alive(pid), "the server is gone")
        self.assertEqual(list(self.temporary.iterdir()), [])

    def hanging_server(self):
        """Its process, by the line that it writes; on a busy machine others come before it (a health check timed out)."""
        with contextlib.suppress(FileNotFoundError):  # the bench removes folders meanwhile
            for log in self.temporary.glob("*/*.log"):
                if line := re.search(r"^hanging in process (\d+)$", log.read_text(), re.MULTILINE):
                    return int(line[1])
        return None

    def test_cpu_time_of_each_server_is_reported(self):
        done, run = self.bench_mock("honest")
        ours = next(run for run in json.loads(self.json.read_text())["runs"] if run["server"] == "kvkeep")
        for seconds in (ours["server_cpu_seconds"], run["server_cpu_seconds"]):
            self.assertGreater(seconds, 0)
            self.assertLess(seconds, 60)
        self.assertRegex(done.stdout, r"wall TTFT ms +CPU s\n")

    def test_written_bytes_are_compared_with_new_ones(self):
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


if __name__ == "__main__":
    unittest.main()
