"""The slow measurements of `kvkeep bench`: speed, and that counts come out the same again."""

import json
import unittest

from bench_case import BenchCase


class MeasuresTest(BenchCase):
    def test_two_runs_agree_on_every_count(self):
        kept = [self.directory / name for name in ("first.json", "second.json")]
        for path in kept:
            done = self.bench("--keep", path, "2-growing-kill", "6-side-requests")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(kept[0].read_text(), kept[1].read_text())

    def test_the_time_that_the_cache_saves_is_measured(self):
        done = self.bench("--arch", "mamba2", "--no-workloads", "--speed", "--json", self.json)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        parts = {part["name"]: part for part in json.loads(self.json.read_text())["parts"]}
        # 491 tokens of 16,384: some 30 times less to compute, on however busy a machine more than twice.
        for occasion in ("after another as long", "after a kill"):
            self.assertGreater(parts[f"speed-up {occasion}"]["median"], 2)
            self.assertGreater(parts[f"speed-up / its ceiling, {occasion}"]["median"], 0)
        requests = parts["100 requests after one 870-token prompt: prefilled / new tokens of all but the first"]
        self.assertTrue(requests["holds"])
        self.assertGreaterEqual(requests["median"], 1)

    def test_nothing_is_called_saved_without_the_cache(self):
        done = self.bench("--arch", "mamba2", "--no-workloads", "--speed", "--flag=--no-cache-prompt")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"speed: long 1 alone 2: 0 tokens were known, not\s+16\d+")


if __name__ == "__main__":
    unittest.main()
