"""`kvkeep share`: a fleet is warmed from one server's directory, through Valkey, S3 and a directory, and a server on
another machine goes on as if it had computed everything itself."""

import itertools
import json
import os
import signal
import struct
import subprocess
import time

from exactness_case import ExactnessCase
from support import (PROGRAM, assistant, files_under, fresh_directory, fresh_path, main, model, reply_text, run_program,
                     segments, system, timings, user, wait_until, words)
from s3_process import AWS, S3Process
from valkey_process import ValkeyProcess

BATCH = ["-ub", "128", "-b", "128"]  # as in sharing_test.py
FLAGS = ["--restore", "always", "--no-prefill-ahead", *BATCH]


def share(command, url, *flags, status=0):
    run = run_program("share", command, "--share", url, "--json", *flags, environment=AWS)
    if run.returncode != status:
        raise AssertionError(f"{command} {flags}: status {run.returncode}: {run.stdout}{run.stderr}")
    return json.loads(run.stdout) if run.stdout else run.stderr


def runs_of_turns(path):
    """Returns each run of four ids in the file of sampled turns (docs/format.md), and the hashes of the prompts before."""
    with open(path, "rb") as file:
        contents = file.read()
    runs, at = [], 16
    while at < len(contents):
        [size] = struct.unpack_from("<I", contents, at)
        record = contents[at + 20:at + 20 + size]
        [count] = struct.unpack_from("<I", record, 32)
        runs += [record[:16], *(record[36 + 4 * first:52 + 4 * first] for first in range(count - 3))]
        at += 20 + size
    return runs


