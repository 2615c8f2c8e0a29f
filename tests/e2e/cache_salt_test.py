"""Salts: what one sends tells nothing to whoever does not know its salt, in every dialect, tier and after a restart."""

import json
import os

from flag_case import FlagCase, covers
from support import (HttpError, files_under, fresh_directory, fresh_path, main, model, run_program, segments, timings, user,
                     words)

TEXT = words(150, 11)
IDS = ("--replay", "canonical", "--no-prefill-ahead", "-np", 2, "--restore", "always")


def chat(**fields):
    return "/v1/chat/completions", {"messages": [user(TEXT)], "max_tokens": 4, "temperature": 0, **fields}


def completion(**fields):
    return "/v1/completions", {"prompt": TEXT, "max_tokens": 4, "temperature": 0, **fields}


def response(**fields):
    return "/v1/responses", {"input": TEXT, "max_output_tokens": 4, "temperature": 0, **fields}


def message(**fields):
    return "/v1/messages", {"model": "any", "messages": [user(TEXT)], "max_tokens": 4, "temperature": 0, **fields}


SALTS = ({}, {"cache_salt": "one"}, {"cache_salt": "other"})
MISSING = "there is no saved slot of this name"
DIALECTS = {"chat": chat, "completion": completion, "response": response, "message": message}


def cached(server, request, **keywords):
    path, body = request
    return timings(server.post(path, body, **keywords))["cache_n"]


def lookup(server, **fields):
    return server.post("/cache/lookup", {"prompt": TEXT, **fields})


def act(server, action, filename, headers=None, **fields):
    return server.post(f"/slots/0?action={action}", {"filename": filename, **fields}, headers=headers)


def salt_file(text):
    path = fresh_path("salt")
    with open(path, "w") as file:
        file.write(text)
    return path


