"""The counting shim in a server of another make: llama-server gives its tokens to libllama by llama_process and
llama_batch_ext, which kvkeep itself never calls."""

import json
import shutil
import unittest

from bench_case import BenchCase

SERVER = "llama-server"


class LlamaServerTest(BenchCase):
    def test_decoded_tokens_are_seen_by_the_shim(self):
        self.assertIsNotNone(shutil.which(SERVER), "scripts/setup installs it")
        done = self.bench("--peer", SERVER, "--json", self.json, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        run = next(run for run in json.loads(self.json.read_text())["runs"] if run["server"] == SERVER)
        self.assertEqual(run["counted_by"], "engine")
        self.assertEqual(run["problems"], [], "its replies say what was counted")
        self.assertEqual(len(run["requests"]), 3)
        for request in run["requests"]:
            # Two accounts of one thing: the shim's, and the server's own.
            self.assertEqual(request["prefilled_tokens"], request["claimed_prefill"])
            self.assertGreaterEqual(request["prefilled_tokens"], request["ideal_tokens"])
            self.assertEqual(request["prefilled_tokens"] + request["cached_tokens"], request["prompt_tokens"])
        first, *later = run["requests"]
        self.assertEqual(first["prefilled_tokens"], first["prompt_tokens"])
        for request in later:
            self.assertGreater(request["cached_tokens"], 0)
        self.assertGreater(run["server_cpu_seconds"], 0)

    def test_the_workloads_ask_for_no_more_choices_than_it_allows(self):
        done = self.bench("--peer", SERVER, "--json", self.json, "9-choices")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        runs = json.loads(self.json.read_text())["runs"]
        self.assertEqual([(run["refused"], run["problems"], len(run["requests"])) for run in runs], 2 * [("", [], 3)])

    def test_more_choices_than_it_allows_are_a_refusal(self):
        done = self.bench("--peer", f"{SERVER} -np 2", "--json", self.json, "9-choices")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        run = next(run for run in json.loads(self.json.read_text())["runs"] if run["server"] == SERVER)
        self.assertRegex(run["refused"], r"^request 1 \(turn main 1\): status 400: Field 'n'")
        self.assertNotIn("problem", done.stdout)


if __name__ == "__main__":
    unittest.main()
