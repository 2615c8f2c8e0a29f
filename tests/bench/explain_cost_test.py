"""bench/explain_cost.py: it compares what it says, and refuses servers that do not differ so.

Environment: KVKEEP_PROGRAM, KVKEEP_UNEXPLAINED (the same program, built without explanations).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "explain_cost.py"
PROGRAM, UNEXPLAINED = os.environ["KVKEEP_PROGRAM"], os.environ["KVKEEP_UNEXPLAINED"]


class ExplainCost(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_bench(self, *programs):
        path = os.path.join(self.folder, "explain.json")
        done = subprocess.run([sys.executable, "-B", BENCH, *programs, "--size", "tiny", "--rounds", "6", "--reply-tokens", "8",
                               "--json", path], capture_output=True, text=True, timeout=550)
        return done, path

    def test_each_load_has_its_figures(self):
        done, path = self.run_bench(PROGRAM, UNEXPLAINED)
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: a goal was missed, which a busy machine may do
        with open(path) as file:
            report = json.load(file)
        parts = {part["name"]: part for part in report["parts"]}
        self.assertEqual(len(parts), 2 * 3 * 5)
        for name, part in parts.items():
            with self.subTest(name):
                self.assertEqual(part["samples"], 24 if "added" in name else 6)
                if part["unit"] == "ratio":
                    self.assertGreater(part["median"], 0)
                    self.assertLessEqual(part["median_low"], part["median"])
                    self.assertLessEqual(part["median"], part["median_high"])
                self.assertEqual(part["goal"], "<= 1.01" if name.endswith(": without + added / without") else "")

    def test_a_server_that_explains_is_no_measure(self):
        done, path = self.run_bench(PROGRAM, PROGRAM)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the server without explained a request as new-content", done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_a_server_that_explains_nothing_has_no_price(self):
        done, path = self.run_bench(UNEXPLAINED, UNEXPLAINED)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the server with explained a request as None", done.stderr)
        self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    unittest.main()
