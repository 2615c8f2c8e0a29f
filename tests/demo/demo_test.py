"""Runs kvkeep demo --quick without a terminal, and checks what it prints.

    demo_test.py PROGRAM
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv[1]


def demo_command(*flags):
    return [PROGRAM, "demo", "--quick", *flags]


def number_after(label, text):
    found = re.search(re.escape(label) + r"\s+([\d.]+)", text)
    if not found:
        raise AssertionError(f"no '{label}' in:\n{text}")
    return float(found.group(1))


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="kvkeep-demo-test-")
        self.addCleanup(self.folder.cleanup)
        # Settings for other servers that would break this one, were they not kept from it.
        self.environment = dict(os.environ, TMPDIR=self.folder.name, LLAMA_API_KEY="secret", LLAMA_ARG_CTX_SIZE="64",
                                XDG_CACHE_HOME="/home/of/caches")

    def tearDown(self):
        self.assertEqual(os.listdir(self.folder.name), [], "the demo left files behind")

    def test_it_prints_the_table(self):
        done = subprocess.run(demo_command(), env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=55)
        text = done.stdout
        self.assertEqual(done.returncode, 0, text)
        self.assertNotIn("\x1b", text, "escapes without a terminal")
        self.assertLessEqual(number_after("prefilled / ideal, with the cache", text), 1.02, text)
        self.assertGreater(number_after("prefilled / ideal, without it", text), 3, text)
        self.assertRegex(text, r"replies that are equal in both runs\s+8 of 8")

        with_cache = text.split("With the cache")[1].split("The same without")[0]
        rows = [line.split() for line in with_cache.splitlines() if re.search(r" (ms|s)$", line)]
        sources = {" ".join(row[:2]): row[-3] for row in rows}
        self.assertEqual(list(sources), ["A 1", "B 1", "A 2", "A 3", "A 4", "A 5", "B 2", "A 6"], text)
        self.assertEqual(sources["A 1"], "-", text)
        self.assertEqual(sources["A 4"], "disk", text)  # the first turn after the kill
        self.assertEqual(sources["B 2"], "disk", text)  # the other conversation's own part
        self.assertIn("kvkeep serve -m /path/to/model.gguf", text)
        self.assertIn("in /home/of/caches/kvkeep,", text)
        self.assertIn("-d '{\"max_tokens\": 64,", text)

    def test_interrupt_leaves_nothing(self):
        demo = subprocess.Popen(demo_command(), env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)
        for line in demo.stdout:
            if "With the cache" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=20)
        self.assertEqual(demo.returncode, 130, rest)
        self.assertTrue(rest.endswith("kvkeep: interrupted\n"), rest)
        # Its session was its own: whatever is left in it would be a server that nobody ends.
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and processes_of_session(demo.pid):
            time.sleep(0.05)
        self.assertEqual(processes_of_session(demo.pid), [])

    def test_failures_are_explained(self):
        done = subprocess.run(demo_command("-m", "/nonexistent/model.gguf"), text=True, timeout=20, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^kvkeep: .*/nonexistent/model.gguf")


def processes_of_session(session):
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(name))
    return found


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
