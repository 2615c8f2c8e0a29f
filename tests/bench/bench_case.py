"""The base of tests of `kvkeep bench` from outside: a short workload, the mock server, and a place for temporary files."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ["KVKEEP_PROGRAM"]
MOCK = pathlib.Path(__file__).with_name("mock_server.py")
LIMIT_S = 120

WORKLOAD = """# Three turns
context 1024
small-context 512
reply 4
system prompt 50
open main prompt
turn main 20
turn main 20
turn main 20
"""

# In the mock a word is a token; "system:", "user:" and "assistant:" are one each.
FIRST_PROMPT = 1 + 50 + 1 + 20 + 1
NEXT_TURN = 4 + 1 + 20 + 1        # the reply, the next message
NEXT_IDEAL = NEXT_TURN - 4 + 1    # all but the reply, whose last id was never decoded
PROMPTS = [FIRST_PROMPT, FIRST_PROMPT + NEXT_TURN, FIRST_PROMPT + 2 * NEXT_TURN]
IDEALS = [FIRST_PROMPT, NEXT_IDEAL, NEXT_IDEAL]



def alive(pid):
    """A process that was killed may stay a zombie until whoever adopted it looks."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def wait_until(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.02)
    return value


class BenchCase(unittest.TestCase):
    limit_s = LIMIT_S  # of one run

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="kvkeep-bench-test-")))
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        self.workload = self.directory / "three.txt"
        self.workload.write_text(WORKLOAD)
        self.json = self.directory / "report.json"

    def environment(self):
        return dict(os.environ, TMPDIR=str(self.temporary))

    def bench(self, *arguments):
        done = subprocess.run([PROGRAM, "bench", "--quick", *map(str, arguments)], capture_output=True, text=True,
                              timeout=self.limit_s, env=self.environment(), stdin=subprocess.DEVNULL)
        self.assertEqual(list(self.temporary.iterdir()), [], "something was left behind")
        return done

    def bench_mock(self, mode, *arguments, runs=2):
        """The run and the mock's figures."""
        done = self.bench("--peer", f"{sys.executable} {MOCK} {mode}", "--json", self.json, *arguments, self.workload)
        played = json.loads(self.json.read_text())["runs"]
        self.assertEqual(len(played), runs, done.stderr)
        return done, next(run for run in played if run["server"] != "kvkeep")

    def expect_refusal(self, arguments, expected):
        """In one line, so before anything was played: each run that ended has a line of its own."""
        done = self.bench(*arguments)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(expected, done.stderr)
        self.assertEqual(done.stdout, "")

    @staticmethod
    def written(report):
        return [part for part in report["parts"] if "bytes" in part["name"]]