class FilledCase(ExactnessCase):
    """A server without a shared tier filled a directory with two conversations that share a beginning."""

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)
        cls.filled = fresh_directory("filled")
        cls.talks, cls.computed = [], []
        with cls._make(cls._class_logs, ["--kv-disk-dir", cls.filled, *FLAGS], {"model_path": cls.model_path}) as server:
            for number in range(2):
                messages = [system(words(300, 1)), user(words(1150, 2 + number))]
                for turn in range(2):
                    reply = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 8, "temperature": 0})
                    messages += [assistant(reply_text(reply)), user(f"And then, {turn}?")]
                cls.talks.append(messages)
                # The last sampled token was never an input.
                cls.computed.append(reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"] - 1)
            server.stop()

    def go_on(self, server):
        """Returns the tokens that were prefilled, and those that were never computed before."""
        prefilled = fresh = 0
        for messages, computed in zip(self.talks, self.computed):
            reply = self.same_chat(server, messages, max_tokens=4)
            prefilled += timings(reply)["prompt_n"]
            fresh += reply["usage"]["prompt_tokens"] - computed
        return prefilled, fresh

    def assert_warm(self, server):
        prefilled, fresh = self.go_on(server)
        self.assertLessEqual(prefilled, fresh + len(self.talks) * self.lost, (prefilled, fresh))

    def fill(self, url, *flags):
        """Pushes the directory; returns the summary."""
        dry = share("push", url, "--kv-disk-dir", self.filled, "--dry-run", *flags)["models"][0]
        pushed = share("push", url, "--kv-disk-dir", self.filled, *flags)["models"][0]
        self.assertEqual(dry["published"], pushed["published"])
        self.assertEqual(pushed["published"]["objects"], len(segments(self.filled)))
        self.assertGreater(pushed["turns"], 0)
        again = share("push", url, "--kv-disk-dir", self.filled, *flags)["models"][0]
        self.assertEqual((again["published"]["objects"], again["turns"]), (0, 0))
        [space] = share("ls", url, *flags)["namespaces"]
        self.assertEqual((space["fingerprint"], space["device"]), (pushed["fingerprint"], pushed["device"]))
        return pushed

    def check_server(self, url, *flags):
        """A server without a disk goes on from what was pushed. On a busy machine a look-up may be late, which is a miss:
        one server of three must have none."""
        for _ in range(3):
            server = self.server("--share", url, "--share-mode", "read", *flags, *FLAGS, model_path=self.model_path)
            prefilled, fresh = self.go_on(server)
            if prefilled <= fresh + len(self.talks) * self.lost:
                return
        self.fail(f"{prefilled} tokens prefilled, of which {fresh} were never computed")

    def check_pull(self, url, pushed, *flags):
        """A server without the engine goes on from what was pulled."""
        target = fresh_path("pulled")
        pulled = share("pull", url, "--kv-disk-dir", target, *flags)["models"][0]
        self.assertEqual(pulled["added"]["objects"], pushed["published"]["objects"])
        self.assertEqual(pulled["turns"], pushed["turns"])
        self.assertEqual(share("pull", url, "--kv-disk-dir", target, *flags)["models"][0]["added"]["objects"], 0)
        self.assertEqual(run_program("cache", "verify", "--kv-disk-dir", target).returncode, 0)
        self.assert_warm(self.server("--kv-disk-dir", target, *FLAGS, model_path=self.model_path))


class Sliceable(FilledCase):
    lost = 0

    def key_file(self):
        path = fresh_path("key")
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write("a secret of the fleet\n")
        return path

    def test_valkey(self):
        with ValkeyProcess(fresh_directory("valkey")) as valkey:
            key = ("--share-key-file", self.key_file())
            pushed = self.fill(valkey.url, *key)
            self.check_server(valkey.url, *key)
            self.check_pull(valkey.url, pushed, *key)

    def test_an_engine_that_began_anew(self):
        """A server says again whose its namespace is: without that, nothing can be pulled."""
        with ValkeyProcess(fresh_directory("valkey")) as valkey:
            server = self.server("--share", valkey.url, "--no-kv-disk", *FLAGS, model_path=self.model_path)
            numbers = itertools.count(100)

            def is_named():
                server.post("/v1/chat/completions", {"messages": [user(words(300, next(numbers)))], "max_tokens": 2})
                spaces = share("ls", valkey.url)["namespaces"]
                return [space["fingerprint"] and space["device"] != "another device" for space in spaces] == [True]

            for began_anew in (False, True):
                wait_until(is_named, "the namespace has segments and a name")
                pulled = share("pull", valkey.url, "--kv-disk-dir", fresh_path("pulled"))["models"]
                self.assertEqual(len(pulled), 1)
                if not began_anew:  # later segments continue a beginning that the first engine had
                    self.assertGreater(pulled[0]["added"]["objects"], 0)
                valkey.kill()
                valkey.start()

    def test_s3(self):
        with S3Process(fresh_directory("s3"), "--most-keys", "5") as s3:
            self.check_pull(s3.url, self.fill(s3.url))

    def test_an_encrypted_directory(self):
        url = f"dir:{fresh_directory('shared')}"
        key = self.key_file()
        share("push", url, "--kv-disk-dir", self.filled, "--share-key-file", key, "--share-encrypt")
        [turns] = [path for path in files_under(self.filled) if os.path.basename(path) == "turns"]
        secrets = [b"KVKSEG", *runs_of_turns(turns)]
        self.assertGreater(len(secrets), 10)
        for path in files_under(url.removeprefix("dir:")):
            with open(path, "rb") as file:
                contents = file.read()
            self.assertFalse([secret for secret in secrets if secret in contents], path)
        target = fresh_path("pulled")
        pulled = share("pull", url, "--kv-disk-dir", target, "--share-key-file", key)["models"][0]
        self.assertEqual(pulled["added"]["objects"], len(segments(self.filled)))
        # Without the key, nothing is anybody's.
        refused = run_program("share", "pull", "--share", url, "--kv-disk-dir", fresh_path("none"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("kvkeep share ls", refused.stderr.replace(PROGRAM, "kvkeep"))
        [space] = share("ls", url)["namespaces"]
        self.assertIsNone(space["fingerprint"])

    def test_looking_makes_nothing(self):
        folder = fresh_directory("shared")
        self.assertEqual(share("ls", f"dir:{folder}")["namespaces"], [])
        share("push", f"dir:{folder}", "--kv-disk-dir", self.filled, "--dry-run")
        stat = run_program("cache", "stat", "--share", f"dir:{folder}")
        self.assertEqual(stat.returncode, 0, stat.stderr)
        self.assertEqual(os.listdir(folder), [])

    def test_a_key_that_can_be_found_by_trying(self):
        path = fresh_path("short")
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write("swordfish\n")
        for key, warned in ((path, True), (self.key_file(), False)):
            run = run_program("share", "ls", "--share", f"dir:{fresh_directory('shared')}", "--share-key-file", key)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual("can find by trying" in run.stdout + run.stderr, warned, run.stderr)

    def test_limits_and_damage(self):
        url = f"dir:{fresh_directory('shared')}"
        pushed = share("push", url, "--kv-disk-dir", self.filled, "--max-mb", "1")["models"][0]
        self.assertLessEqual(pushed["published"]["bytes"], 1 << 20)
        self.assertGreater(pushed["left"]["objects"], 0)
        share("push", url, "--kv-disk-dir", self.filled)
        victim = max((path for path in files_under(url.removeprefix("dir:")) if path.endswith(".r")), key=os.path.getsize)
        with open(victim, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        target = fresh_path("pulled")
        pulled = share("pull", url, "--kv-disk-dir", target, status=1)["models"][0]
        self.assertEqual(pulled["unusable"], 1)
        self.assertIn("has a wrong sum", pulled["findings"][0]["reason"])  # no key: nothing to authenticate
        self.assertEqual(run_program("cache", "verify", "--kv-disk-dir", target).returncode, 0)

    def test_devices(self):
        url = f"dir:{fresh_directory('shared')}"
        other = share("push", url, "--kv-disk-dir", self.filled, "--device", "another CPU")["models"][0]
        warned = run_program("share", "push", "--share", url, "--kv-disk-dir", self.filled, "--device", "a typo", "--dry-run")
        self.assertIn("--device a typo: the directory notes that CPU", warned.stdout + warned.stderr)
        anywhere = share("push", url, "--kv-disk-dir", self.filled, "--share-across-devices")["models"][0]
        self.assertNotEqual(other["space"], anywhere["space"])
        refused = run_program("share", "pull", "--share", url, "--kv-disk-dir", fresh_path("none"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("has no state that was computed by CPU", refused.stderr)
        target = fresh_path("pulled")
        share("pull", url, "--kv-disk-dir", target, "--share-across-devices")
        # The directory does not note the device that computed this, so it is not published as this machine's.
        refused = run_program("share", "push", "--share", url, "--kv-disk-dir", target)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--device TEXT, or pass --share-across-devices", refused.stderr)

    def test_beside_a_running_server(self):
        url = f"dir:{fresh_directory('shared')}"
        share("push", url, "--kv-disk-dir", self.filled)
        target = fresh_directory("served")
        server = self.server("--kv-disk-dir", target, *FLAGS, model_path=self.model_path)
        pulled = share("pull", url, "--kv-disk-dir", target)["models"][0]
        self.assertEqual(pulled["added"]["objects"], len(segments(self.filled)))
        self.assertGreater(pulled["turns_left"], 0)
        self.assertEqual(share("push", url, "--kv-disk-dir", target)["models"][0]["present"]["objects"],
                         len(segments(self.filled)))
        known = self.computed[0] - 16  # the reply's ids may be others, without the sampled ones
        wait_until(lambda: server.post("/cache/lookup", {"messages": self.talks[0]})["cached_tokens"] >= known,
                   "the server finds what was pulled")

    def test_a_killed_pull_goes_on(self):
        url = f"dir:{fresh_directory('shared')}"
        share("push", url, "--kv-disk-dir", self.filled)
        target = fresh_path("pulled")
        for pause_s in (0.02, 0.06, 0.1, 0.14):
            with subprocess.Popen([PROGRAM, "share", "pull", "--share", url, "--kv-disk-dir", target],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(pause_s)
                process.send_signal(signal.SIGKILL)
            if os.path.isdir(target):
                self.assertEqual(run_program("cache", "verify", "--kv-disk-dir", target).returncode, 0)
        share("pull", url, "--kv-disk-dir", target)
        self.assertEqual({os.path.basename(path) for path in segments(target)},
                         {os.path.basename(path) for path in segments(self.filled)})


class Points(FilledCase):
    model_flags = ("--arch", "qwen35")
    lost = 24  # tokens after the last point

    def test_a_directory(self):
        url = f"dir:{fresh_directory('shared')}"
        pushed = self.fill(url)
        self.check_server(url)
        self.check_pull(url, pushed)


if __name__ == "__main__":
    main()
