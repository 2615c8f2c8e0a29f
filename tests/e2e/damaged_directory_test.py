"""A cache directory may hold anything: damaged, foreign and unreadable files are misses that cost a prefill, never a
wrong answer, never the start of the server. Directories that cannot be used at all are an error if they were named
and a warning if not."""

import contextlib
import json
import os
import resource
import shutil

from filled_directory_case import COMPLETION, QUARANTINE_HOLDS, FilledDirectoryCase, flip, tokens_of
from support import (ServerCase, files_under, fresh_directory, fresh_path, main, model, physical_bytes_of, quarantined,
                     run_program, segments, serve_command, timings, user, wait_until, words)

# A byte of each region of a segment file (docs/format.md). Negative: from the end.
REGIONS = {"magic": 0, "version": 8, "header length": 12, "fingerprint": 20, "hash of the begin": 50,
           "hash of the end": 90, "begin": 112, "end": 116, "token count": 120, "part count": 124,
           "payload length": 128, "header sum": 140, "reserved": 200, "fixed sum": 245, "part kind": 256,
           "part length": 264, "part sum": 280, "token id": 304 + 4 * 30, "first payload byte": 576,
           "payload": -2000, "last byte": -1}


class FilledDirectory(FilledDirectoryCase):
    def test_undamaged(self):
        directory, _ = self.copy()
        server = self.start_on(directory)
        self.check(server, damaged=())
        self.assertNotIn("warning", server.log())
        self.assertEqual(quarantined(directory), [])

    def test_a_flipped_byte_in_each_region(self):
        # The times differ from the saved index's, so headers are read at start; payloads when they are asked for.
        directory, paths = self.copy()
        for path, at in zip(paths, REGIONS.values()):
            flip(path, at)
        server = self.start_on(directory)
        in_payload = sum("payload" in name or name == "last byte" for name in REGIONS if name != "payload length")
        self.assertIn(f"{len(REGIONS) - in_payload} damaged", server.log())
        self.check(server, damaged=range(len(REGIONS)))
        self.assertEqual(server.log().count("kv cache load failed"), in_payload)
        self.assertEqual(len(quarantined(directory)), QUARANTINE_HOLDS)
        self.check_healed(server)

    def test_damage_under_a_running_server(self):
        directory, paths = self.copy()
        server = self.start_on(directory)
        for path, at in zip(paths, REGIONS.values()):
            flip(path, at)
        os.truncate(paths[0], 0)
        os.truncate(paths[1], os.path.getsize(paths[1]) - 1)
        os.unlink(paths[2])
        os.unlink(paths[3])
        os.mkdir(paths[3])
        shutil.copyfile(paths[-1], paths[4])
        self.check(server, damaged=range(len(REGIONS)))
        self.assertEqual(len(quarantined(directory)), QUARANTINE_HOLDS)
        self.check_healed(server)

    def test_a_flipped_byte_that_the_saved_index_does_not_show(self):
        directory, paths = self.copy()
        for path, at in zip(paths, REGIONS.values()):
            flip(path, at, keep_time=True)
        server = self.start_on(directory)
        self.assertNotIn("warning", server.log())
        self.check(server, damaged=range(len(REGIONS)))
        self.assertEqual(server.log().count("kv cache load failed"), len(REGIONS))
        self.assertEqual(len(quarantined(directory)), QUARANTINE_HOLDS)
        self.check_healed(server)

    def test_files_of_the_wrong_length(self):
        directory, paths = self.copy()
        for path, length in zip(paths, (0, 1, 100, 300, 600, os.path.getsize(paths[5]) - 1)):
            os.truncate(path, length)
        with open(paths[6], "ab") as file:
            file.write(b"x")
        self.check_damaged_at_start(directory, damaged=range(7))

    def test_files_under_each_others_names(self):
        directory, paths = self.copy()
        shutil.copyfile(paths[0], paths[1])
        os.rename(paths[2], paths[2] + ".x")
        os.rename(paths[3], paths[2])
        os.rename(paths[2] + ".x", paths[3])
        self.check_damaged_at_start(directory, damaged=(1, 2, 3))

    def test_a_file_of_another_model_and_of_other_flags(self):
        directory, paths = self.copy()
        for place, (flags, path) in enumerate(((("-ctk", "f16"), model()), ((), model("--seed", "9")))):
            other = fresh_directory()
            with self._make(self._logs, ["--kv-disk-dir", other, *flags], {"model_path": path}) as server:
                self.ask(server, list(self.truth)[place])
                server.stop()
            [foreign] = segments(other)
            self.assertEqual(tuple(tokens_of(foreign)), list(self.truth)[place])
            os.unlink(paths[place])
            shutil.copy2(foreign, os.path.dirname(paths[place]))  # its name is of its own fingerprint
            shutil.copyfile(foreign, paths[place])                # and under the name that is looked for
        server = self.start_on(directory)
        self.assertIn("4 damaged", server.log())
        self.check(server, damaged=(0, 1))
        self.check_healed(server)

    def test_things_that_are_no_files(self):
        directory, paths = self.copy()
        kept = fresh_path("outside")
        shutil.copy2(paths[1], kept)
        for path in paths[:4]:
            os.unlink(path)
        os.mkdir(paths[0])
        os.symlink(kept, paths[1])
        os.mkfifo(paths[2])
        os.symlink("/dev/zero", paths[3])
        server = self.start_on(directory)
        self.check(server, damaged=range(4))
        self.assertTrue(os.path.isfile(kept), "what a link points to is left alone")

    def test_names_that_are_not_ours_are_left_alone(self):
        directory, paths = self.copy()
        own = os.path.dirname(paths[0])
        strangers = [os.path.join(directory, "notes.txt"), os.path.join(own, "notes.txt"),
                     os.path.join(own, "a.kvs"), os.path.join(directory, "0" * 63)]
        for path in strangers:
            with open(path, "w") as file:
                file.write("mine")
        os.mkdir(os.path.join(own, "folder"))
        server = self.start_on(directory)
        self.check(server, damaged=())
        server.stop()
        for path in strangers:
            with open(path) as file:
                self.assertEqual(file.read(), "mine")

    def test_garbage_under_a_name_of_ours(self):
        directory, paths = self.copy()
        own = os.path.dirname(paths[0])
        for number, content in enumerate((b"", b"garbage", os.urandom(100_000), b"KVKSEG\r\n" + b"\xff" * 1000)):
            with open(os.path.join(own, f"{number:032x}-{number:032x}.kvs"), "wb") as file:
                file.write(content)
        server = self.start_on(directory)
        self.assertIn("4 damaged", server.log())
        self.check(server, damaged=())

    def test_unfinished_files_are_swept(self):
        directory, paths = self.copy()
        own = os.path.dirname(paths[0])
        leftovers = [os.path.join(own, "0011223344556677-1.tmp"), os.path.join(own, "x.tmp")]
        for path in leftovers:
            shutil.copyfile(paths[0], path)
        server = self.start_on(directory, "-lv", 4)
        self.assertIn("removed 2 unfinished files", server.log())
        self.assertFalse(any(map(os.path.exists, leftovers)))
        self.check(server, damaged=())

    def test_a_saved_index_that_is_wrong(self):
        for content in (b"", b"garbage", b"KVKIDX\r\n" + b"\xff" * 5000, os.urandom(3000), None, "cut", "stale"):
            directory, paths = self.copy()
            index = os.path.join(os.path.dirname(paths[0]), "index")
            damaged = ()
            if content == "cut":
                os.truncate(index, os.path.getsize(index) - 20)
            elif content == "stale":  # lists a file that is gone, and one that became another
                os.unlink(paths[0])
                shutil.copyfile(paths[2], paths[1])
                damaged = (0, 1)
            elif content is None:
                os.unlink(index)
                os.mkdir(index)
            else:
                with open(index, "wb") as file:
                    file.write(content)
            with self.subTest(content=content):
                self.check(self.start_on(directory), damaged)

    def test_a_device_that_refuses(self):
        # With no free descriptor every open fails, as it would on a failing disk. The connection is open already.
        directory, _ = self.copy()
        server = self.start_on(directory)
        prompts = list(self.truth)
        connection = server.connection()
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            connection.getresponse().read()
            pid = server.process.pid
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, before[1]))
            body = json.dumps({"prompt": list(prompts[0]), "max_tokens": 1, "temperature": 0})
            connection.request("POST", COMPLETION, body, {"Content-Type": "application/json"})
            reply = json.loads(connection.getresponse().read())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.assertEqual(reply["choices"][0]["text"], self.truth[prompts[0]])
        self.assertEqual(timings(reply)["cache_n"], 0)
        self.assertIn("kv cache load failed", server.log())
        for ids in prompts[1:]:
            reply = self.ask(server, ids)
            self.assertEqual(reply["choices"][0]["text"], self.truth[ids])
            self.assertEqual(timings(reply)["cache_source"], "disk-token")

    def test_a_disk_that_is_full(self):
        # No file may grow beyond 4 KiB: writes fail with what was begun, and nothing of it stays.
        directory = fresh_directory()
        server = self.start_on(directory)
        pid = server.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        for ids, text in self.truth.items():
            self.assertEqual(self.ask(server, ids)["choices"][0]["text"], text)
        wait_until(lambda: not any(path.endswith(".tmp") for path in files_under(directory)), "leftovers are removed")
        self.assertEqual(segments(directory), [])
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        fresh = [2000, *list(self.truth)[0]]
        self.ask(server, fresh)
        wait_until(lambda: segments(directory), "when there is room again, it is used")

    def test_a_damaged_count_of_writes(self):
        directory = fresh_directory()
        with open(os.path.join(directory, "writes"), "w") as file:
            file.write("not a count")
        server = self.start_on(directory, "--kv-disk-write-mb-per-day", 1)
        self.ask(server, next(iter(self.truth)))
        self.assertEqual(server.log().count("the file 'writes' in the cache directory cannot be read or is damaged"), 1)

    def test_a_tiny_budget(self):
        directory = fresh_directory()
        server = self.server("--restore", "always", "--kv-disk-dir", directory, "--kv-disk-space-mb", 1)
        def used():
            return physical_bytes_of(segments(directory))
        for number in range(12):
            prompt = words(400, number)
            reply = server.post(COMPLETION, {"prompt": prompt, "max_tokens": 8, "temperature": 0})
            self.assertEqual(reply["usage"]["completion_tokens"], 8)
            self.assertLessEqual(used(), 1 << 20)
        self.assertEqual(server.stop(), 0)
        self.assertLessEqual(used(), 1 << 20)
        self.assertGreater(used(), 1 << 18)
        server.start()
        last = server.post(COMPLETION, {"prompt": prompt, "max_tokens": 8, "temperature": 0})
        self.assertEqual(timings(last)["cache_source"], "disk-token", "the latest is kept")

    def test_a_smaller_budget_than_before(self):
        directory, _ = self.copy()
        server = self.start_on(directory, "--kv-disk-space-mb", 1)
        for ids, text in self.truth.items():
            self.assertEqual(self.ask(server, ids)["choices"][0]["text"], text)


