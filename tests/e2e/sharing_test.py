"""Servers that share no disk: what one computed and published, the other one finds, loads and goes on from, for every
class of memory, and with every word that a server by itself would say."""

import json
import os
import pathlib
import re
import shutil
import struct
import time

from exactness_case import ExactnessCase
from flag_case import covers
from media_test import png, shows
from valkey_process import ValkeyProcess
from support import (assistant, files_under, fresh_directory, fresh_path, main, model, needs_libmtmd, reply_text, run_program,
                     system, timings, user, wait_until, words)

# Short batches, as the ends of state lie on multiples of them. The truth is computed with the same: others move the logits
# of an opaque model by more than cells in another order do (by 0.15 between -ub 512 and 128, without any cache).
BATCH = ["-ub", "128", "-b", "128"]
FLAGS = ["--restore", "always", "--no-prefill-ahead", "--metrics", *BATCH]


def metrics(server, *names):
    found = dict(line.split()[:2] for line in server.get("/metrics").splitlines() if line.split()[0] in names)
    return [float(found[name]) for name in names]


def metric(server, name):
    return metrics(server, name)[0]


def write_secret(path, text):
    with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)


def settled(server):
    """Waits until a server published all that it computed. A reply is captured after it was sent."""
    seen = []

    def quiet():
        published, *waiting = metrics(server, "kvkeep_share_published_total", "kvkeep_share_waiting", "kvkeep_cache_writes_waiting")
        seen.append((published, sum(waiting)))
        return len(seen) > 20 and seen[-1][0] > 0 and set(seen[-20:]) == {(seen[-1][0], 0)}
    wait_until(quiet, "everything is published")


class SharingCase(ExactnessCase):

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)

    def sharing(self, url, *flags):
        return self.server("--share", url, *FLAGS, *flags, model_path=self.model_path)

    def pair(self, *flags):
        url = f"dir:{fresh_directory('shared')}"
        return self.sharing(url, *flags), self.sharing(url, *flags)

    def ask(self, server, messages, **fields):
        return self.same_chat(server, messages, max_tokens=8, **fields)


class EveryClass(SharingCase):
    """Run for each class below."""
    lost = 0  # tokens after the last state that another server can guess

    @classmethod
    def start_class_servers(cls):
        super().start_class_servers()
        url = f"dir:{fresh_directory('shared')}"
        cls.two = [cls.class_server("--share", url, *FLAGS, model_path=cls.model_path) for _ in range(2)]

    @covers("--share")
    def test_another_server_goes_on_where_the_first_one_was(self):
        first, second = self.two
        messages = [system(words(500, 1)), user(words(100, 2))]
        said = self.ask(first, messages)
        settled(first)
        messages += [assistant(reply_text(said)), user("And then?")]
        before = second.decoded_ids()
        reply = self.ask(second, messages)
        known = len(second.prompt_ids(messages[:2]))
        shared = timings(reply)["cache_tokens"]["shared"]
        self.assertIn(timings(reply)["cache_source"], ("shared-token", "shared-text"))
        self.assertGreaterEqual(shared, known - self.lost)
        self.assertLess(second.decoded_ids() - before, len(second.prompt_ids(messages)) - shared + 16)
        # It is this server's own from now on.
        messages += [assistant(reply_text(reply)), user("Go on.")]
        again = self.ask(second, messages)
        self.assertEqual(timings(again)["cache_tokens"]["shared"], 0)
        self.assertGreater(timings(again)["cache_n"], shared)

    def test_a_conversation_wanders(self):
        servers = self.two
        messages = [system(words(400, 3))]
        prefilled = computed = 0
        for turn in range(6):
            messages.append(user(f"Question {turn}: {words(40, 10 + turn)}"))
            server = servers[turn % 2]
            reply = self.ask(server, messages)
            used = timings(reply)
            prefilled += used["prompt_n"]
            computed += used["prompt_n"] if turn == 0 else len(server.prompt_ids(messages)) - longest
            longest = len(server.prompt_ids(messages))
            messages.append(assistant(reply_text(reply)))
            settled(server)
        self.assertLessEqual(prefilled, computed * 1.05 + 6 * self.lost)


