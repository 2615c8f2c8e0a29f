"""All workloads, twice, beside another server: every count is the same, and the page draws all of it."""

import json
import os
import pathlib
import sys
import unittest

from bench_case import MOCK, BenchCase

sys.path.append(str(pathlib.Path(__file__).parent.parent / "bench_report"))
from browser import Opened  # noqa: E402

WORKLOADS = 8


class WholeTest(BenchCase):
    limit_s = 600

    def setUp(self):
        super().setUp()
        self.page = self.directory / "report.html"

    def play(self, name):
        """Returns the part of a run that is kept, as it was written."""
        kept = self.directory / name
        # The mock caches nothing, so every request of it stands far above its ideal: the fullest page there is.
        done = self.bench("--variants", "--peer", f"{sys.executable} {MOCK} honest", "--keep", kept, "--json", self.json,
                          "--html", self.page)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return kept.read_text()

    def test_two_runs_agree_and_their_page_draws_all(self):
        first, second = self.play("first.json"), self.play("second.json")
        runs = json.loads(first)["runs"]
        self.assertEqual(len(runs), 5 * WORKLOADS)
        self.assertTrue(all(run["requests"] for run in runs))
        for run, other in zip(runs, json.loads(second)["runs"], strict=True):
            # That one asks the clock whether reading is faster than computing.
            if run["variant"] != "restore auto":
                self.assertEqual(run, other)
        page = Opened(self.page, self.directory / "profile")
        self.assertEqual(page.console, [])
        self.assertEqual(page.count("article"), len(runs))
        self.assertEqual(page.count('svg class="plot"'), 2 * len(runs))


if __name__ == "__main__":
    os.environ.pop("DISPLAY", None)
    unittest.main()
