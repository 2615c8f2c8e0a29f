"""Parity of `kvkeep bench`: time per token beside another server, with one thread and with the default ones.

Threads that compute together wait for each other by spinning: beside another busy program a token takes hundreds of times
as long. So this test is given the machine for itself (RUN_SERIAL).
"""

import json
import unittest

from bench_case import PROGRAM, BenchCase


class ParityTest(BenchCase):
    def test_parity_is_measured_without_workloads(self):
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


if __name__ == "__main__":
    unittest.main()