class UnusableDirectories(ServerCase):
    def refused(self, directory, *parts, before_loading=True):
        run = run_program(*serve_command("--kv-disk-dir", directory, "--port", "0")[1:])
        self.assertEqual(run.returncode, 1, run.stderr)
        last = run.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("kvkeep: ") and directory in last, run.stderr)
        for part in ("--kv-disk-dir", *parts):
            self.assertIn(part, last)
        if before_loading:
            self.assertNotIn("loading", run.stderr)

    def serves_without(self, cache_home, *parts):
        server = self.server(default_disk=True, environment={"XDG_CACHE_HOME": cache_home})
        for part in ("serving without a disk cache", *parts):
            self.assertIn(part, server.log())
        self.assertEqual(server.chat([user("hi")], max_tokens=4)["usage"]["completion_tokens"], 4)
        self.assertEqual(server.stop(), 0)

    def test_a_file_in_the_directorys_place(self):
        path = fresh_path("file")
        open(path, "w").close()
        self.refused(path)
        self.refused(os.path.join(path, "below"))
        self.serves_without(path)

    def test_a_place_where_nothing_can_be_made(self):
        self.refused("/proc/kvkeep-test")  # not even for root
        self.serves_without("/proc")

    def test_something_else_in_our_names_place(self):
        for name in ("lock", "own"):
            directory = fresh_directory()
            if name == "own":  # a file that has the fingerprint's name
                with self._make(self._logs, ["--kv-disk-dir", directory], {}) as server:
                    server.stop()
                [own] = [entry for entry in os.listdir(directory) if len(entry) == 64]
                shutil.rmtree(os.path.join(directory, own))
                open(os.path.join(directory, own), "w").close()
            else:
                os.mkdir(os.path.join(directory, "lock"))
            with self.subTest(name=name):
                self.refused(directory, before_loading=name == "lock")

    def test_the_root_of_the_file_system(self):
        link = fresh_path("link")
        os.symlink("/", link)
        for directory in ("/", "//..", link):
            with self.subTest(directory=directory):
                self.refused(directory, "root")

    def test_a_directory_of_another_user(self):
        if os.geteuid() != 0:  # nobody else may give files away
            return
        home = fresh_directory()
        directory = os.path.join(home, "kvkeep")
        os.mkdir(directory)
        os.chown(directory, 65534, 65534)
        self.refused(directory, "belongs to another user (number 65534)")
        self.serves_without(home)
        self.assertEqual(os.listdir(directory), [], "nothing was written there")
        looked = run_program("cache", "stat", "--kv-disk-dir", directory)
        self.assertEqual(looked.returncode, 1)
        self.assertIn("belongs to another user", looked.stderr)

    def test_others_may_write(self):
        warning = "other users may write"
        for mode, advice in ((0o720, "chmod 700"), (0o702, "chmod 700"), (0o1777, "of your own below"), (0o755, None)):
            home = fresh_directory()
            directory = os.path.join(home, "kvkeep")
            os.mkdir(directory)
            os.chmod(directory, mode)
            for flags in (["--kv-disk-dir", directory], []):
                with self.subTest(mode=oct(mode), flags=flags):
                    server = self.server(*flags, default_disk=True, environment={"XDG_CACHE_HOME": home})
                    warned = [line for line in server.log().splitlines() if warning in line]
                    self.assertEqual(len(warned), 1 if advice else 0, server.log())
                    self.assertTrue(not advice or advice in warned[0] and directory in warned[0], warned)
                    server.stop()

    def test_a_quarantine_that_is_no_directory(self):
        directory = fresh_directory()
        for name in ("lock", "quarantine"):
            open(os.path.join(directory, name), "w").close()
        server = self.server("--kv-disk-dir", directory)
        self.assertEqual(server.chat([user(words(50))], max_tokens=4)["usage"]["completion_tokens"], 4)

    def test_a_directory_that_is_a_link(self):
        target, link = fresh_directory(), fresh_path("link")
        os.symlink(target, link)
        server = self.server("--kv-disk-dir", link)
        server.chat([user(words(50))], max_tokens=4)
        server.stop()
        self.assertTrue(segments(target))

    def test_files_are_private(self):
        directory = fresh_path("private/below")
        server = self.server("--kv-disk-dir", directory)
        server.chat([user(words(50))], max_tokens=4)
        server.stop()
        self.assertTrue(segments(directory))
        for parent, folders, files in os.walk(directory):
            for name in folders:
                self.assertEqual(os.stat(os.path.join(parent, name)).st_mode & 0o777, 0o700)
            for name in files:
                self.assertEqual(os.stat(os.path.join(parent, name)).st_mode & 0o777, 0o600)


if __name__ == "__main__":
    main()