class CacheSalt(FlagCase):
    def test_each_salt_has_its_own(self):
        for name, dialect in DIALECTS.items():
            with self.subTest(dialect=name):
                server = self.server(*IDS)
                for salts in (({}, {"cache_salt": "one"}, {"cache_salt": "other"}, {"cache_salt": "One"})):
                    self.assertEqual(cached(server, dialect(**salts)), 0, salts)
                    self.assertGreater(cached(server, dialect(**salts)), 100, salts)
                self.assertGreater(cached(server, dialect(cache_salt=None)), 100)
                self.assertEqual(cached(server, dialect(cache_salt="x", user="one", prompt_cache_key="one")), 0)

    def test_the_replies_are_the_same(self):
        server = self.server(*IDS)
        texts = {server.post(*completion(**salt))["choices"][0]["text"]
                 for salt in ({}, {"cache_salt": "a"}, {"cache_salt": "b"}, {"cache_salt": "a"})}
        self.assertEqual(len(texts), 1)

    def test_across_a_restart(self):
        directory = fresh_directory()
        flags = (*IDS, "--kv-disk-dir", directory)
        server = self.server(*flags)
        cached(server, completion(cache_salt="one"))
        server.stop()
        server = self.server(*flags)
        for salt in ({}, {"cache_salt": "other"}):
            self.assertEqual(cached(server, completion(**salt)), 0)
        reply = timings(server.post(*completion(cache_salt="one")))
        self.assertGreater(reply["cache_n"], 100)
        self.assertTrue(reply["cache_source"].startswith("disk"), reply)
        server.stop()
        versions = []
        for path in segments(directory):
            with open(path, "rb") as file:
                versions.append(file.read()[8])
        self.assertEqual(set(versions), {1, 3}, "a former program refuses what has a tenant, and that alone")

    def test_values_that_are_no_salt_are_refused(self):
        server = self.server(*IDS)
        for dialect in DIALECTS.values():
            for wrong in ("", 5, ["a"], "x" * 257):
                with self.assertRaises(HttpError) as caught:
                    server.post(*dialect(cache_salt=wrong))
                self.assertEqual(caught.exception.status, 400)
                self.assertIn("cache_salt", caught.exception.body["error"]["message"])
        self.assert_refused(400, server.post, "/cache/lookup", {"prompt": "x", "cache_salt": ""}, contains="cache_salt")

    def test_a_lookup_is_answered_of_ones_own(self):
        server = self.server(*IDS)
        cached(server, completion(cache_salt="one"))
        self.assertGreater(lookup(server, cache_salt="one")["cached_tokens"], 100)
        for salt in ({}, {"cache_salt": "other"}):
            told = lookup(server, **salt)
            self.assertEqual((told["cached_tokens"], told["known_tokens"], told["candidates"], told["first_difference"]),
                             (0, 0, [], None))

    def test_the_salt_is_nowhere(self):
        trace, directory = fresh_path("trace"), fresh_directory()
        server = self.server(*IDS, "--trace", trace, "--trace-prompts", "--kv-disk-dir", directory, "--log-verbosity", 5)
        for dialect in DIALECTS.values():
            cached(server, dialect(cache_salt="pepper-and-salt"))
        cached(server, completion())
        server.stop()
        self.assertNotIn("pepper-and-salt", server.log())
        with open(trace) as file:
            lines = [json.loads(line) for line in file]
        self.assertNotIn("pepper-and-salt", json.dumps(lines))
        tenants = [line["tenant"] for line in lines if line["route"] != "ahead"]
        self.assertEqual((len(tenants), len(set(tenants)), tenants[-1]), (5, 2, None))

    @covers("--cache-salt-file")
    def test_a_servers_salt(self):
        directory = fresh_directory()

        def reused(*flags, **fields):
            server = self.server(*IDS, "--kv-disk-dir", directory, *flags)
            tokens = cached(server, completion(**fields))
            server.stop()  # what it waits to write is written
            return tokens
        one, other, again = salt_file("one\n"), salt_file("other"), salt_file("one")
        self.assertEqual([reused(), reused("--cache-salt-file", one), reused("--cache-salt-file", other)], [0, 0, 0])
        for flags in ((), ("--cache-salt-file", again), ("--cache-salt-file", other)):
            self.assertGreater(reused(*flags), 100, flags)
        self.assertEqual(reused("--cache-salt-file", one, cache_salt="one"), 0)
        self.assert_program_refuses("--cache-salt-file", salt_file("\n"), contains="empty")

    @covers("--cache-salt-by-key")
    def test_keys_as_tenants(self):
        server = self.server(*IDS, "--api-key", "first,second", "--cache-salt-by-key")
        for key in ("first", "second"):
            headers = {"Authorization": f"Bearer {key}"}
            for salt in ({}, {"cache_salt": "one"}):
                self.assertEqual(cached(server, completion(**salt), headers=headers), 0)
                self.assertGreater(cached(server, completion(**salt), headers=headers), 100)
            self.assertEqual(cached(server, message(), headers=headers), 0)
            self.assertGreater(cached(server, message(), headers={"x-api-key": key}), 100)
        self.assert_program_refuses("--cache-salt-by-key", contains="--api-key")

    # A restore by another tenant would put the conversation among its own state, where look-ups read it token by token.
    def test_a_saved_slot_is_its_tenants(self):
        saved = fresh_directory()
        server = self.server(*IDS, "--slot-save-path", saved)
        for number, theirs in enumerate(SALTS):
            name, prompt = f"{number}.bin", words(150, 20 + number)
            server.post("/completion", {"prompt": prompt, "n_predict": 2, "id_slot": 0, **theirs})
            kept = act(server, "save", name, **theirs)["n_saved"]
            self.assertGreater(kept, 100)
            for salt in SALTS:
                if salt == theirs:
                    continue
                self.assert_refused(400, act, server, "restore", name, **salt, contains=f"{name}: {MISSING}")
                self.assertLess(server.post("/cache/lookup", {"prompt": prompt, **salt})["cached_tokens"], 20)
                self.assertEqual(act(server, "save", name, **salt)["n_saved"], 0, "it has no conversation there")
            self.assertEqual(act(server, "restore", name, **theirs)["n_restored"], kept, "nobody replaced it")
        self.assertEqual({os.stat(path).st_mode & 0o777 for path in files_under(saved)}, {0o600})
        directories = [os.path.join(saved, name) for name in os.listdir(saved) if name.startswith("tenant-")]
        self.assertEqual([os.stat(path).st_mode & 0o777 for path in directories], [0o700] * 2)

    @covers("--cache-salt-by-key")
    def test_a_saved_slot_is_its_keys(self):
        server = self.server(*IDS, "--api-key", "first,second", "--cache-salt-by-key", "--slot-save-path", fresh_directory())
        first, second = ({"Authorization": f"Bearer {key}"} for key in ("first", "second"))
        server.post("/completion", {"prompt": TEXT, "n_predict": 2, "id_slot": 0}, headers=first)
        kept = act(server, "save", "x", headers=first)["n_saved"]
        self.assert_refused(400, act, server, "restore", "x", headers=second, contains=MISSING)
        self.assertEqual(server.post("/cache/lookup", {"prompt": TEXT}, headers=second)["cached_tokens"], 0)
        self.assertEqual(act(server, "restore", "x", headers=first)["n_restored"], kept)

    # Such a file names no tenant. A client without a salt may have it if its text is among that client's own.
    def test_a_slot_that_a_former_version_saved(self):
        saved = fresh_directory()
        path = os.path.join(saved, "x")
        server = self.server(*IDS, "--slot-save-path", saved)
        server.post("/completion", {"prompt": TEXT, "n_predict": 2, "id_slot": 0})
        kept = act(server, "save", "x")["n_saved"]
        with open(path) as file:
            slot = json.load(file)
        self.assertEqual((slot.pop("owner"), slot["kvkeep_slot"]), ("", 2))
        with open(path, "w") as file:
            json.dump({**slot, "kvkeep_slot": 1}, file)
        self.assertEqual(act(server, "restore", "x")["n_restored"], kept)
        self.assert_refused(400, act, server, "restore", "x", cache_salt="one", contains=MISSING)
        other = self.server(*IDS, "--slot-save-path", saved)
        self.assert_refused(400, act, other, "restore", "x", contains="a former version saved it")
        self.assertEqual(lookup(other)["cached_tokens"], 0)

    # A file that somebody moves between tenants gives nothing away.
    def test_a_saved_slot_says_whose_it_is(self):
        saved = fresh_directory()
        server = self.server(*IDS, "--slot-save-path", saved)
        server.post("/completion", {"prompt": TEXT, "n_predict": 2, "id_slot": 0, "cache_salt": "one"})
        act(server, "save", "x", cache_salt="one")
        [path] = files_under(saved)
        os.rename(path, os.path.join(saved, "x"))
        self.assert_refused(400, act, server, "restore", "x", contains=MISSING)
        self.assertEqual(lookup(server)["cached_tokens"], 0)

    def assert_program_refuses(self, *flags, contains):
        ended = run_program("serve", "-m", model(), *[str(flag) for flag in flags])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(contains, ended.stderr)


if __name__ == "__main__":
    main()
