"""Salts: what one sends tells nothing to whoever does not know its salt, in every dialect, tier and after a restart."""

import json

from flag_case import FlagCase, covers
from support import HttpError, fresh_directory, fresh_path, main, model, run_program, segments, timings, user, words

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


DIALECTS = {"chat": chat, "completion": completion, "response": response, "message": message}


def cached(server, request, **keywords):
    path, body = request
    return timings(server.post(path, body, **keywords))["cache_n"]


def lookup(server, **fields):
    return server.post("/cache/lookup", {"prompt": TEXT, **fields})


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

    def assert_program_refuses(self, *flags, contains):
        ended = run_program("serve", "-m", model(), *[str(flag) for flag in flags])
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn(contains, ended.stderr)


if __name__ == "__main__":
    main()
