"""GET /cache and the paths below it: what they show, and what they change in memory, RAM and on disk."""

import json
import os
import time

from flag_case import FlagCase, covers
from support import fresh_directory, fresh_path, main, run_program, segments, system, timings, user, wait_until, words

COMPLETION = "/v1/completions"


class CacheApi(FlagCase):
    def ask(self, server, text, **fields):
        return timings(server.post(COMPLETION, {"prompt": text, "max_tokens": 4, "temperature": 0, **fields}))

    def tree(self, server, query=""):
        return server.get("/cache/tree" + query)["prefixes"]

    def on_disk(self, server):
        """The tree, once all of it is written."""
        return wait_until(lambda: (tree := self.tree(server)) and all(one["disk_bytes"] for one in tree) and tree,
                          "all prefixes are on disk")

    def test_the_overview_has_the_replies_own_counts(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        self.assertEqual(server.get("/cache")["ended"], [])
        replies = [self.ask(server, words(count, 3)) for count in (120, 240)]
        shown = wait_until(lambda: (now := server.get("/cache")) and len(now["ended"]) == 2
                           and now["requests"]["running"] == 0 and now, "both have ended")
        self.assertEqual(shown["prompt_tokens"]["memory"], replies[1]["cache_n"])
        self.assertEqual(shown["prompt_tokens"]["prefill"], sum(reply["prompt_n"] for reply in replies))
        self.assertEqual(shown["saved"]["tokens"], replies[1]["cache_n"])
        self.assertGreater(shown["saved"]["seconds"], 0)
        self.assertEqual(shown["predicted_tokens"], 8)
        self.assertEqual(shown["requests"], {"accepted": 2, "running": 0, "waiting": 0})
        last = shown["ended"][0]
        self.assertEqual((last["cached_tokens"], last["prefilled_tokens"], last["predicted_tokens"], last["end"]),
                         (replies[1]["cache_n"], replies[1]["prompt_n"], 4, "length"))
        self.assertEqual(last["cache_miss_reason"], replies[1]["cache_miss_reason"])
        self.assertEqual([tier["name"] for tier in shown["tiers"]], ["ram", "disk"])
        self.assertEqual(shown["memory_class"], "sliceable")
        self.assertEqual((shown["cells"]["total"], shown["cells"]["shared"]), (shown["context_tokens"], 0))
        self.assertGreater(shown["cells"]["used"], 200)
        self.assertEqual(shown["tiers"][0]["budget_bytes"], 64 << 20)
        self.assertTrue(shown["tiers"][1]["keeper"])
        self.assertGreater(shown["tokens"], 200)

    def test_tenants_are_counted_apart_and_not_named(self):
        server = self.server()
        for salt in ("", "secret-salt", "secret-salt"):
            self.ask(server, words(120, 5), **({"cache_salt": salt} if salt else {}))
        shown = wait_until(lambda: (now := server.get("/cache?cache_salt=secret-salt")) and len(now["tenants"]) == 2
                           and now["requests"]["running"] == 0 and now, "all have ended")
        salted, plain = shown["tenants"]
        self.assertEqual([(one["number"], one["own"], one["salted"], one["requests"]) for one in (salted, plain)],
                         [(2, True, True, 2), (1, False, False, 1)])
        self.assertGreater(salted["cached_tokens"], 100)
        self.assertEqual(plain["cached_tokens"], 0)
        self.assertTrue(server.get("/cache")["tenants"][1]["own"])
        self.assertNotIn("secret", json.dumps(shown))
        self.assertEqual(salted["ram_bytes"] + plain["ram_bytes"], shown["tiers"][0]["used_bytes"])
        self.assertGreater(min(salted["ram_bytes"], plain["ram_bytes"]), 1000)
        self.assertEqual(salted["disk_bytes"], 0, "there is no disk")
        server.post("/cache/clear", {"all": True, "cache_salt": "secret-salt"})
        self.assertEqual([one["ram_bytes"] for one in server.get("/cache")["tenants"]], [0, plain["ram_bytes"]])

    def test_a_restart_does_not_forget_the_prefill_that_was_spared(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        for count in (120, 240):
            reused = self.ask(server, words(count, 3))["cache_n"]
        before = wait_until(lambda: (saved := server.get("/cache")["saved"])["tokens"] and saved, "tokens are reused")
        self.assertEqual(before["ever"]["tokens"], reused)
        self.assertGreater(before["seconds"], 0)
        server.stop()
        server.start()
        after = server.get("/cache")["saved"]
        self.assertEqual((after["tokens"], after["seconds"]), (0, 0))
        self.assertEqual((after["ever"]["tokens"], after["ever"]["since"]), (reused, before["ever"]["since"]))
        self.assertAlmostEqual(after["ever"]["seconds"], before["seconds"], delta=0.001)
        again = self.ask(server, words(240, 3))["cache_n"]
        self.assertEqual(server.get("/cache")["saved"]["ever"]["tokens"], reused + again)
        self.assertIn(f'kvkeep_reused_tokens{{since="ever"}} {reused + again}', server.get("/metrics"))

    def test_a_running_request_is_shown_with_its_progress(self):
        server = self.server("-c", 65536)
        stream = server.stream(COMPLETION, {"prompt": words(100), "max_tokens": 30000, "stream": True, "ignore_eos": True})
        next(stream)
        [running] = wait_until(lambda: [one for one in server.get("/cache")["running"] if one["predicted_tokens"] > 2],
                               "a request runs")
        self.assertEqual(running["cached_tokens"] + running["prefilled_tokens"], running["prompt_tokens"])
        self.assertEqual((running["state"], running["waits_for"]), ("decoding", None))
        self.assertGreater(running["prompt_ms"], 0)
        stream.close()
        wait_until(lambda: server.get("/cache")["ended"], "it ends when its client leaves")
        self.assertEqual(server.get("/cache")["ended"][0]["end"], "client-left")

    def test_the_tree_comes_page_by_page(self):
        server = self.server()
        for seed in range(5):
            self.ask(server, words(80, seed))
        self.ask(server, words(80, 1) + " and more " + words(60, 9))
        # The last reply is captured after it has been sent.
        wait_until(lambda: (now := server.get("/cache")) and len(now["ended"]) == 6
                   and now["requests"]["running"] == 0, "all have ended")
        whole = self.tree(server)
        self.assertGreaterEqual(len(whole), 6)
        paged, after = [], 0
        while after is not None:
            page = server.get(f"/cache/tree?limit=2&after={after}")
            self.assertLessEqual(len(page["prefixes"]), 2)
            paged += page["prefixes"]
            after = page["next"]
        self.assertEqual([one["number"] for one in paged], [one["number"] for one in whole])
        numbers = {one["number"]: one for one in whole}
        for one in whole:
            self.assertLess(one["begin"], one["end"])
            self.assertTrue(one["ram_bytes"] > 0 and one["disk_bytes"] == 0)
            if one["parent"]:
                self.assertLessEqual(one["begin"], numbers[one["parent"]]["end"])
        hottest = server.get("/cache")["hottest"]
        self.assertTrue(hottest and hottest[0]["hits"] >= hottest[-1]["hits"] > 0)
        self.assertEqual(server.get("/cache?hottest=1")["hottest"], hottest[:1])
        self.assertEqual(server.get("/cache?hottest=0")["hottest"], [])
        self.assert_refused(400, server.get, "/cache?hottest=101", contains="'hottest' must be a whole number")
        self.assertNotIn("river", json.dumps([whole, server.get("/cache")]), "no text of prompts")
        for query in ("?limit=0", "?limit=10001", "?limit=x", "?after=-1", "?limit=1e3"):
            self.assert_refused(400, server.get, "/cache/tree" + query, contains="must be a whole number")
        for path, meant in (("/cache?hotest=1", "hottest"), ("/cache/tree?limits=2", "limit"),
                            ("/cache/explain?lst=5", "last"), ("/cache/offenders?cache_slat=x", "cache_salt")):
            self.assert_refused(400, server.get, path, contains=f"did you mean '{meant}'?")
        for path, body, meant in (("/cache/warm?keeps=60", {"prompt": "x"}, "keep_s"),
                                  ("/cache/lookup?dialects=chat", {"prompt": "x"}, "dialect"),
                                  ("/cache/clear?dialekt=chat", {"all": True}, "dialect"),
                                  ("/cache/pin?dialec=chat", {"prompt": "x"}, "dialect")):
            self.assert_refused(400, server.post, path, body, contains=f"did you mean '{meant}'?")

    def test_a_warmed_prompt_is_there_for_its_first_request(self):
        server = self.server()
        talk = [system(words(200, 1))]
        warmed = server.post("/cache/warm?keep_s=600", {"messages": talk})
        self.assertEqual((warmed["cached_tokens"], warmed["prefilled_tokens"]), (0, warmed["prompt_tokens"]))
        reply = server.chat([*talk, user("hello")], max_tokens=4)
        self.assertGreaterEqual(timings(reply)["cache_n"], 190)
        self.assertTrue(any(one["kept_until"] for one in self.tree(server)))
        again = server.post("/cache/warm", {"messages": talk})
        self.assertGreaterEqual(again["cached_tokens"], warmed["prompt_tokens"] - 20)
        body = {"model": "x", "max_tokens": 5, "system": words(150, 7), "messages": [user("hi")]}
        warmed = server.post("/cache/warm?dialect=messages", body)
        usage = server.post("/v1/messages", body)["usage"]
        self.assertEqual(usage["input_tokens"], 1, "all but the last token")
        self.assertEqual(warmed["prompt_tokens"], usage["input_tokens"] + usage["cache_read_input_tokens"])
        body = {"model": "x", "instructions": words(150, 8), "input": "hi", "max_output_tokens": 4}
        warmed = server.post("/cache/warm?dialect=responses", body)
        self.assertEqual(server.post("/v1/responses", body)["usage"]["input_tokens_details"]["cached_tokens"],
                         warmed["prompt_tokens"] - 1)
        for path, sent, why in (("/cache/warm?dialect=x", {"messages": talk}, "'dialect' must be"),
                                ("/cache/warm?keep_s=86401", {"messages": talk}, "'keep_s' must be"),
                                ("/cache/warm", {}, "exactly one of"), ("/cache/warm", "nonsense", "JSON"),
                                ("/cache/warm", {"prompt": words(5000)}, "does not fit")):
            self.assert_refused(400, server.post, path, sent, contains=why)

    # ---- the request of a client, whatever its API ----

    TOOL = ("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})

    def requests(self, seed):
        """Of each dialect: a request's path and body, whose prompt is longer than 150 tokens with its system text only."""
        name, description, schema = self.TOOL
        text, asked = words(200, seed), words(10, seed + 1)
        return {"chat": ("/v1/chat/completions", {"messages": [system(text), user(asked)], "max_tokens": 2, "tools": [
                    {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}]}),
                "messages": ("/v1/messages", {"model": "x", "max_tokens": 2, "system": text, "messages": [user(asked)],
                                              "tools": [{"name": name, "description": description, "input_schema": schema}]}),
                "responses": ("/v1/responses", {"model": "x", "max_output_tokens": 2, "instructions": text, "input": asked,
                                                "tools": [{"type": "function", "name": name, "description": description,
                                                           "parameters": schema}]})}

    def test_each_order_takes_the_request_of_each_dialect(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        for seed, dialect in enumerate(("chat", "messages", "responses")):
            path, body = self.requests(100 * seed)[dialect]
            with self.subTest(dialect=dialect):
                def order(of, body=body, dialect=dialect):
                    return server.post(f"/cache/{of}?dialect={dialect}", body)

                warmed = order("warm")
                self.assertGreater(warmed["prompt_tokens"], 150)
                looked_up = order("lookup")
                self.assertEqual(looked_up["prompt_tokens"], warmed["prompt_tokens"])
                self.assertGreaterEqual(looked_up["cached_tokens"], warmed["prompt_tokens"] - 1)
                self.assertGreaterEqual(timings(server.post(path, body))["cache_n"], warmed["prompt_tokens"] - 1)
                self.on_disk(server)
                pinned = order("pin")
                self.assertTrue(pinned["pinned"])
                self.assertGreater(pinned["tokens"], 150)
                self.assertEqual((order("unpin")["changed"], order("unpin")["changed"]), (True, False))
                self.assertGreater(order("clear")["tokens"], 150)
                self.assertLess(order("lookup")["cached_tokens"], 100)

    def test_a_request_of_another_dialect_is_not_read_as_a_chat(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        for dialect in ("messages", "responses"):
            _, body = self.requests(500)[dialect]
            without_tools = {name: value for name, value in body.items() if name != "tools"}
            for order in ("warm", "lookup", "pin", "unpin", "clear"):
                for sent in (body, without_tools):
                    self.assert_refused(400, server.post, f"/cache/{order}", sent, contains=f"add ?dialect={dialect}")
                self.assert_refused(400, server.post, f"/cache/{order}?dialect=x", body, contains="'dialect' must be")
        self.assertEqual(self.tree(server), [])

    def test_the_program_warms_a_recorded_request(self):
        server = self.server()
        url = ("--url", f"http://127.0.0.1:{server.port}/v1")
        tools = [{"name": "read", "input_schema": {"type": "object"}}]
        side = {"model": "x", "max_tokens": 5, "messages": [user("title?")]}
        first = {"model": "x", "max_tokens": 5, "system": words(180, 11), "tools": tools, "messages": [user("hi")]}
        recording, body = fresh_path("recording.jsonl"), fresh_path("body.json")
        with open(recording, "w") as file:
            for sent in (side, first, side):
                file.write(json.dumps({"t": 0, "method": "POST", "path": "/v1/messages?beta=true", "headers": {}, "body": sent}) + "\n")
        run = run_program("warm", "--client", "claude-code", "--keep-s", "60", *url, recording)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"^warmed \d+ tokens: 0 were cached, \d+ prefilled\n$")
        self.assertEqual(server.post("/v1/messages", first)["usage"]["input_tokens"], 1)
        with open(body, "w") as file:
            json.dump(first, file)
        self.assertRegex(run_program("warm", *url, body).stdout, r" [01] prefilled\n$")
        for arguments, why in ((("--client", "codex", *url, recording), "no request of that kind"),
                               ((*url, fresh_path("none")), "none"),
                               (("--url", "http://127.0.0.1:1", body), "127.0.0.1")):
            run = run_program("warm", *arguments)
            self.assertEqual(run.returncode, 1)
            self.assertRegex(run.stderr, "^kvkeep: .*\n$")
            self.assertIn(why, run.stderr)

    def test_the_program_names_server_and_key_as_top_does(self):
        server = self.server("--api-key", "sesame")
        body, keys = fresh_path("body.json"), fresh_path("keys")
        with open(body, "w") as file:
            json.dump({"messages": [user(words(50, 12))]}, file)
        with open(keys, "w") as file:
            file.write("# of the server\nsesame\nother\n")
        os.chmod(keys, 0o600)
        url = {"KVKEEP_URL": f"http://127.0.0.1:{server.port}/v1"}
        for arguments, variables in ((("--api-key-file", keys), {}), (("--api-key", "sesame"), {"LLAMA_ARG_API_KEY_FILE": "none"}),
                                     ((), {"LLAMA_ARG_API_KEY_FILE": keys}), ((), {"LLAMA_API_KEY": "sesame"})):
            run = run_program("warm", *arguments, body, environment={**url, **variables})
            self.assertEqual((run.returncode, run.stderr), (0, ""))
        for arguments, why in (((), "--api-key-file"), (("--api-key-file", fresh_path("none")), "--api-key-file"),
                               (("--api-key", "wrong"), "wrong key: the server refuses this API key")):
            run = run_program("warm", *arguments, body, environment=url)
            self.assertEqual(run.returncode, 1)
            self.assertIn(why, run.stderr)

    def test_a_pin_is_the_one_of_the_command(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        text = words(200, 4)
        self.ask(server, text)
        tree = self.on_disk(server)
        end = max(tree, key=lambda one: one["end"])
        pinned = server.post("/cache/pin", {"id": end["id"]})
        self.assertEqual((pinned["id"], pinned["pinned"], pinned["changed"]), (end["id"], True, True))
        self.assertFalse(server.post("/cache/pin", {"id": end["id"]})["changed"])
        listed = json.loads(run_program("cache", "--kv-disk-dir", directory, "ls", "--json").stdout)["prefixes"]
        self.assertTrue(any(line["pinned"] for line in listed), listed)
        self.assertEqual([one["pinned"] for one in self.tree(server)].count(True), 1)
        wait_until(lambda: any(one["kept_until"] for one in self.tree(server)), "the server keeps it")
        by_prompt = server.post("/cache/unpin", {"prompt": text + " and so on"})
        self.assertEqual((by_prompt["pinned"], by_prompt["changed"]), (False, True))
        listed = json.loads(run_program("cache", "--kv-disk-dir", directory, "ls", "--json").stdout)["prefixes"]
        self.assertFalse(any(line["pinned"] for line in listed), listed)
        self.assertFalse(any(one["pinned"] for one in self.tree(server)))
        self.assert_refused(404, server.post, "/cache/pin", {"id": "00000000"})
        self.assert_refused(404, server.post, "/cache/pin", {"prompt": "zebra " + words(50, 99)})
        self.assert_refused(501, self.server().post, "/cache/pin", {"id": end["id"]}, contains="this server has none")

    def test_clearing_forgets_in_memory_ram_and_on_disk(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        first, second = words(200, 1), words(200, 2)
        self.ask(server, first)
        self.ask(server, second)
        self.on_disk(server)
        self.assertEqual(server.post("/cache/clear", {"unused_s": 3600})["prefixes"], 0)
        cleared = server.post("/cache/clear", {"prompt": first})
        self.assertGreater(cleared["tokens"], 150)
        self.assertGreater(cleared["disk_bytes"], 0)
        self.assertEqual(self.ask(server, first, cache_prompt=True)["cache_source"], "none")
        self.assertGreater(self.ask(server, second)["cache_n"], 150)
        everything = server.post("/cache/clear", {"all": True})
        self.assertGreater(everything["tokens"], 300)
        self.assertEqual(self.tree(server), [])
        wait_until(lambda: segments(directory) == [], "no file is left")
        self.assertEqual(server.get("/cache")["tokens"], 0)
        for text in (first, second):
            self.assertEqual(self.ask(server, text)["cache_n"], 0)
        self.on_disk(server)
        time.sleep(1.1)
        self.assertGreater(server.post("/cache/clear", {"unused_s": 1})["tokens"], 300)
        self.assert_refused(404, server.post, "/cache/clear", {"id": "00000000"})
        for body in ({}, {"all": False}, {"all": True, "unused_s": 5}, {"al": True}, [], "x", {"unused_s": -1}):
            self.assert_refused(400, server.post, "/cache/clear", body)

    def test_what_a_running_request_uses_goes_when_it_ends(self):
        server = self.server("-c", 65536)
        stream = server.stream(COMPLETION, {"prompt": words(300, 5), "max_tokens": 30000, "stream": True, "ignore_eos": True})
        next(stream)
        wait_until(lambda: self.tree(server), "its prompt is captured")
        self.assertGreater(server.post("/cache/clear", {"all": True})["tokens"], 200)
        self.assertEqual(self.tree(server), [])
        stream.close()
        wait_until(lambda: server.get("/cache")["requests"]["running"] == 0, "it ends")
        self.assertEqual(server.get("/cache")["tokens"], 0)

    def test_a_tenant_sees_and_changes_only_its_own(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        text = words(200, 6)
        self.ask(server, text, cache_salt="ada")
        self.assertEqual(self.tree(server), [])
        own = self.tree(server, "?cache_salt=ada")
        self.assertTrue(own)
        self.assertEqual(server.get("/cache")["ended"], [])
        self.assertEqual(len(server.get("/cache?cache_salt=ada")["ended"]), 1)
        self.assertTrue(server.get("/cache?cache_salt=ada")["hottest"] == [])
        for salt in ({}, {"cache_salt": "bob"}):
            self.assert_refused(404, server.post, "/cache/pin", {"id": own[0]["id"], **salt})
            self.assert_refused(404, server.post, "/cache/clear", {"id": own[0]["id"], **salt})
            self.assertEqual(server.post("/cache/clear", {"all": True, **salt})["prefixes"], 0)
        self.assertGreater(self.ask(server, text, cache_salt="ada")["cache_n"], 150)
        self.assertGreater(server.post("/cache/clear", {"all": True, "cache_salt": "ada"})["tokens"], 150)
        self.assertEqual(self.ask(server, text, cache_salt="ada")["cache_n"], 0)

    def test_all_paths_need_the_key(self):
        server = self.server("--api-key", "one,two", "--cache-salt-by-key")
        for path in ("/cache", "/cache/tree"):
            self.assert_refused(401, server.get, path)
        for path in ("/cache/warm", "/cache/pin", "/cache/unpin", "/cache/clear", "/cache/lookup"):
            self.assert_refused(401, server.post, path, {"all": True})
        with_key = {key: {"Authorization": f"Bearer {key}"} for key in ("one", "two")}
        server.post(COMPLETION, {"prompt": words(100, 3), "max_tokens": 2}, headers=with_key["one"])
        self.assertTrue(server.get("/cache/tree", headers=with_key["one"])["prefixes"])
        self.assertEqual(server.get("/cache/tree", headers=with_key["two"])["prefixes"], [])
        self.assertEqual(server.post("/cache/clear", {"all": True}, headers=with_key["two"])["prefixes"], 0)
        self.assertGreater(server.post("/cache/clear", {"all": True}, headers=with_key["one"])["prefixes"], 0)

    @covers("--no-cache-api")
    def test_the_paths_can_be_turned_off(self):
        server = self.server("--no-cache-api")
        for path in ("/cache", "/cache/tree"):
            self.assert_refused(501, server.get, path, contains="Start it without `--no-cache-api`")
        for path in ("/cache/warm", "/cache/pin", "/cache/unpin", "/cache/clear", "/cache/lookup"):
            self.assert_refused(501, server.post, path, {"all": True}, contains="Start it without `--no-cache-api`")
        self.assertGreater(self.ask(server, words(50))["prompt_n"], 40)


if __name__ == "__main__":
    main()
