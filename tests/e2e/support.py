"""Helpers of the end-to-end suites: models made on the spot, servers whose log is shown when a test fails.

Environment: KVKEEP_PROGRAM (the program under test), KVKEEP_COUNT_SHIM (preloaded to count ids given to libllama);
KVKEEP_TEST_SEED repeats a random run.
"""

import atexit
import contextlib
import functools
import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testing", "e2e"))

from kvkeep_process import HttpError, ServerProcess, free_port, reply_text  # noqa: E402, F401

PROGRAM = os.environ["KVKEEP_PROGRAM"]
# Of tests that read pictures or sound. CMake says so where it found no libmtmd.
needs_libmtmd = unittest.skipIf("KVKEEP_NO_MEDIA" in os.environ, "kvkeep was built without libmtmd")
COUNT_SHIM = os.environ["KVKEEP_COUNT_SHIM"]
LOG_TAIL_CHARACTERS = 3000

# The small caches and the q8_0 rows under which text with and without the cache must be the same.
EXACT_FLAGS = ["-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"]
BASE_FLAGS = ["-c", "4096", "-t", "1", "--cache-ram", "64", *EXACT_FLAGS]

# Attention adds up its cells in the order in which they lie, so a prompt whose cells do not lie in order has logits
# (2 root mean square, 13 the highest) that differ by less than this from its logits elsewhere.
NOISE = 0.2

WORK = tempfile.mkdtemp(prefix="kvkeep-e2e-")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
_numbers = itertools.count()


@functools.cache
def model(*flags):
    """Path of a generated model; the same flags give the same file."""
    path = os.path.join(WORK, f"model-{next(_numbers)}.gguf")
    made = subprocess.run([PROGRAM, "model", "make", *flags, path], capture_output=True, text=True)
    if made.returncode != 0:
        raise AssertionError(f"no model: {made.stderr}")
    return path


def fresh_path(name="x"):
    return os.path.join(WORK, f"{next(_numbers)}-{name}")


def fresh_directory(name="dir"):
    path = fresh_path(name)
    os.mkdir(path)
    return path


def make_random():
    """A generator whose seed is printed, so that a failure can be repeated."""
    seed = int(os.environ.get("KVKEEP_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"KVKEEP_TEST_SEED={seed}", flush=True)
    return random.Random(seed)


def wait_until(condition, what, limit_s=20):
    """Polls; the limit is generous because test machines are busy, and only reached when a test fails."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.01)
    return value


def serve_command(*flags, base=True, model_path=None, default_threads=False):
    """With one thread, unless a flag says otherwise. Threads that compute together wait for each other by spinning: beside
    another busy test a token takes hundreds of times as long. A test with default_threads has to be RUN_SERIAL."""
    one_thread = () if base or default_threads or "-t" in flags else ("-t", "1")
    return [PROGRAM, "serve", "-m", model_path or model(), *(BASE_FLAGS if base else ()), *one_thread, *flags]


def run_program(*arguments, environment=None, limit_s=60, program=PROGRAM):
    """A run that should end by itself."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=limit_s,
                          env=dict(os.environ, **(environment or {})), stdin=subprocess.DEVNULL)


def words(count, seed=0):
    """Plain text of about `count` tokens that shares no long prefix with another seed's."""
    vocabulary = ["river", "stone", "light", "paper", "house", "green", "seven", "table", "music", "winter", "garden"]
    generator = random.Random(seed)
    return " ".join(generator.choice(vocabulary) for _ in range(count))


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


def streamed_text(server, path, body):
    """The text of a stream and the finish reason; checks that the stream ends as it should."""
    text, finish, last = "", None, None
    for _, last in server.stream(path, {**body, "stream": True}):
        if last == "[DONE]":
            break
        if "error" in last:
            raise AssertionError(f"error in the stream: {last}")
        for choice in last["choices"]:
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
            finish = choice["finish_reason"] or finish
    if last != "[DONE]":
        raise AssertionError("the stream ended without [DONE]")
    return text, finish


def timings(reply):
    return reply["timings"]


def files_under(directory):
    """Paths of all regular files, a file that vanishes meanwhile left out."""
    return [os.path.join(parent, name) for parent, _, names in os.walk(directory) for name in names
            if os.path.isfile(os.path.join(parent, name))]


def physical_bytes(directory):
    """Returns the bytes that docs/format.md counts: whole blocks and one for the inode; a file that goes meanwhile counts as gone."""
    return physical_bytes_of(path for path in files_under(directory)
                             if os.path.basename(os.path.dirname(path)) != "servers")


def physical_bytes_of(paths):
    total = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            total += -(-os.path.getsize(path) // 4096) * 4096 + 4096
    return total


def segments(directory):
    return sorted(path for path in files_under(directory)
                  if path.endswith(".kvs") and "quarantine" not in path)


def quarantined(directory):
    return [path for path in files_under(directory) if "quarantine" in path]


class ServerCase(unittest.TestCase):
    """Starts servers for a test or for the whole class and prints the end of their logs if a test fails."""

    @classmethod
    def setUpClass(cls):
        cls._class_stack = contextlib.ExitStack()
        cls._class_logs = []
        cls.addClassCleanup(cls._class_stack.close)
        try:
            cls.start_class_servers()
        except BaseException:
            cls._show(cls._class_logs)
            raise

    @classmethod
    def start_class_servers(cls):
        """For servers that all tests of a class use: cls.class_server(...)."""

    @classmethod
    def class_server(cls, *flags, **keywords):
        process = cls._make(cls._class_logs, flags, keywords)
        return cls._class_stack.enter_context(process)

    def setUp(self):
        self._logs = []

    def server(self, *flags, **keywords):
        """A server that ends with the test. Without --kv-disk-dir it has no disk cache."""
        process = self._make(self._logs, flags, keywords)
        return self.enterContext(process)

    @staticmethod
    def _make(logs, flags, keywords):
        flags = [str(flag) for flag in flags]
        default_disk = keywords.pop("default_disk", False)
        chosen = {name: keywords.pop(name) for name in ("base", "model_path", "default_threads") if name in keywords}
        command = serve_command(*flags, **chosen)
        if not default_disk and "--kv-disk-dir" not in flags and "--no-kv-disk" not in flags:
            command.append("--no-kv-disk")
        log_path = fresh_path("server.log")
        logs.append((" ".join(command[1:]), log_path))
        keywords.setdefault("count_shim", COUNT_SHIM)
        return ServerProcess(command, log_path=log_path, **keywords)

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        if len(result.failures) + len(result.errors) > before:
            self._show([*self._class_logs, *self._logs])

    @staticmethod
    def _show(logs):
        for command, path in logs:
            tail = ""
            with contextlib.suppress(FileNotFoundError), open(path, errors="replace") as log:
                tail = log.read()[-LOG_TAIL_CHARACTERS:]
            print(f"--- end of the log of: {command}\n{tail}---", file=sys.stderr, flush=True)

    def assert_refused(self, status, call, *arguments, contains=None, **keywords):
        """The call is answered with this status and an error in OpenAI's shape, which is returned."""
        with self.assertRaises(HttpError) as caught:
            call(*arguments, **keywords)
        body = caught.exception.body
        self.assertEqual(caught.exception.status, status, body)
        self.assertIsInstance(body, dict, body)
        error = body["error"]
        self.assertEqual(error["code"], status)
        self.assertTrue(error["message"] and error["type"], error)
        if contains:
            self.assertIn(contains, error["message"])
        return error


def main():
    unittest.main(verbosity=1)
