"""Sessions as agents have them (synthetic_sessions.py), played by `kvkeep replay` one after the other on one server that
starts with nothing: what is prefilled is what was never computed before.

Environment: KVKEEP_PROGRAM, the program under test.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import synthetic_sessions

PROGRAM = os.environ["KVKEEP_PROGRAM"]
LIMIT_S = 250
TEMPLATES = pathlib.Path(__file__).resolve().parent.parent / "jinja" / "templates"
# One token of a known prompt is computed again. Ideals of /v1/messages are estimated, to some 4 tokens a request.
SLACK_TOKENS = {"exact": 1, "within": 8}


class AgentSessionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory(prefix="kvkeep-sessions-test-")
        cls.addClassCleanup(cls.directory.cleanup)

    def path(self, name):
        return pathlib.Path(self.directory.name) / name

    def play(self, sessions, *flags, arch="llama"):
        """{name: run of the report}."""
        model = self.path(f"{arch}.gguf")
        if not model.exists():
            subprocess.run([PROGRAM, "model", "make", "--arch", arch, model], check=True, capture_output=True)
        files = []
        for name, lines in sessions.items():
            files.append(self.path(name.replace("/", "") + ".jsonl"))
            files[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Tokens prefilled ahead are in no reply, and there are no pauses here anyway.
        command = f"{PROGRAM} serve -m {model} -c 16384 -t 1 --no-kv-disk --restore always --no-prefill-ahead " + " ".join(flags)
        done = subprocess.run([PROGRAM, "replay", "--server", command, "--fast", "--reply-tokens", "6", "--json",
                               self.path("report.json"), *files], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        runs = json.loads(self.path("report.json").read_text(encoding="utf-8"))["runs"]
        self.assertEqual([run["problems"] for run in runs], [[]] * len(runs), done.stdout)
        self.output = done.stdout
        return dict(zip(sessions, runs))

    def expect_nothing_computed_twice(self, run, ratio=1.02):
        kind = "exact" if "ideal exact" in run["title"] else "within"
        prefilled, ideal = (sum(one[f"{of}_tokens"] for one in run["requests"]) for of in ("prefilled", "ideal"))
        self.assertTrue(all(one["status"] == 200 for one in run["requests"]))
        self.assertGreater(ideal, 50, run["title"])
        self.assertLessEqual(prefilled, ratio * ideal + SLACK_TOKENS[kind] * len(run["requests"]),
                             run["title"] + "\n" + self.output)

    def test_claude(self):
        runs = self.play(synthetic_sessions.claude_sessions())
        for run in runs.values():
            self.expect_nothing_computed_twice(run)
        first = {name: run["requests"][0] for name, run in runs.items()}
        self.assertGreater(first["fresh"]["prefilled_tokens"], 900)
        # From its first real difference on: the task, and the repository's state with the text after it.
        self.assertLess(first["other task"]["prefilled_tokens"], 30)
        self.assertLess(first["after a commit"]["prefilled_tokens"], 200)
        self.assertLess(first["continued"]["prefilled_tokens"], 90)

    def test_the_billing_line_is_what_would_end_the_common_prefix(self):
        sessions = synthetic_sessions.claude_sessions()
        runs = self.play({name: sessions[name][:1] for name in ("fresh", "other task")}, "--stabilize", "none")
        fresh, other = (run["requests"][0]["prefilled_tokens"] for run in runs.values())
        self.assertGreater(other, 0.9 * fresh)

    def test_open(self):
        runs = self.play(synthetic_sessions.open_sessions())
        for run in runs.values():
            self.assertIn("ideal exact", run["title"])
            self.expect_nothing_computed_twice(run)
        title, main = runs["other task"]["requests"][:2]
        self.assertLess(title["prefilled_tokens"], 30)
        self.assertLess(main["prefilled_tokens"], 30)

    def test_thoughts_that_the_template_leaves_out_later(self):
        runs = self.play(synthetic_sessions.open_sessions(), "--chat-template-file", str(TEMPLATES / "qwen3.jinja"))
        for run in runs.values():
            self.expect_nothing_computed_twice(run)
        # The loop's thoughts are gone once the user speaks: all behind the task is new in that prompt.
        self.assertGreater(runs["continued"]["requests"][0]["ideal_tokens"], 150)

    def test_a_model_that_is_restored_at_points(self):
        # Where a session leaves an earlier one inside a message, a point was cut before any did.
        for sessions in (synthetic_sessions.claude_sessions(), synthetic_sessions.open_sessions()):
            for name, run in self.play(sessions, arch="qwen35").items():
                slack = SLACK_TOKENS["exact" if "ideal exact" in run["title"] else "within"]
                for number, one in enumerate(run["requests"]):
                    ideal = one["ideal_tokens"]
                    self.assertLessEqual(one["prefilled_tokens"], max(1.08 * ideal, ideal + 32) + slack, f"{name} {number}")


if __name__ == "__main__":
    print(f"program: {PROGRAM}", file=sys.stderr)
    unittest.main()
