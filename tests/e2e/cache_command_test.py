"""`kvkeep cache` on directories that real servers filled, and beside them."""

import json
import os
import shutil
import time

from support import (ServerCase, files_under, fresh_directory, fresh_path, main, model, physical_bytes, quarantined,
                     run_program, segments, system, timings, user, wait_until, words)

COMPLETION = "/v1/completions"


def cache(*arguments, directory):
    return run_program("cache", *arguments, "--kv-disk-dir", directory)


def parsed(*arguments, directory, status=0):
    run = cache(*arguments, "--json", directory=directory)
    if run.returncode != status:
        raise AssertionError(f"{arguments}: status {run.returncode}: {run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def flip(path, at=-1):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


class FilledDirectory(ServerCase):
    """Two conversations that share a beginning, and one of its own; each test works on a copy."""

    @classmethod
    def start_class_servers(cls):
        cls.filled = fresh_directory()
        cls.head = words(300, 1)
        cls.prompts = [cls.head + " " + words(80, 2), cls.head + " " + words(80, 3), words(120, 4)]
        with cls._make(cls._class_logs, ["--kv-disk-dir", cls.filled], {}) as server:
            for prompt in cls.prompts:
                cls.ask(server, prompt)
            server.stop()

    @staticmethod
    def ask(server, prompt):
        return server.post(COMPLETION, {"prompt": prompt, "max_tokens": 4, "temperature": 0})

    def copy(self):
        directory = fresh_path("copy")
        shutil.copytree(self.filled, directory, copy_function=shutil.copy2)
        return directory

    def prefixes(self, directory):
        return parsed("ls", directory=directory)["prefixes"]


class Looking(FilledDirectory):
    def test_stat(self):
        stat = parsed("stat", directory=self.filled)
        self.assertFalse(stat["server_running"])
        [model] = stat["models"]
        self.assertEqual(model["rows"]["files"], len(segments(self.filled)))
        self.assertGreater(model["tokens"], 500)
        physical = sum(-(-os.path.getsize(path) // 4096) * 4096 + 4096 for path in segments(self.filled))
        self.assertEqual(model["rows"]["bytes"], physical)
        self.assertEqual(model["damaged"]["files"], 0)
        text = cache("stat", directory=self.filled)
        self.assertEqual(text.returncode, 0)
        self.assertIn(model["fingerprint"][:12], text.stdout)
        self.assertIn("none is running", text.stdout)
        self.assertNotIn("budget", text.stdout)
        self.assertNotIn("budget_bytes", stat)
        asked = parsed("stat", "--kv-disk-space-mb", "64", directory=self.filled)
        self.assertEqual(asked["budget_bytes"], 64 << 20)

    def test_ls_is_a_tree(self):
        found = self.prefixes(self.filled)
        roots = [prefix for prefix in found if prefix["parent"] is None]
        self.assertEqual(len(roots), 2)
        [shared] = [root for root in roots if any(prefix["parent"] == root["id"] for prefix in found)]
        below = [prefix for prefix in found if prefix["parent"] == shared["id"]]
        self.assertTrue(below)
        for prefix in below:
            self.assertLessEqual(prefix["begin"], shared["end"])
        self.assertEqual(len({prefix["id"] for prefix in found}), len(found))
        self.assertTrue(all(prefix["hash"].startswith(prefix["id"]) for prefix in found))
        text = cache("ls", directory=self.filled).stdout
        for prefix in found:
            self.assertIn(("  " if prefix["parent"] else "") + prefix["id"], text)

    def test_ls_can_be_cut(self):
        self.assertEqual(len(parsed("ls", "-n", "1", directory=self.filled)["prefixes"]), 1)
        top = parsed("ls", "--depth", "1", directory=self.filled)
        self.assertEqual({prefix["parent"] for prefix in top["prefixes"]}, {None})
        self.assertGreater(top["hidden"], 0)
        by_length = [prefix["end"] for prefix in parsed("ls", "--depth", "1", "--sort", "tokens",
                                                        directory=self.filled)["prefixes"]]
        self.assertEqual(by_length, sorted(by_length, reverse=True))
        refused = cache("ls", "--model", "0123", directory=self.filled)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("0123", refused.stderr)

    def test_nothing_is_changed_by_looking(self):
        def state(directory):
            return sorted((path, os.stat(path).st_mtime_ns) for path in segments(directory))
        directory = self.copy()
        os.remove(os.path.join(directory, "lock"))
        before = state(directory), sorted(os.listdir(directory))
        for command in ("stat", "ls", "verify"):
            cache(command, directory=directory)
        self.assertEqual((state(directory), sorted(os.listdir(directory))), before)

    def test_the_directory_of_the_environment(self):
        environment = {"LLAMA_ARG_KV_DISK_DIR": self.filled}
        run = run_program("cache", "stat", environment=environment)
        self.assertEqual((run.returncode, run.stdout.splitlines()[:1]), (0, [self.filled]), run.stderr)
        run = run_program("cache", "--kv-disk-dir", self.filled, "stat")
        self.assertEqual((run.returncode, run.stdout.splitlines()[:1]), (0, [self.filled]), run.stderr)
        other = fresh_path("other")
        run = run_program("cache", "stat", "--kv-disk-dir", other, environment=environment)
        self.assertIn(other, run.stderr)


class Verifying(FilledDirectory):
    def test_a_whole_directory(self):
        report = parsed("verify", directory=self.filled)
        self.assertEqual(report["files"], len(segments(self.filled)))
        self.assertEqual(report["findings"], [])
        text = cache("verify", directory=self.filled)
        self.assertIn("all whole", text.stdout)
        self.assertEqual(text.stderr, "", "no bar where nobody watches")

    def test_damage_is_found_and_repaired(self):
        directory = self.copy()
        shared = next(prefix for prefix in self.prefixes(directory) if prefix["parent"] is None and prefix["end"] > 200)
        first = next(path for path in segments(directory)
                     if os.path.basename(path).split("-")[1].startswith(shared["hash"][:32]))
        flip(first)
        report = parsed("verify", directory=directory, status=1)
        self.assertEqual([f["file"] for f in report["findings"] if f["trouble"] == "damaged"], [first])
        self.assertTrue(any(f["trouble"] == "orphan" for f in report["findings"]))
        self.assertIn("--repair", cache("verify", directory=directory).stdout)
        repaired = parsed("verify", "--repair", directory=directory, status=1)["repaired"]
        self.assertEqual(repaired["set_aside"], 1)
        self.assertEqual(len(quarantined(directory)), 1)
        self.assertEqual(parsed("verify", directory=directory)["findings"], [])
        with self._make(self._logs, ["--kv-disk-dir", directory, "--restore", "always"], {}) as server:
            self.assertEqual(timings(self.ask(server, self.prompts[2]))["cache_source"], "disk-token")
            self.ask(server, self.prompts[0])

    def test_next_to_a_running_server(self):
        directory = self.copy()
        server = self.server("--kv-disk-dir", directory, "--restore", "always")
        self.assertTrue(parsed("stat", directory=directory)["server_running"])
        for number in range(8):
            self.ask(server, words(200, 10 + number))
            self.assertEqual(parsed("verify", directory=directory)["findings"], [])
        self.assertEqual(server.stop(), 0)
        self.assertFalse(parsed("stat", directory=directory)["server_running"])

    def test_a_server_survives_repair_next_to_it(self):
        directory = self.copy()
        server = self.server("--kv-disk-dir", directory, "--restore", "always")
        for path in segments(directory)[:2]:
            flip(path)
        self.assertGreater(parsed("verify", "--repair", directory=directory, status=1)["repaired"]["set_aside"], 0)
        for prompt in self.prompts:
            self.assertEqual(self.ask(server, prompt)["usage"]["completion_tokens"], 4)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(parsed("verify", directory=directory)["findings"], [])


class Showing(FilledDirectory):
    def test_files_and_path(self):
        below = next(prefix for prefix in self.prefixes(self.filled) if prefix["parent"])
        shown = parsed("show", below["id"], directory=self.filled)
        self.assertEqual((shown["path"][-2:], shown["hash"]), ([below["parent"], below["id"]], below["hash"]))
        self.assertEqual(len(shown["files"]), below["files"])
        self.assertNotIn("ids", shown)
        self.assertNotIn("text", shown)
        text = cache("show", below["id"][:6], directory=self.filled)
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn(shown["files"][0]["sum"], text.stdout)

    def test_text_only_on_request(self):
        roots = [prefix for prefix in self.prefixes(self.filled) if prefix["parent"] is None]
        texts = [parsed("show", root["id"], "--text", "--gguf", model(), directory=self.filled)["text"] for root in roots]
        self.assertTrue(any(self.head[:200] in text for text in texts))
        listed = parsed("ls", "--gguf", model(), directory=self.filled)["prefixes"]
        self.assertTrue(any(self.head.startswith((prefix["words"] or "?").lstrip("<s>").strip()[:40]) for prefix in listed),
                        [prefix["words"] for prefix in listed])
        ids = parsed("show", roots[0]["id"], "--ids", directory=self.filled)["ids"]
        self.assertEqual(len(ids), roots[0]["end"])

    def test_conversations_are_told_apart_by_their_last_message(self):
        directory = fresh_directory()
        with self._make(self._logs, ["--kv-disk-dir", directory], {}) as server:
            questions = ["Name sweet apples.", "Find the zebras."]
            for question in questions:
                server.chat([system("You are careful. " + words(100)), user(question)], max_tokens=2)
            server.stop()
        ends = [prefix["words"] for prefix in self.prefixes(directory) if prefix["words"] in questions]
        self.assertEqual(ends, questions)

    def test_the_directory_tells_its_model(self):
        [found] = parsed("stat", directory=self.filled)["models"]
        self.assertEqual(found["model"]["path"], os.path.realpath(model()))
        self.assertEqual(found["foreign_names"], 0)
        self.assertEqual(found["model"]["settings"], "-ctk q8_0 -ctv q8_0")
        self.assertIn("libllama", found["model"]["computed_by"])
        self.assertIn(", -ctk q8_0 -ctv q8_0: ", cache("ls", directory=self.filled).stdout)
        [note] = [path for path in files_under(self.filled) if path.endswith("/model.json")]
        self.assertEqual(os.stat(note).st_mode & 0o777, 0o600)
        listed = parsed("ls", directory=self.filled)["prefixes"]
        self.assertTrue(all(prefix["words"] for prefix in listed))
        # Its loss costs names alone, and whatever it says is not believed.
        directory = self.copy()
        [note] = [path for path in files_under(directory) if path.endswith("/model.json")]
        for content in ("{", json.dumps({"path": "/dev/zero"}), json.dumps({"path": "/nowhere.gguf"})):
            with open(note, "w") as file:
                file.write(content)
            without = parsed("ls", directory=directory)["prefixes"]
            self.assertEqual([prefix["words"] for prefix in without], [None] * len(listed))
            refused = cache("show", listed[0]["id"], "--text", directory=directory)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("--gguf", refused.stderr)
        # A pipe would wait for ever, and what others may write is not followed.
        pipe = fresh_path("pipe")
        os.mkfifo(pipe)
        for path, mode in ((pipe, 0o700), (os.path.basename(model()), 0o700), (os.path.realpath(model()), 0o770)):
            with open(note, "w") as file:
                json.dump({"path": path}, file)
            os.chmod(os.path.dirname(note), mode)
            self.assertIsNone(parsed("ls", directory=directory)["prefixes"][0]["words"], path)

    def test_bad_ids(self):
        for word, part in (("abc", "no id"), ("zzzz", "no id"), ("0" * 64, "no prefix"), ("../..", "no id")):
            run = cache("show", word, directory=self.filled)
            self.assertEqual(run.returncode, 1)
            self.assertIn(part, run.stderr)


class Removing(FilledDirectory):
    def test_a_line_and_what_hangs_below(self):
        directory = self.copy()
        found = self.prefixes(directory)
        shared = next(prefix for prefix in found if prefix["parent"] is None and prefix["end"] > 200)
        gone = {shared["id"]} | {prefix["id"] for prefix in found if prefix["parent"] == shared["id"]}
        dry = parsed("rm", shared["id"], "--dry-run", directory=directory)
        self.assertEqual(len(self.prefixes(directory)), len(found))
        refused = cache("rm", shared["id"], directory=directory)
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertRegex(refused.stderr, "^kvkeep: nothing was removed: a conversation that no id names leaves .* pass --yes")
        self.assertEqual(len(self.prefixes(directory)), len(found))
        removed = parsed("rm", "--yes", shared["id"], directory=directory)
        self.assertEqual((removed["removed"]["files"], removed["others"]), (dry["removed"]["files"], 1))
        self.assertEqual({prefix["id"] for prefix in self.prefixes(directory)}, {p["id"] for p in found} - gone)
        self.assertEqual(parsed("verify", directory=directory)["findings"], [])
        self.assertFalse(any(path.endswith("/index") for path in files_under(directory)), "it lists token ids")
        with self._make(self._logs, ["--kv-disk-dir", directory, "--restore", "always"], {}) as server:
            self.assertEqual(timings(self.ask(server, self.prompts[0]))["cache_source"], "none")
            self.assertEqual(timings(self.ask(server, self.prompts[2]))["cache_source"], "disk-token")

    def test_two_servers_may_store_one_prompt(self):
        """Cut at other places: a line of ls is of the files of one; the other's are redundant, and go with it."""
        directory, other = fresh_directory(), fresh_directory()
        head = words(70, 5)
        for filled, prompts in ((directory, [head, head + " " + words(90, 6)]), (other, [head + " " + words(90, 6)])):
            with self._make(self._logs, ["--kv-disk-dir", filled], {}) as server:
                for prompt in prompts:
                    self.ask(server, prompt)
                server.stop()
        [own] = [entry for entry in os.listdir(directory) if len(entry) == 64]
        for path in segments(other):
            name = os.path.basename(path)
            if not os.path.exists(os.path.join(directory, own, name)):
                shutil.copy(path, os.path.join(directory, own, name))
        self.assertGreater(parsed("verify", directory=directory)["redundant"], 0)
        for root in [prefix["id"] for prefix in self.prefixes(directory) if prefix["parent"] is None]:
            left = parsed("rm", "-y", root, directory=directory)["left"]
        self.assertEqual({what: count["files"] for what, count in left.items()},
                         {"useless": 0, "quarantine": 0, "unreadable": 0})
        self.assertEqual(segments(directory), [])

    def test_damaged_files_that_lead_nowhere_are_reported(self):
        directory = self.copy()
        damaged = min(segments(directory), key=os.path.getmtime)
        with open(damaged, "r+b") as file:
            file.truncate(100)
        os.rename(damaged, os.path.join(os.path.dirname(damaged), "0" * 32 + "-" + "1" * 32 + ".kvs"))
        for root in [prefix["id"] for prefix in self.prefixes(directory) if prefix["parent"] is None]:
            text = cache("rm", "-y", root, directory=directory).stdout
        self.assertIn("(kvkeep cache gc)", text)
        self.assertNotEqual(segments(directory), [])

    def test_a_model(self):
        directory = self.copy()
        [found] = parsed("stat", directory=directory)["models"]
        self.assertEqual(cache("rm", "--model", found["fingerprint"][:8], directory=directory).returncode, 0)
        self.assertEqual(segments(directory), [])
        self.assertEqual(parsed("stat", directory=directory)["models"], [], "nor is its directory left")
        self.assertFalse(os.path.exists(os.path.join(directory, found["fingerprint"])))

    def test_next_to_a_running_server(self):
        directory = self.copy()
        server = self.server("--kv-disk-dir", directory, "--restore", "always")
        for prefix in self.prefixes(directory):
            if prefix["parent"] is None:
                parsed("rm", "-y", prefix["id"], directory=directory)
        self.assertEqual(segments(directory), [])
        for _ in range(2):
            for prompt in self.prompts:
                self.assertEqual(self.ask(server, prompt)["usage"]["completion_tokens"], 4)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(parsed("verify", directory=directory)["findings"], [])

    def test_a_conversation_that_goes_on_next_to_it_is_whole_on_disk_again(self):
        directory = fresh_directory()
        prompt = words(200, 5)
        with self._make(self._logs, ["--kv-disk-dir", directory], {}) as server:
            self.ask(server, prompt)
            wait_until(lambda: segments(directory), "what is stored lies on disk")
            self.assertGreater(parsed("gc", "--to-mb", "0", directory=directory)["removed"]["files"], 0)
            self.ask(server, prompt + " " + words(100, 6))
            wait_until(lambda: len(segments(directory)) > 2 and cache("verify", directory=directory).returncode == 0,
                       "nothing on disk continues what was removed")
            server.stop()
        with self._make(self._logs, ["--kv-disk-dir", directory, "--restore", "always"], {}) as server:
            self.assertGreater(timings(self.ask(server, prompt + " " + words(100, 6)))["cache_n"], 280)

    def test_gc(self):
        directory = self.copy()
        [own] = [entry for entry in os.listdir(directory) if len(entry) == 64]
        left = os.path.join(directory, own, "12.tmp")
        open(left, "w").close()
        os.utime(left, (1, 1))
        self.assertEqual(parsed("gc", "--dry-run", directory=directory)["reasons"]["temporary"]["files"], 1)
        self.assertEqual(parsed("gc", directory=directory)["removed"]["files"], 1)
        self.assertFalse(os.path.exists(left))
        self.assertEqual(parsed("gc", directory=directory)["removed"]["files"], 0)
        self.assertEqual(parsed("gc", "--to-mb", "1", directory=directory)["removed"]["files"], 0)
        emptied = parsed("gc", "--to-mb", "0", directory=directory)
        self.assertEqual((list(emptied["reasons"]), segments(directory)), (["budget", "advisory", "empty"], []))

    def test_gc_leaves_a_servers_temporaries(self):
        directory = self.copy()
        self.server("--kv-disk-dir", directory)
        [own] = [entry for entry in os.listdir(directory) if len(entry) == 64]
        left = os.path.join(directory, own, "12.tmp")
        open(left, "w").close()
        os.utime(left, (1, 1))
        parsed("gc", directory=directory)
        self.assertTrue(os.path.exists(left))


class Carrying(FilledDirectory):
    def test_from_one_directory_to_another(self):
        archive, target = fresh_path("archive"), fresh_path("imported")
        wanted = next(p for p in self.prefixes(self.filled) if p["parent"] is None and p["end"] > 200)
        other = next(p for p in self.prefixes(self.filled) if p["parent"] == wanted["id"])
        place = fresh_path("alone")
        alone = parsed("export", place, wanted["id"], directory=self.filled)
        again = cache("export", place, wanted["id"], directory=self.filled)
        self.assertEqual(again.returncode, 1)
        self.assertIn(f"{place} exists: name another file, or remove it first", again.stderr)
        self.assertEqual((alone["prefixes"], alone["others"], alone["foreign_tokens"]), (2, 1, 0), "it and its reply")
        leaving = parsed("export", fresh_path("leaving"), other["id"], directory=self.filled)
        self.assertEqual((leaving["others"], leaving["foreign_tokens"]), (0, wanted["end"] - other["begin"]))
        exported = parsed("export", archive, wanted["id"], other["id"], directory=self.filled)["exported"]
        self.assertEqual(os.stat(archive).st_mode & 0o777, 0o600)
        added = parsed("import", archive, directory=target)["added"]
        self.assertEqual((added["files"], len(segments(target))), (exported["files"], exported["files"]))
        self.assertEqual(parsed("import", archive, directory=target)["added"]["files"], 0)
        self.assertEqual(parsed("verify", directory=target)["findings"], [])
        with self._make(self._logs, ["--kv-disk-dir", target, "--restore", "always"], {}) as server:
            for prompt in self.prompts[:2]:
                self.assertEqual(timings(self.ask(server, prompt))["cache_source"], "disk-token")
            self.assertEqual(timings(self.ask(server, self.prompts[2]))["cache_source"], "none")
        self.assertEqual(cache("export", archive, directory=self.filled).returncode, 1, "it replaces no file")

    def test_next_to_a_running_server(self):
        archive, target = fresh_path("archive"), fresh_directory()
        parsed("export", archive, directory=self.filled)
        server = self.server("--kv-disk-dir", target, "--restore", "always")
        self.ask(server, words(200, 30))
        self.assertGreater(parsed("import", archive, directory=target)["added"]["files"], 2)
        self.assertEqual(parsed("verify", directory=target)["findings"], [])
        known = lambda: server.post("/cache/lookup", {"prompt": self.prompts[0]})["cached_tokens"] > 200
        wait_until(known, "the server finds what was imported")
        self.assertEqual(timings(self.ask(server, self.prompts[0]))["cache_source"], "disk-token")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(timings(self.ask(server, self.prompts[2]))["cache_source"], "disk-token")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(parsed("verify", directory=target)["findings"], [])

    def test_hostile_archives(self):
        archive, target = fresh_path("archive"), fresh_directory()
        parsed("export", archive, directory=self.filled)
        with open(archive, "rb") as file:
            whole = file.read()
        def changed(at, value):
            return whole[:at] + value + whole[at + len(value):]
        for name, data in {"empty": b"", "text": b"../../etc/passwd\n" * 100, "cut": whole[:-9], "longer": whole + b"x",
                           "huge size": changed(16, b"\xff" * 8), "version": changed(8, b"\x09"),
                           "a byte": changed(len(whole) // 2, bytes([whole[len(whole) // 2] ^ 1]))}.items():
            with self.subTest(name):
                with open(archive, "wb") as file:
                    file.write(data)
                run = cache("import", archive, directory=target)
                self.assertEqual((run.returncode, run.stdout), (1, ""))
                self.assertIn(archive, run.stderr)
                self.assertEqual(segments(target) + [p for p in files_under(target) if p.endswith(".tmp")], [])
                fresh = fresh_path("fresh")
                self.assertEqual(cache("import", archive, directory=fresh).returncode, 1)
                self.assertFalse(os.path.exists(fresh), "what the import made is gone")
        with open(archive, "wb") as file:
            file.write(whole)
        room = cache("import", archive, "--kv-disk-space-mb", "1", directory=target)
        too_large = sum(os.path.getsize(path) for path in segments(self.filled)) > 1 << 20
        self.assertEqual(room.returncode, 1 if too_large else 0, room.stderr)


class Pinning(FilledDirectory):
    def test_pins_are_shown_and_taken_away(self):
        directory = self.copy()
        wanted = next(prefix for prefix in self.prefixes(directory) if prefix["parent"])
        self.assertEqual(parsed("pin", wanted["id"], directory=directory)["changed"], 1)
        pinned = {prefix["id"] for prefix in self.prefixes(directory) if prefix["pinned"]}
        self.assertEqual(pinned, {wanted["id"], wanted["parent"]})
        self.assertIn("pinned", cache("ls", directory=directory).stdout)
        self.assertEqual(parsed("unpin", wanted["id"], directory=directory)["changed"], 1)
        self.assertFalse(any(prefix["pinned"] for prefix in self.prefixes(directory)))
        self.assertEqual(parsed("unpin", wanted["id"], directory=directory)["changed"], 0)

    def test_a_server_keeps_what_is_pinned(self):
        directory = fresh_directory()
        # Half of the disk's budget holds the pinned prompt; many others push out what is not.
        flags = ["--kv-disk-dir", directory, "--kv-disk-space-mb", "1", "--restore", "always", "--cache-ram", "0"]
        server = self.server(*flags)
        pinned, other = words(150, 40), words(150, 41)
        for prompt in (pinned, other):
            self.ask(server, prompt)
        wait_until(lambda: len(self.prefixes(directory)) >= 2, "both are on disk")
        found = next(p for p in self.prefixes(directory) if pinned.startswith(p["words"].removeprefix("<s>").strip()[:60]))
        parsed("pin", found["id"], directory=directory)
        wait_until(lambda: "pinned prefix is kept" in server.log(), "the server sees the pin")
        for number in range(12):
            self.ask(server, words(300, 50 + number))
        self.assertEqual(server.stop(), 0)
        left = [prefix for prefix in self.prefixes(directory)]
        self.assertIn(found["hash"][:8], [prefix["hash"][:8] for prefix in left if prefix["pinned"]])
        self.assertFalse(any(other.startswith((p["words"] or "?").removeprefix("<s>").strip()[:60]) for p in left))

    def test_a_start_knows_pins_before_anything_leaves(self):
        filled = fresh_directory()
        pinned = words(150, 70)
        server = self.server("--kv-disk-dir", filled)
        for prompt in (pinned, *(words(300, 71 + number) for number in range(12))):
            self.ask(server, prompt)
        self.assertEqual(server.stop(), 0)
        self.assertGreater(physical_bytes(filled), 1 << 20)
        found = next(p for p in self.prefixes(filled) if pinned.startswith(p["words"].removeprefix("<s>").strip()[:60]))
        # All are over the time to live, and what is pinned is worth least: it was used last the longest ago.
        newest_first = sorted(segments(filled), key=os.path.getmtime, reverse=True)
        for hours, path in enumerate(newest_first, start=2):
            os.utime(path, (time.time() - hours * 3600,) * 2)
        for is_pinned in (True, False):
            for flags in (["--kv-cache-ttl-hours", "1"], ["--kv-disk-space-mb", "1"]):
                with self.subTest(flags=flags, pinned=is_pinned):
                    directory = fresh_path("copy")
                    shutil.copytree(filled, directory, copy_function=shutil.copy2)
                    if is_pinned:
                        parsed("pin", found["id"], directory=directory)
                    before = len(segments(directory))
                    with self._make(self._logs, ["--kv-disk-dir", directory, *flags], {}) as server:
                        self.assertEqual("1 pinned prefix is kept" in server.log(), is_pinned)
                        wait_until(lambda: len(segments(directory)) < before, "something leaves")
                        server.stop()
                    left = {prefix["hash"]: prefix["pinned"] for prefix in self.prefixes(directory)}
                    self.assertEqual(left.get(found["hash"]), True if is_pinned else None)

    def test_a_server_starts_where_pins_cannot_be_read(self):
        directory = self.copy()
        [own] = [entry for entry in os.listdir(directory) if len(entry) == 64]
        os.mkdir(os.path.join(directory, own, "pins"))
        server = self.server("--kv-disk-dir", directory, "--restore", "always")
        self.assertEqual(timings(self.ask(server, self.prompts[2]))["cache_source"], "disk-token")
        time.sleep(5)  # it looks again and again
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.log().count("pins cannot be read"), 1)


class Refusals(ServerCase):
    def refused(self, *arguments, directory, parts=()):
        run = cache(*arguments, directory=directory)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertEqual(run.stdout, "")
        [line] = run.stderr.splitlines()
        self.assertTrue(line.startswith("kvkeep: "), line)
        for part in parts:
            self.assertIn(part, line)

    def test_a_machine_without_a_cache(self):
        home = fresh_directory()
        for command in ("stat", "ls", "list"):
            run = run_program("cache", command, environment={"XDG_CACHE_HOME": home})
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            self.assertIn(f"{home}/kvkeep: nothing is stored yet", run.stdout)
            run = run_program("cache", "--json", command, environment={"XDG_CACHE_HOME": home})
            empty = json.loads(run.stdout)["models" if command == "stat" else "prefixes"]
            self.assertEqual((run.returncode, empty), (0, []), run.stderr)
        self.assertEqual(os.listdir(home), [])

    def test_a_directory_that_is_no_cache_is_refused(self):
        missing = fresh_path("missing")
        self.refused("stat", directory=missing, parts=["no such cache directory", "kvkeep serve"])
        run = run_program("cache", "stat", environment={"LLAMA_ARG_KV_DISK_DIR": missing})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"{missing}: nothing is stored yet", run.stdout)
        home = fresh_directory()
        with open(os.path.join(home, "letter"), "w") as file:
            file.write("dear")
        for command in ("stat", "ls", "verify", "gc"):
            self.refused(command, directory=home, parts=["no cache directory"])
        self.refused("verify", "--repair", directory=os.path.join(home, "letter"))
        self.assertEqual(os.listdir(home), ["letter"])

    def test_no_server_begins_a_cache_among_other_things(self):
        home = fresh_directory()
        with open(os.path.join(home, "letter"), "w") as file:
            file.write("dear")
        run = run_program("serve", "-m", model(), "--kv-disk-dir", home, "--port", "0")
        self.assertEqual(run.returncode, 1)
        self.assertIn("it holds other files", run.stderr)
        self.assertIn(f"such as {os.path.realpath(home)}/kvkeep", run.stderr)
        self.assertNotIn("loading", run.stderr)
        self.assertEqual(os.listdir(home), ["letter"])

    def test_other_files_in_a_cache_are_left_alone(self):
        mounted = fresh_directory()
        os.mkdir(os.path.join(mounted, "lost+found"))
        server = self.server("--kv-disk-dir", mounted)
        self.assertEqual(server.stop(), 0)
        self.assertNotIn("left there, and not counted", server.log())
        with open(os.path.join(mounted, "letter"), "w") as file:
            file.write("dear")
        server.start()
        self.assertIn("one name is in the directory that kvkeep did not make: left there", server.log())
        self.assertEqual(parsed("stat", directory=mounted)["foreign_names"], 1)

    def test_an_empty_directory_is_an_empty_cache(self):
        directory = fresh_directory()
        self.assertEqual(parsed("stat", directory=directory)["models"], [])
        self.assertEqual(parsed("verify", directory=directory)["files"], 0)

    def test_links(self):
        target = fresh_directory()
        link, dangling = fresh_path("link"), fresh_path("dangling")
        os.symlink(target, link)
        os.symlink(fresh_path("nowhere"), dangling)
        self.assertEqual(parsed("stat", directory=link)["directory"], os.path.realpath(target))
        self.refused("stat", directory=dangling)
        # Below the root none is followed.
        elsewhere = fresh_directory()
        os.symlink(elsewhere, os.path.join(target, "a" * 64))
        open(os.path.join(target, "lock"), "w").close()
        stat = parsed("stat", directory=target)
        self.assertEqual((stat["models"], stat["foreign_names"]), ([], 1))

    def test_the_default_directory(self):
        home = fresh_directory()
        os.mkdir(os.path.join(home, "kvkeep"))
        run = run_program("cache", "stat", "--json", environment={"XDG_CACHE_HOME": home})
        self.assertEqual(json.loads(run.stdout)["directory"], os.path.realpath(os.path.join(home, "kvkeep")))
        missing = run_program("cache", "verify", environment={"XDG_CACHE_HOME": fresh_directory()})
        self.assertEqual(missing.returncode, 1)
        self.assertIn("--kv-disk-dir", missing.stderr)


if __name__ == "__main__":
    main()
