"""Files and flags of `kvkeep bench`: what it reads, keeps and writes, and what it refuses before anything runs."""

import json
import os
import unittest

from bench_case import BenchCase


class FilesTest(BenchCase):
    def test_a_regression_against_a_kept_report_is_reported(self):
        kept = self.directory / "kept.json"
        self.assertEqual(self.bench("--keep", kept, self.workload).returncode, 0)
        done = self.bench("--check", kept, self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("No regression", done.stdout)
        report = json.loads(kept.read_text())
        report["runs"][0]["requests"][0]["prompt_tokens"] += 1
        kept.write_text(json.dumps(report))
        done = self.bench("--check", kept, self.workload)
        self.assertEqual(done.returncode, 1)
        self.assertIn("REGRESSION: three, kvkeep: prompt tokens", done.stdout)

    def test_a_kept_report_that_is_none_is_reported_in_one_line(self):
        for name, content, expected in (("empty", b"", "the file is empty"),
                                        ("model", b"GGUF\x03\0\0\xff", "not JSON from line 1 on"),
                                        ("cut", b'{"format": "kvkeep-bench-report",\n', "it ends too early"),
                                        ("other", b"{}", "format: is missing")):
            with self.subTest(name):
                path = self.directory / name
                path.write_bytes(content)
                self.expect_refusal(["--check", path], f"--check {path}: no report that --keep or --json wrote: ")
                self.expect_refusal(["--check", path], expected)
        self.expect_refusal(["--check", self.directory], f"--check {self.directory}: ")
        self.expect_refusal(["--check", self.directory / "none"], f"--check {self.directory}/none: ")

    def test_mistakes_on_the_command_line_are_reported_before_anything_runs(self):
        for arguments, expected in ((["1-growin"], "did you mean '1-growing'"), (["nothing-like-it"], "--list"),
                                    (["--qick"], "did you mean '--quick'"), ([self.directory / "no.txt"], "no.txt"),
                                    (["--peer-url", "u", "--peer", "x"], "one of them"),
                                    (["--parity"], "--peer"), (["--pairs", "3"], "--parity, --pictures or --load"),
                                    (["--no-workloads"], "--parts"),
                                    (["--no-workloads", "--parts", "1-growing"], "leave out '1-growing'"),
                                    (["--size", "huge"], "--size"),
                                    (["-m", "/nowhere.gguf"], "--model /nowhere.gguf: no such file"),
                                    (["--check", "/nowhere.json"], "/nowhere.json"),
                                    (["1-growing", "1-growing"], "twice")):
            with self.subTest(arguments=arguments):
                self.expect_refusal(arguments, expected)

    def test_a_report_that_cannot_be_written_is_reported_before_anything_runs(self):
        nowhere = self.directory / "nowhere" / "report"
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        for flag in ("--json", "--html", "--keep"):
            for path, expected in ((nowhere, "its folder does not exist"), (self.directory, "not a regular file"),
                                   (pipe, "not a regular file"), ("/proc/report", "/proc/report: ")):
                with self.subTest(flag=flag, path=path):
                    self.expect_refusal([flag, path, self.workload], f"{flag} {path}: ")
                    self.expect_refusal([flag, path, self.workload], expected)
        self.expect_refusal(["--json", self.json, "--html", self.directory / "." / "report.json", self.workload],
                            "--json and --html name the same file")

    def test_a_report_replaces_what_a_link_leads_to(self):
        old = self.directory / "old.json"
        old.write_text("old")
        self.json.symlink_to(old)
        self.expect_refusal(["--json", self.json, "--html", old, self.workload], "--json and --html name the same file")
        self.assertEqual(old.read_text(), "old", "a check changes nothing")
        self.assertEqual(self.bench("--json", self.json, self.workload).returncode, 0)
        self.assertTrue(self.json.is_symlink())
        self.assertEqual(json.loads(old.read_text())["format"], "kvkeep-bench-report")
        self.assertEqual(list(self.directory.glob("*.tmp")), [])

    def test_all_forms_of_the_report_are_written(self):
        paths = {form: self.directory / f"report.{form}" for form in ("json", "html")}
        done = self.bench(*(word for form, path in paths.items() for word in (f"--{form}", path)), self.workload)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for path in paths.values():
            self.assertIn("three", path.read_text().lower(), path)
        report = json.loads(paths["json"].read_text())
        self.assertEqual(report["model"], "generated-tiny.gguf")
        self.assertIn("--restore always", report["servers"][0]["flags"])

    def test_list_names_the_workloads(self):
        done = self.bench("--list")
        self.assertEqual(done.returncode, 0)
        self.assertIn("8-kills", done.stdout)


if __name__ == "__main__":
    unittest.main()
