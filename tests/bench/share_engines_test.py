"""The script that runs `kvkeep bench --share` for every engine and class of memory."""

import json
import pathlib
import subprocess
import sys
import unittest

from bench_case import PROGRAM, BenchCase

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.append(str(BENCH))
import write_report  # noqa: E402  pylint: disable=wrong-import-position


class ShareEnginesTest(BenchCase):
    def run_script(self, *flags, **variables):
        command = [sys.executable, "-B", BENCH / "share_engines.py", PROGRAM, "--quick", *flags, "--json", self.json]
        done = subprocess.run(list(map(str, command)), env={**self.environment(), **variables}, capture_output=True, text=True, check=False,
                              timeout=1200)
        self.assertTrue(self.json.exists(), done.stdout + done.stderr)
        return done, json.loads(self.json.read_text())

    def test_every_engine_is_counted_for_every_class(self):
        done, report = self.run_script("--only", "counts", "--engines", "s3,dir", "--arch", "llama,qwen35")
        self.assertEqual([(counts["engine"], counts["architecture"]) for counts in report["counts"]],
                         [("s3", "llama"), ("s3", "qwen35"), ("dir", "llama"), ("dir", "qwen35")])
        self.assertEqual([counts["problems"] for counts in report["counts"]], [[]] * 4, done.stdout)
        # A busy machine may miss S3's deadlines; a directory has none that it could miss.
        for counts in report["counts"][2:]:
            self.assertTrue(all(part["holds"] is not False for part in counts["parts"]), counts)
        section = write_report.share_section(report)
        self.assertIn("|  | llama (full attention) | qwen35 (hybrid) |", section)
        self.assertRegex(section, r"\| dir \| 1\.0\d\d \(\d+ / \d+\) \| 1\.0\d\d \(\d+ / \d+\) \|")

    def test_rates_and_decoding_are_measured(self):
        done, report = self.run_script("--only", "rates,decode", "--engines", "dir")
        parts = {part["name"]: part for part in report["parts"]}
        self.assertEqual((done.returncode, report["problems"]), (0, []), done.stdout)
        loaded = parts["dir: loaded at once"]
        self.assertGreater(loaded["median"], 0.1, "512 tokens of the tiny model have more")
        for name in ("dir: the same / a plain socket", "dir: the same / a plain socket that keeps the bytes",
                     "dir: the same for one that keeps the bytes", "dir: a plain socket's processor time / the busiest's",
                     "4 streams of 64 tokens, dir: publishing / without a shared tier",
                     "4 streams of 64 tokens, dir: published meanwhile"):
            self.assertGreater(parts[name]["median"], 0, name)

    def test_a_fleet_with_less_room_computes_more_and_never_less_than_what_is_new(self):
        done, report = self.run_script("--only", "fleet", "--engines", "valkey")
        self.assertEqual((done.returncode, report["problems"]), (0, []), done.stdout)
        def counted(where, *names):
            return {what: next(part["median"] for part in report["parts"] if part["name"].endswith(f"{where}: {what}")) for what in names}

        alone = counted("one server with all memory", "prefilled", "never computed")
        self.assertLessEqual(alone["prefilled"], 1.02 * alone["never computed"])
        rooms = [counted(room, "prefilled", "never computed", "from the shared tier", "evicted")
                 for room in ("room for all", "a third of the room, 10 samples", "a third of the room, 5 samples")]
        for fleet in rooms:
            self.assertGreaterEqual(fleet["prefilled"], fleet["never computed"])
            self.assertGreater(fleet["from the shared tier"], fleet["never computed"])
            self.assertEqual(fleet["never computed"], alone["never computed"])
        self.assertEqual(rooms[0]["evicted"], 0)
        for fleet in rooms[1:]:
            self.assertGreater(fleet["evicted"], 100)

    def test_that_an_engine_is_missing_is_a_problem(self):
        done, report = self.run_script("--only", "counts", "--engines", "valkey,cluster", PATH="/nonexistent")
        self.assertEqual((done.returncode, report["counts"]), (1, []))
        self.assertIn("PROBLEM: there is no valkey-server", done.stdout)


if __name__ == "__main__":
    unittest.main()