class Sliceable(EveryClass):
    def test_conversations_branch_off_in_the_middle_of_a_segment(self):
        first, second = self.two
        head = system(words(500, 4))
        self.ask(first, [head, user("First question.")])
        self.ask(first, [head, user(f"Second question. {words(300, 5)}")])
        settled(first)
        prompt = [head, user(f"Second question. {words(300, 5)} Really?")]
        reply = self.ask(second, prompt)
        self.assertGreater(timings(reply)["cache_tokens"]["shared"], 750)

    def test_a_server_that_was_stopped_left_its_state(self):
        url = f"dir:{fresh_directory('shared')}"
        first = self.sharing(url)
        messages = [user(words(500, 6))]
        said = self.ask(first, messages)
        self.assertEqual(first.stop(), 0)
        reply = self.ask(self.sharing(url), [*messages, assistant(reply_text(said)), user("And?")])
        self.assertGreater(timings(reply)["cache_tokens"]["shared"], 480)

    def test_state_that_was_loaded_goes_to_disk(self):
        url = f"dir:{fresh_directory('shared')}"
        first, disk = self.sharing(url), fresh_directory("disk")
        messages = [user(words(500, 7))]
        self.ask(first, messages)
        settled(first)
        second = self.sharing(url, "--kv-disk-dir", disk)
        self.ask(second, messages)
        second.stop()
        shutil.rmtree(url.removeprefix("dir:"))
        third = self.server("--kv-disk-dir", disk, *FLAGS, model_path=self.model_path)
        self.assertGreater(timings(self.ask(third, messages))["cache_tokens"]["disk"], 480)

    @covers("--share-mode")
    def test_modes(self):
        url = f"dir:{fresh_directory('shared')}"
        writer, reader = self.sharing(url, "--share-mode", "write"), self.sharing(url, "--share-mode", "read")
        one, two = [user(words(400, 8))], [user(words(400, 9))]
        self.ask(writer, one)
        settled(writer)
        self.assertGreater(timings(self.ask(reader, one))["cache_tokens"]["shared"], 380)
        self.ask(reader, two)
        self.assertEqual(metric(reader, "kvkeep_share_published_total"), 0)
        self.assertEqual(timings(self.ask(writer, two))["cache_n"] // 64, 0, "write finds nothing")

    @covers("--share-key-file")
    def test_salts_and_keys_separate(self):
        directory = fresh_directory("shared")
        keys = [fresh_path("key") for _ in range(2)]
        for number, path in enumerate(keys):
            write_secret(path, f"secret {number}\n")
        first, second, stranger = (self.sharing(f"dir:{directory}", "--share-key-file", path)
                                   for path in (keys[0], keys[0], keys[1]))
        messages = [user(words(400, 10))]
        self.ask(first, messages, cache_salt="ours")
        settled(first)
        self.assertEqual(timings(self.ask(second, messages))["cache_tokens"]["shared"], 0)
        self.assertEqual(timings(self.ask(stranger, messages, cache_salt="ours"))["cache_tokens"]["shared"], 0)
        self.assertGreater(timings(self.ask(second, messages, cache_salt="ours"))["cache_tokens"]["shared"], 380)

    def test_a_key_that_others_can_read_is_refused(self):
        key = fresh_path("key")
        write_secret(key, "a secret of more than sixteen bytes\n")
        os.chmod(key, 0o644)
        refused = run_program("serve", self.model_path, "--share", f"dir:{fresh_directory('shared')}", "--share-key-file", key)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("--share-key-file", refused.stderr)
        self.assertIn("chmod 600", refused.stderr)

    @covers("--share-encrypt")
    def test_encrypted_state_shows_no_token_and_is_found(self):
        key = fresh_path("key")
        write_secret(key, "secret\n")
        messages = [user(words(400, 16))]
        for flags, clear in ((), True), (("--share-key-file", key, "--share-encrypt"), False):
            first, second = self.pair(*flags)
            ids = first.prompt_ids(messages)
            run = struct.pack("<24i", *ids[100:124])
            self.ask(first, messages)
            settled(first)
            directory = first.command[first.command.index("--share") + 1].removeprefix("dir:")
            shown = any(run in pathlib.Path(path).read_bytes() for path in files_under(directory))
            self.assertEqual(shown, clear)
            self.assertGreater(timings(self.ask(second, messages))["cache_tokens"]["shared"], 380)

    @covers("--share-across-devices")
    def test_state_of_another_kind_of_device_has_another_namespace(self):
        url = f"dir:{fresh_directory('shared')}"
        def space(*flags):
            return re.search(r"namespace ([0-9a-f]{16})", self.sharing(url, *flags).log()).group(1)
        strict, across = space(), space("--share-across-devices")
        self.assertNotEqual(strict, across)
        self.assertEqual((space(), space("--share-across-devices")), (strict, across))

    def test_damaged_and_foreign_bytes_are_a_miss(self):
        first, second = self.pair("--share-mode", "both")
        messages = [user(words(400, 11))]
        self.ask(first, messages)
        settled(first)
        directory = first.command[first.command.index("--share") + 1].removeprefix("dir:")
        for path in files_under(directory):
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                file.write(b"\x5a" * 16)
        reply = self.ask(second, messages)
        self.assertEqual(timings(reply)["cache_tokens"]["shared"], 0)
        self.assertGreater(metric(second, "kvkeep_share_damaged_total"), 0)

    def test_a_router_may_ask_without_the_engine_thread(self):
        first, second = self.pair()
        messages = [user(words(400, 14))]
        prompt = len(first.prompt_ids(messages))
        self.ask(first, messages)
        settled(first)
        body = {"messages": messages, "index_only": True}
        self.assertEqual(first.post("/cache/lookup", body), {
            "prompt_tokens": prompt, "stored_tokens": prompt, "restorable_tokens": prompt,
            "stored": {"ram": prompt, "disk": 0, "shared": 0}})
        self.assertEqual(second.post("/cache/lookup", body)["stored_tokens"], 0)
        self.assertEqual(first.post("/cache/lookup", {**body, "cache_salt": "other"})["stored_tokens"], 0)

    def test_turns_come_back_as_they_were_sampled(self):
        first, second = self.two
        messages = [user(words(300, 15))]
        said = self.ask(first, messages)
        settled(first)
        messages += [assistant(reply_text(said) + " \n"), user("And?")]
        # Both put the sampled ids in the place of that text; a server that has not seen the turn computes another prompt.
        reply, own = (server.chat(messages, max_tokens=8, temperature=0) for server in (second, first))
        sampled = timings(said)["predicted_n"]
        self.assertGreaterEqual(timings(reply)["cache_n"], len(second.prompt_ids(messages[:1])) + sampled - 1)
        self.assertEqual(reply["usage"]["prompt_tokens"], own["usage"]["prompt_tokens"])
        self.assertLess(reply["usage"]["prompt_tokens"], len(second.prompt_ids(messages)))
        self.assertEqual(reply_text(reply), reply_text(own))

    def test_a_prompt_is_asked_for_once_and_only_where_enough_is_unknown(self):
        first = self.sharing(f"dir:{fresh_directory('shared')}")
        lookups = lambda: metric(first, "kvkeep_share_lookups_total")  # noqa: E731
        self.ask(first, [user(words(50, 12))])
        self.assertEqual(lookups(), 0)
        messages = [user(words(400, 13))]
        said = self.ask(first, messages)
        self.assertEqual(lookups(), 1)
        self.ask(first, [*messages, assistant(reply_text(said)), user("And?")])
        self.assertEqual(lookups(), 1)


@needs_libmtmd
class Pictures(SharingCase):
    """Pictures that one server has seen are neither encoded nor prefilled by another one."""
    model_flags = ("--arch", "qwen3vl")

    def sharing(self, url, *flags):
        exact = ("-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0")
        return super().sharing(url, "--mmproj", model("--mmproj", *self.model_flags), *exact, *flags)

    def test_pictures_that_another_server_saw_are_known(self):
        first, second = self.pair()
        messages = [system(words(300, 1)), shows(png(1, 256, 256), words(30, 2))]
        said = first.chat(messages, max_tokens=8, temperature=0)
        messages += [assistant(reply_text(said)), user("Compare:"), assistant("With what?"), shows(png(2, 256, 256), words(30, 3))]
        said = first.chat(messages, max_tokens=8, temperature=0)
        settled(first)
        asked = [*messages, assistant(reply_text(said)), user(words(300, 4))]
        before = second.decoded_ids()
        reply = second.chat(asked, max_tokens=8, temperature=0)
        self.assertEqual(metric(second, "kvkeep_media_encoded_total"), 0)
        new = reply["usage"]["prompt_tokens"] - (said["usage"]["prompt_tokens"] + timings(said)["predicted_n"] - 1)
        self.assertEqual(second.decoded_ids() - before, timings(reply)["prompt_n"] + timings(reply)["predicted_n"] - 1)
        self.assertLessEqual(timings(reply)["prompt_n"], new * 1.02)
        self.assertEqual(metric(first, "kvkeep_media_encoded_total"), 2)
        self.assertEqual(reply_text(reply), reply_text(first.chat(asked, max_tokens=8, temperature=0, cache_prompt=False)))


class OverValkey(SharingCase):
    """The same with a real engine that is killed, frozen and empty again."""

    def setUp(self):
        super().setUp()
        self.valkey = self.enterContext(ValkeyProcess(fresh_directory("valkey")))

    def servers(self):
        return [self.sharing(self.valkey.url) for _ in range(2)]

    def shared(self, server, messages):
        return timings(self.ask(server, messages))["cache_tokens"]["shared"]

    def test_another_server_goes_on_where_the_first_one_was(self):
        first, second = self.servers()
        messages = [user(words(500, 20))]
        said = self.ask(first, messages)
        settled(first)
        self.assertGreater(self.shared(second, [*messages, assistant(reply_text(said)), user("And?")]), 490)

    def test_stat_shows_the_engine(self):
        server = self.sharing(self.valkey.url)
        self.ask(server, [user(words(400, 25))])
        settled(server)
        shown = run_program("cache", "stat", "--share", self.valkey.url)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, f"^{self.valkey.url}: valkey [0-9.]+\n")
        self.assertIn("of 512.0 MiB, evicts allkeys-lru", shown.stdout)
        self.assertNotIn("warning", shown.stdout)
        facts = json.loads(run_program("cache", "stat", "--share", self.valkey.url, "--json").stdout)
        self.assertEqual(facts["keys"], len(self.valkey.ask("KEYS", "*")))
        self.assertEqual(facts["warnings"], [])
        self.valkey.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.assertIn("warning      maxmemory-policy is noeviction",
                      run_program("cache", "stat", "--share", self.valkey.url).stdout)
        self.valkey.kill()
        dead = run_program("cache", "stat", "--share", self.valkey.url)
        self.assertEqual(dead.returncode, 1)
        self.assertIn(str(self.valkey.port), dead.stderr)

    @covers("--share-ttl-hours")
    def test_published_state_has_an_end(self):
        server = self.sharing(self.valkey.url, "--share-ttl-hours", 2)
        self.ask(server, [user(words(400, 24))])
        settled(server)
        keys = self.valkey.ask("KEYS", "*")
        self.assertGreater(len(keys), 4)
        for key in keys:
            left_ms = int(self.valkey.ask("PTTL", key)[0].lstrip(":"))
            self.assertTrue(7_000_000 < left_ms <= 7_200_000, (key, left_ms))

    def test_replies_come_while_the_engine_is_frozen_or_dead(self):
        first, second = self.servers()
        known = [user(words(500, 21))]
        self.ask(first, known)
        settled(first)
        self.valkey.freeze()
        self.assertEqual(self.shared(second, known), 0)
        self.assertEqual(self.shared(second, [user(words(400, 22))]), 0)
        self.valkey.kill()
        for number in range(3):
            self.ask(second, [user(words(400, 30 + number))])
        self.assertGreater(metric(second, "kvkeep_share_failures_total"), 0)

    def test_an_engine_that_comes_back_empty_is_filled_anew(self):
        first, second = self.servers()
        messages = [user(words(500, 23))]
        said = self.ask(first, messages)
        settled(first)
        self.assertNotIn("maxmemory", second.log())
        self.valkey.kill()
        self.valkey.flags += ["--maxmemory", "0", "--maxmemory-policy", "noeviction"]
        self.valkey.start()
        time.sleep(3)  # that something is there is believed for so long
        for turn in range(3):  # the first finds a hole, and from the next on all is published again
            messages = [*messages, assistant(reply_text(said)), user(f"Turn {turn}: {words(20, turn)}")]
            said = self.ask(first, messages)
            settled(first)
        self.assertGreater(self.shared(second, messages), 490)
        wait_until(lambda: "maxmemory-policy is noeviction" in second.log(), "limits that a restart lost are warned of")
        self.assertIn("maxmemory is not set", second.log())


class Windowed(EveryClass):
    model_flags = ("--arch", "gemma3", "--window", "64")
    lost = 16


class Hybrid(EveryClass):
    model_flags = ("--arch", "qwen35")
    lost = 16


class Recurrent(EveryClass):
    model_flags = ("--arch", "mamba2")
    lost = 16


class Opaque(EveryClass):
    model_flags = ("--arch", "deepseek4")
    lost = 16


del EveryClass, ExactnessCase, SharingCase  # only their children are tests

if __name__ == "__main__":
    main()
