"""`kvkeep bench --share`."""

import json
import unittest

from bench_case import BenchCase

TURN = "a turn after 4096 tokens that the other server computed"
WANDERING = "8 turns that wander"


class ShareTest(BenchCase):
    limit_s = 600

    def parts(self, *flags, status):
        done = self.bench("--no-workloads", "--share", f"dir:{self.directory}/shared", *flags, "--json", self.json)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return {part["name"]: part for part in json.loads(self.json.read_text())["parts"]}

    def check_counts(self, parts, holds):
        for what in (TURN, WANDERING):
            ratio, prefilled, fresh = (parts[f"{what}: {kind}"] for kind in
                                       ("prefilled / never computed", "prefilled", "never computed"))
            self.assertIs(ratio["holds"], holds, ratio)
            self.assertEqual((prefilled["unit"], fresh["unit"]), ("tokens", "tokens"))
            self.assertGreaterEqual(prefilled["median"], fresh["median"])
            self.assertAlmostEqual(ratio["median"], prefilled["median"] / fresh["median"], places=6)

    def test_what_was_computed_twice_is_counted(self):
        (self.directory / "shared").mkdir()
        parts = self.parts(status=0)
        self.check_counts(parts, True)
        self.assertLess(parts[f"{TURN}: never computed"]["median"], 200)

    def test_servers_that_find_nothing_miss_the_goal(self):
        (self.directory / "shared").mkdir()
        parts = self.parts("--flag=--share-mode=write", status=1)
        self.check_counts(parts, False)
        self.assertGreater(parts[f"{TURN}: prefilled"]["median"], 4096)


if __name__ == "__main__":
    unittest.main()
