"""scripts/with-cpu-variant: the command and its children have the backend that was asked for, or there is a reason."""

import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SCRIPT = os.path.join(ROOT, "scripts", "with-cpu-variant")
PROGRAM = sys.argv.pop(1)
LOADED = re.compile(r"loaded CPU backend from \S*/libggml-cpu-(\w+)\.so")


def run(*arguments, **environment):
    return subprocess.run([SCRIPT, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False)


class WithCpuVariant(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = run().stdout.splitlines()
        cls.runs = [line.split()[0] for line in listed]
        cls.best = next(line.split()[0] for line in listed if "which libggml takes" in line)

    def loaded(self, *command, **environment):
        """Returns the backends that the program says it loaded."""
        done = run(*command, PROGRAM, "serve", "--list-devices", "-lv", "4", **environment)
        return LOADED.findall(done.stdout + done.stderr)

    def refused(self, *arguments, **environment):
        done = run(*arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        return done.stderr

    def test_each_that_runs_here(self):
        self.assertIn("x64", self.runs)
        for variant in self.runs:
            with self.subTest(variant=variant):
                self.assertEqual(self.loaded(variant, "sh", "-c", '"$@"', "sh"), [variant])

    def test_another_than_the_best(self):
        other = self.loaded("other")
        self.assertEqual(len(other), 1)
        self.assertNotEqual(other, [self.best])
        self.assertEqual(self.loaded(self.best, SCRIPT, "other"), other)

    def test_reasons(self):
        self.assertRegex(self.refused("altair", "true"), "no CPU backend 'altair', only .*x64")
        self.assertIn("a command is missing", self.refused("x64"))
        self.assertIn("no-such-command: No such file", self.refused("x64", "no-such-command"))
        self.assertIn("build it first", self.refused("x64", "true", KVKEEP_ONLY_CPU_VARIANT="/nowhere"))
        self.assertRegex(self.refused("x64", "true", KVKEEP_ONLY_CPU_VARIANT=__file__), f"{self.best} instead of x64: LD_AUDIT")
        here = set(self.runs)
        for variant in re.findall(r"\w+", self.refused("altair", "true").split("only ")[1]):
            if variant not in here:
                self.assertIn(f"this processor cannot run libggml's CPU backend '{variant}'", self.refused(variant, "true"))


if __name__ == "__main__":
    unittest.main()
