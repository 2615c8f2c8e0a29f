"""Pictures in `kvkeep bench`: what they cost is counted where libmtmd and libllama get them, on kvkeep and llama-server."""

import json
import shutil
import unittest

from bench_case import BenchCase

SERVER = "llama-server"
WORKLOAD = """# Pictures shown twice
context 4096
small-context 4096
reply 4
system prompt 100
open main prompt
show main 20 first
turn main 20
show main 20 second
open other prompt
show other 20 second
kill 1
turn main 20
"""


class PicturesTest(BenchCase):
    def played(self, *arguments):
        done = self.bench(*arguments, "--json", self.json)
        return done, json.loads(self.json.read_text())

    def encoder_calls(self, report):
        name = f"{self.workload.stem} on {{}}: encoder calls / pictures never seen"
        parts = {part["name"]: part for part in report["parts"]}
        return {server["name"]: parts[name.format(server["name"])] for server in report["servers"]}

    def test_each_picture_is_encoded_once_and_computed_once(self):
        self.assertIsNotNone(shutil.which(SERVER), "scripts/setup installs it")
        self.workload.write_text(WORKLOAD)
        done, report = self.played("--arch", "qwen3vl", "--peer", SERVER, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        calls = self.encoder_calls(report)
        self.assertEqual(calls["kvkeep"]["median"], 1)
        self.assertTrue(calls["kvkeep"]["holds"])
        self.assertGreater(calls[SERVER]["median"], 1, "it forgets them with the kill")
        self.assertEqual(calls[SERVER]["goal"], "")
        for run in report["runs"]:
            self.assertEqual(run["counted_by"], "engine")
            self.assertEqual(run["problems"], [])
            first, second, third, other, _ = run["requests"]
            self.assertEqual(first["prefilled_tokens"], first["prompt_tokens"], "its embeddings count")
            self.assertGreater(third["ideal_tokens"], second["ideal_tokens"] + 100, "a picture is more than its text")
            if run["server"] == "kvkeep":
                self.assertEqual(other["prefilled_tokens"], other["ideal_tokens"], "all but the token before its picture")

    def test_recurrent_and_opaque_models_see_through_another_projector(self):
        self.workload.write_text(WORKLOAD)
        for architecture in ("mamba2", "deepseek4"):
            done, report = self.played("--arch", architecture, self.workload)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.encoder_calls(report)["kvkeep"]["median"], 1, architecture)
            self.assertEqual(report["runs"][0]["problems"], [])

    def test_a_server_that_encodes_again_misses_the_goal(self):
        self.workload.write_text(WORKLOAD)
        done, report = self.played("--arch", "qwen3vl", "--flag=--no-cache-prompt", self.workload)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertGreater(self.encoder_calls(report)["kvkeep"]["median"], 1)
        self.assertIn("misses its goal", done.stdout)

    def test_a_turn_after_known_pictures_is_timed(self):
        _, report = self.played("--arch", "gemma3", "--no-workloads", "--pictures", "--pairs", "2")
        self.assertEqual(report["problems"], [])
        ratio = next(part for part in report["parts"] if part["unit"] == "ratio")
        self.assertEqual(ratio["name"], "TTFT of a turn after 6 known pictures / after text of as many tokens")
        self.assertEqual(ratio["samples"], 2)
        self.assertGreater(ratio["median"], 0)

    def test_a_model_that_does_not_see_is_asked_no_pictures(self):
        for arguments in (["screenshots"], ["--no-workloads", "--pictures"]):
            self.expect_refusal(arguments, "needs a model that sees: --model with --mmproj, or --arch of a recurrent or opaque model or one of these (pictures: ")
        self.expect_refusal(["-m", "/none.gguf", "--mmproj", "/none.gguf", "screenshots"], "--model /none.gguf: no such file")


if __name__ == "__main__":
    unittest.main()
