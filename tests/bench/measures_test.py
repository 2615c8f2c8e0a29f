"""What `kvkeep bench` measures that takes its time: parity, speed, and that counts come out the same again."""

import json
import unittest

from bench_case import PROGRAM, BenchCase


class MeasuresTest(BenchCase):
    def test_two_runs_agree_on_every_count(self):
        kept = [self.directory / name for name in ("first.json", "second.json")]
        for path in kept:
            done = self.bench("--keep", path, "2-growing-kill", "6-side-requests")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(kept[0].read_text(), kept[1].read_text())

    def test_parity_is_measured_without_workloads(self):
        # One pair: beside other tests, default threads wait for each other, and each pair takes long.
        done = self.bench("--no-workloads", "--parity", "--pairs", "1", "--json", self.json,
                          "--peer", f"{PROGRAM} serve --kv-disk-dir {self.directory}/kv")
        report = json.loads(self.json.read_text())
        self.assertEqual(report["runs"], [], done.stderr)
        kinds = {}
        for part in report["parts"]:
            kinds.setdefault(part["name"].split(":")[0], []).append(part)
            self.assertEqual(part["samples"], 1)
            self.assertGreater(part["median"], 0)
        # Prefill and two kinds of decoding, with one thread and the default ones: CPU and wall time of each, and how
        # often threads slept while decoding.
        switches = {name: parts for name, parts in kinds.items() if name.startswith("switches")}
        times = {name: parts for name, parts in kinds.items() if name not in switches}
        self.assertEqual((len(times), len(switches)), (12, 4))
        self.assertEqual(sum("default threads" in name for name in kinds), 8)
        for ratio, ours, theirs in times.values():
            self.assertEqual((ratio["unit"], ours["unit"], theirs["unit"]), ("ratio", "us/token", "us/token"))
            self.assertEqual(ratio["goal"], "<= 1.03")
        for ours, theirs in switches.values():
            self.assertEqual((ours["goal"], theirs["goal"]), ("<= 6", ""))
        self.assertRegex(report["other_work"], r"^Other programs took \d+ % of the processors")
        self.assertIn(done.returncode, (0, 1, 3), done.stderr)
        missed = any(part["holds"] is False for part in report["parts"])
        unsure = any(part["unmeasurable"] for part in report["parts"])
        self.assertEqual(done.returncode, 1 if missed or report["problems"] else 3 if unsure else 0)

    def test_what_the_cache_saves_in_time_is_measured(self):
        done = self.bench("--arch", "mamba2", "--no-workloads", "--speed", "--json", self.json)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        parts = {part["name"]: part for part in json.loads(self.json.read_text())["parts"]}
        # 491 tokens of 16,384: some 30 times less to compute, on however busy a machine more than twice.
        for occasion in ("after another as long", "after a kill"):
            self.assertGreater(parts[f"speed-up {occasion}"]["median"], 2)
            self.assertGreater(parts[f"speed-up / its ceiling, {occasion}"]["median"], 0)
        requests = parts["100 requests behind one 870-token prompt: prefilled / new tokens of all but the first"]
        self.assertTrue(requests["holds"])
        self.assertGreaterEqual(requests["median"], 1)

    def test_nothing_is_called_saved_without_the_cache(self):
        done = self.bench("--arch", "mamba2", "--no-workloads", "--speed", "--flag=--no-cache-prompt")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stdout, r"speed: long 1 alone 2: 0 tokens were known, not\s+16\d+")


if __name__ == "__main__":
    unittest.main()
