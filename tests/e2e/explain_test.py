"""Why a request reused no more: each kind of break is made on purpose, through each dialect, and named right in the
reply, the header, the log, the trace and /cache/explain. docs/explain.md has the kinds."""

import contextlib
import json
import os

from explain_case import (ALL, CHATS, EXPLAIN, QWEN, ROUTES, ExplainCase, Talk, answers, calls, chat_body, returns, says,
                          tool)
from flag_case import PARAM_SHIM, covers
from support import fresh_directory, fresh_path, main, model, run_program, segments, wait_until, words


class Explain(ExplainCase):
    def test_new_content_and_nothing_known(self):
        server = self.server()
        for dialect in ALL:
            seed = self.seed()
            first = Talk(words(150, seed), turns=[says(words(20, 1))])
            longer = Talk(words(150, seed), turns=[says(words(20, 1)), answers("yes"), says(words(20, 2))])
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, first)
                self.assertIn(found["kind"], ("nothing-known", "new-content"))
                self.assertEqual(found["lost_tokens"], 0)
                found = self.break_of(server, dialect, longer)
                self.assertEqual((found["kind"], found["lost_tokens"]), ("new-content", 0))
                self.assertIsNone(self.break_of(server, dialect, first), "all of it is known")

    def test_volatile_text(self):
        server = self.server()
        for dialect in ALL:
            seed = self.seed()
            talks = [Talk(f"{words(40, seed)}\nToday is 2026-05-0{day}.\n{words(200, seed + 1)}", turns=[says("go on")])
                     for day in (4, 5)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *talks)
                self.assertEqual((found["kind"], found["what"]), ("volatile-text", "date"))
                self.assertEqual(found["place"], "system" if dialect in CHATS else "the prompt")
                self.assertGreater(found["lost_tokens"], 180)
                self.assertGreater(found["lost_ms"], 0)
                self.assertIn("5", found["text"]["here"])
                self.assertIn("4", found["text"]["there"])
                self.assertIn("2026-05-", found["text"]["before"])
                self.assertTrue(found["advice"])

    def test_a_message_that_was_put_in(self):
        server = self.server()
        for dialect in ALL:
            seed = self.seed()
            turns = [says(words(60, seed)), answers(words(60, 2)), says(words(150, 3))]
            changed = [turns[0], answers(words(110, 4)), says(words(40, 5)), *turns[1:]]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, Talk("Be kind.", turns=turns), Talk("Be kind.", turns=changed))
                self.assertEqual(found["kind"], "message-changed")
                self.assertGreater(found["lost_tokens"], 150)

    def test_another_task_before_text_that_stayed(self):
        server = self.server()
        for dialect in CHATS:
            seed = self.seed()
            turns = [[says(words(50, seed + i)), answers(words(150, seed)), says("so?")] for i in (1, 2)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *[Talk(words(80, seed), turns=one) for one in turns])
                self.assertEqual((found["kind"], found["place"]), ("new-content", "message 2 (user)"))
                self.assertGreater(found["lost_tokens"], 100)

    def test_tools(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            seed = self.seed()
            tools = [tool(f"tool{i}", words(60, seed + i)) for i in range(4)]
            described = [tools[0], tool("tool1", words(60, seed + 9)), *tools[2:]]
            talk = Talk(words(30, seed), tools, [says(words(20, 1))])
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, talk, Talk(talk.system, tools[::-1], talk.turns))
                self.assertEqual(found["kind"], "tools-reordered")
                self.assertEqual(found["place"], "tool 1")
                self.assertGreater(found["lost_tokens"], 150)
                found = self.break_of(server, dialect, Talk(talk.system, described, talk.turns))
                self.assertEqual((found["kind"], found["place"], found["tool"]), ("tools-changed", "tool 2", 1))
                self.assertGreater(found["lost_tokens"], 100)

    def test_tools_that_are_put_in_or_left_out(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            for first, second, place in ((3, 0, "tool 1"), (3, 2, "tool 3"), (0, 3, "tool 1"), (2, 3, "tool 3")):
                seed = self.seed()
                tools = [tool(f"tool{i}", words(60, seed + i)) for i in range(3)]
                talks = [Talk(words(40, seed), tools[:count], [says(words(80, seed + 5))]) for count in (first, second)]
                with self.subTest(dialect=dialect, tools=(first, second)):
                    found = self.break_of(server, dialect, *talks, headers={"X-Session-Id": f"s{seed}"})
                    self.assertEqual((found["kind"], found["place"]), ("tools-changed", place), found)
                    self.assertEqual((found["field"], found["tool"]), ("tool", int(place[-1]) - 1))
                    self.assertGreater(found["lost_tokens"], 60)

    def test_a_call_in_other_words(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            seed = self.seed()
            forms = ['{"path": "a/b.txt", "line": "seventeen"}', '{"line": "seventeen", "path": "a/b.txt"}']
            talks = [Talk(words(60, seed), [tool("read", "reads")],
                          [says("look"), calls(form), returns(words(120, 3)), answers(words(40, 4)), says("and now?")])
                     for form in forms]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *talks)
                self.assertEqual((found["kind"], found["field"]), ("call-reserialised", "calls"))
                self.assertEqual(found["place"], "calls of message 3")
                self.assertGreater(found["lost_tokens"], 120)

    def test_thinking_that_does_not_come_back(self):
        server = self.server(*QWEN, "--no-prefill-ahead")
        for dialect in CHATS:
            seed = self.seed()
            talks = [Talk(words(60, seed), [tool("read", "reads")],
                          [says("look"), calls('{"path": "a"}', thinking=thought), returns(words(150, 3))])
                     for thought in (words(30, 5), None)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *talks)
                self.assertEqual((found["kind"], found["place"]), ("thinking-dropped", "thinking of message 3"))
                self.assertGreater(found["lost_tokens"], 100)

    def test_a_template_that_rewrites_history(self):
        source = ("{{- '<|im_start|>begin' }}{% if messages|length < 4 %}{{- ' in short' }}{% endif %}{{- '\\n' }}"
                  "{% for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
                  "{% if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}")
        for dialect in CHATS:
            # Prompts of other dialects begin alike, and an idle server would prefill what the template makes of them.
            server = self.server("--chat-template", source, "--no-prefill-ahead")
            seed = self.seed()
            turns = [says(words(200, seed)), answers("yes"), says("more")]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, Talk("Be kind.", turns=turns[:1]), Talk("Be kind.", turns=turns))
                self.assertEqual((found["kind"], found["place"]),
                                 ("template-rewrote-history", "the template's own words"))
                self.assertGreater(found["lost_tokens"], 180)

    def test_requests_that_do_not_use_the_cache(self):
        for flags, fields in ((["--no-cache-prompt"], {}), ([], {"cache_prompt": False})):
            server = self.server(*flags)
            for dialect in ALL:
                talk = Talk(words(80, self.seed()), turns=[says("hello")])
                with self.subTest(dialect=dialect, flags=flags):
                    found = self.break_of(server, dialect, talk, talk, **fields)
                    self.assertEqual(found["kind"], "cache-off")
                    self.assertGreater(found["lost_tokens"], 80)
        prompt = words(50, self.seed())
        found = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 1, "echo": True,
                                                "logprobs": 1})["timings"]["cache_break"]
        self.assertEqual(found["kind"], "prompt-scored")

    def test_another_salt_of_the_same_session(self):
        server = self.server()
        for dialect in ALL:
            talk = Talk(words(200, self.seed()), turns=[says("hello")])
            session = {"X-Session-Id": f"s-{dialect}"}
            with self.subTest(dialect=dialect):
                self.ask(server, dialect, talk, headers=session, cache_salt="one")
                found = self.break_of(server, dialect, talk, headers=session, cache_salt="two")
                self.assertEqual(found["kind"], "other-salt")
                other = self.break_of(server, dialect, talk, headers={"X-Session-Id": "another"}, cache_salt="three")
                self.assertEqual(other["kind"], "nothing-known", "another session must not learn of it")
                nobody = self.break_of(server, dialect, talk, cache_salt="four")
                self.assertEqual(nobody["kind"], "nothing-known")

    def test_other_flags(self):
        directory = fresh_directory()
        for flags, kinds in ((("-ctk", "q8_0"), ("nothing-known",)), (("-ctk", "f16"), ("other-settings",))):
            server = self.server("--kv-disk-dir", directory, *flags)
            for number, dialect in enumerate(ALL):
                talk = Talk(words(200, 77 + number), turns=[says("hello")])
                with self.subTest(dialect=dialect, flags=flags):
                    found = self.break_of(server, dialect, talk)
                    self.assertIn(found["kind"], kinds)
            server.stop()

    def test_evicted(self):
        server = self.server("-c", 512, "-np", 1, "--cache-ram", 1)
        for dialect in ALL:
            seed = self.seed()
            talk = Talk(words(150, seed), turns=[says("hello")])
            with self.subTest(dialect=dialect):
                self.ask(server, dialect, talk)
                for i in range(24):
                    self.ask(server, dialect, Talk(words(200, seed + 100 + i), turns=[says("hello")]))
                found = self.break_of(server, dialect, talk)
                self.assertEqual(found["kind"], "evicted")
                self.assertEqual(found["lost"]["cause"], "ram-budget")
                self.assertGreater(found["lost"]["t"], 1e9)
                self.assertGreater(found["lost_tokens"], 100)

    def test_damaged(self):
        directory = fresh_directory()
        talks = {dialect: Talk(words(200, 500 + i), turns=[says("hello")]) for i, dialect in enumerate(ALL)}
        server = self.server("--kv-disk-dir", directory, "--cache-ram", 0)
        for dialect, talk in talks.items():
            self.ask(server, dialect, talk)
        server.stop()
        for path in segments(directory):
            with open(path, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                byte = file.read(1)
                file.seek(-100, os.SEEK_END)
                file.write(bytes([byte[0] ^ 255]))
        server.start()
        for dialect, talk in talks.items():
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, talk)
                self.assertEqual(found["kind"], "damaged")
                self.assertGreater(found["lost_tokens"], 100)

    def break_after_others(self, server, dialect):
        """The break of a prompt that others drove out of the model's memory of 256 tokens since it was computed."""
        seed = self.seed()
        talk = Talk(words(100, seed), turns=[says("hello")])
        self.ask(server, dialect, talk)
        for i in range(3):
            self.ask(server, dialect, Talk(words(130, seed + 100 + i), turns=[says("hello")]))
        return self.break_of(server, dialect, talk)

    def test_loading_that_is_slower_than_prefilling(self):
        for dialect in ALL:
            server = self.server("-c", 256, count_shim=PARAM_SHIM,
                                 environment={"KVKEEP_SLOW_RESTORE_MS": "300"})
            with self.subTest(dialect=dialect):
                learnt = self.break_after_others(server, dialect)
                self.assertIsNone(learnt, "nothing is known of the speed: it is loaded")
                found = self.break_after_others(server, dialect)
                self.assertEqual(found["kind"], "load-too-slow")
                self.assertGreater(found["lost_tokens"], 100)
                self.assertIn("--restore always", found["advice"])
            server.stop()

    def test_no_room_in_the_models_memory(self):
        server = self.server("-c", 256, count_shim=PARAM_SHIM, environment={"KVKEEP_NO_CELLS": "1"})
        for dialect in ALL:
            with self.subTest(dialect=dialect):
                found = self.break_after_others(server, dialect)
                self.assertEqual(found["kind"], "no-room")
                self.assertGreater(found["lost_tokens"], 100)
                self.assertIn("Raise -c", found["advice"])

    def test_a_model_that_goes_on_from_points(self):
        server = self.server(model_path=model("--arch", "qwen35"))
        for dialect in ALL:
            seed = self.seed()
            talks = [Talk(words(300, seed), turns=[says(f"{words(200, seed + 1)} {change} {words(20, 1)}")])
                     for change in ("one", "two")]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *talks)
                self.assertEqual(found["kind"], "no-point")
                self.assertGreater(found["lost_tokens"], 16)

    # ---- where it is shown ----

    def two_dates(self, server, seed, days=(4, 5), first_line="", **keywords):
        talks = [Talk(f"{first_line}Today is 2026-05-0{day}.\n{words(120, seed)}", turns=[says("go on")]) for day in days]
        return [self.ask(server, "chat", talk, **keywords) for talk in talks]

    def timed(self, server, path, body):
        """The header Server-Timing and the `timings` of the reply, which a stream has in its last events."""
        with contextlib.closing(server.connection(60)) as connection:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            header, text = answer.getheader("Server-Timing"), answer.read().decode()
        self.assertEqual(answer.status, 200, text)
        sent = [line[6:] for line in text.splitlines() if line.startswith("data: {")] if body["stream"] else [text]
        events = [event.get("response", event) for event in map(json.loads, sent)]
        timed = [event["timings"] for event in events if event.get("timings")]
        self.assertTrue(timed, text)
        return header, timed[-1]

    def test_each_dialect_tells_it_everywhere(self):
        """Streamed and not: in the reply, in its head, in the log, in the trace and in /cache/explain."""
        trace = fresh_path("trace.jsonl")
        server = self.server("--trace", trace)

        def traced(request):
            with open(trace) as file:
                return next((line for line in map(json.loads, file.read().splitlines()) if line["id"] == request), None)

        for dialect, (path, body) in ROUTES.items():
            for stream in (False, True):
                seed = self.seed()
                first, second = (body(Talk(f"{words(40, seed)}\nToday is 2026-05-0{day}.\n{words(120, seed)}",
                                           turns=[says("go on")])) for day in (4, 5))
                with self.subTest(dialect=dialect, stream=stream):
                    server.post(path, first)
                    header, told = self.timed(server, path, {**second, "stream": stream})
                    found = told["cache_break"]
                    self.assertEqual((found["kind"], found["what"]), ("volatile-text", "date"))
                    self.assertGreater(found["lost_tokens"], 100)
                    self.assertIn("text", found)
                    explained = wait_until(lambda: (last := server.get(EXPLAIN + "?last=1")["requests"][0])
                                           and last["cache_break"] and last["cache_break"]["at"] == found["at"]
                                           and last["t"] and last, "it is explained")
                    without_text = {key: value for key, value in found.items() if key != "text"}
                    self.assertEqual(explained["cache_break"], without_text)
                    line = wait_until(lambda request=explained["id"]: traced(request), "its line of the trace")
                    self.assertEqual(line["cache_break"], without_text)
                    self.assertRegex(header, r"^queue;dur=[\d.]+, restore;dur=[\d.]+, prefill;dur=[\d.]+, "
                                     rf'cache;desc="{explained["cached_tokens"]} of {explained["prompt_tokens"]} tokens, '
                                     r'volatile-text"$')
                    logged = next(line for line in server.log().splitlines() if explained["id"] in line)
                    self.assertIn(f"; volatile-text (date) in {found['place']}: {found['lost_tokens']} tokens prefilled "
                                  "again", logged)

    @covers("--explain-text")
    def test_explain_text(self):
        for flags, shown in (([], False), (["--explain-text"], True)):
            server = self.server(*flags)
            reply = self.two_dates(server, 2)[1]
            with self.subTest(flags=flags):
                one = server.get(f"{EXPLAIN}/{reply['id']}")
                self.assertEqual(one["id"], reply["id"])
                self.assertEqual(one["cache_break"]["kind"], "volatile-text")
                self.assertEqual("text" in one["cache_break"], shown)
                self.assertIn("text", reply["timings"]["cache_break"], "the reply to the request itself has it")
                [worst] = server.get("/cache/offenders")["offenders"]
                self.assertEqual((worst["kind"], worst["what"], worst["place"], worst["times"], worst["requests"]),
                                 ("volatile-text", "date", "system", 1, 2))
                self.assertEqual(worst["lost_tokens"], one["cache_break"]["lost_tokens"])
                self.assertEqual(worst["line"] is not None, shown)

    def test_the_last_requests(self):
        server = self.server()
        ids = [reply["id"] for seed in (1, 2) for reply in self.two_dates(server, seed)]
        self.assertEqual([one["id"] for one in server.get(EXPLAIN)["requests"]], ids[::-1])
        self.assertEqual([one["id"] for one in server.get(EXPLAIN + "?last=2")["requests"]], ids[:1:-1])
        for wrong in ("0", "1025", "x", "-1", "1e3"):
            self.assert_refused(400, server.get, f"{EXPLAIN}?last={wrong}", contains="last")
        self.assert_refused(404, server.get, EXPLAIN + "/chatcmpl-none", contains="no such request")

    def test_a_key_sees_only_its_own(self):
        keys = fresh_path("keys")
        with open(keys, "w") as file:
            file.write("one\ntwo\n")
        server = self.server("--api-key-file", keys)
        first, second = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        secret = f"{words(60, 9)} the password is apple"
        self.ask(server, "completions", Talk(f"{secret} {words(100, 3)}"), headers=first)
        reply = self.ask(server, "completions", Talk(f"{words(60, 9)} the password is zebra {words(100, 3)}"),
                         headers=second)
        found = reply["timings"]["cache_break"]
        self.assertGreater(found["at"], 50)
        self.assertTrue("zebra".startswith(found["text"]["here"].strip()[0]), found["text"])
        self.assertIsNone(found["text"]["there"], "it is the other key's")
        mine = server.get(EXPLAIN, headers=second)["requests"]
        self.assertEqual([one["id"] for one in mine], [reply["id"]])
        self.assertIsNone(mine[0]["cache_break"]["text"]["there"])
        self.assertNotIn("apple", json.dumps(mine))
        self.assert_refused(404, server.get, f"{EXPLAIN}/{reply['id']}", headers=first)

    def test_offenders_of_a_key_are_its_own(self):
        keys = fresh_path("keys")
        with open(keys, "w") as file:
            file.write("one\ntwo\n")
        server = self.server("--api-key-file", keys)
        headers = {key: {"Authorization": f"Bearer {key}", "User-Agent": f"{key}-agent/1.0"} for key in ("one", "two")}
        self.two_dates(server, 11, headers=headers["one"])
        of_one, of_two = (server.get("/cache/offenders", headers=headers[key])["offenders"] for key in ("one", "two"))
        self.assertEqual([(one["client"], one["place"], one["times"], one["requests"]) for one in of_one],
                         [("one-agent", "system", 1, 2)])
        self.assertTrue(of_one[0]["line"].startswith("Today is"), "it is its own")
        self.assertEqual(of_two, [])
        self.two_dates(server, 12, days=(4, 5, 6), first_line="Be brief.\n", headers=headers["two"])
        [worst] = server.get("/cache/offenders", headers=headers["two"])["offenders"]
        self.assertEqual((worst["client"], worst["times"], worst["requests"]), ("two-agent", 2, 3))
        self.assertEqual(server.get("/cache/offenders", headers=headers["one"])["offenders"], of_one)

    def test_offenders_of_a_salt_are_told_to_those_who_name_it(self):
        server = self.server("--explain-text")
        self.two_dates(server, 13, headers={"User-Agent": "salted-agent"}, cache_salt="pepper")
        for salt in (None, "ginger", "pepper"):
            told = server.get("/cache/offenders", headers={"X-Cache-Salt": salt} if salt else None)["offenders"]
            with self.subTest(salt=salt):
                self.assertEqual("salted-agent" in json.dumps(told), salt == "pepper")
                self.assertEqual("Today is" in json.dumps(told), salt == "pepper")
                self.assertEqual(len(told), 0 if salt == "ginger" else 1)

    def test_the_only_key_sees_what_is_kept(self):
        server = self.server("--api-key", "one")
        headers = {"Authorization": "Bearer one", "User-Agent": "agent"}
        self.two_dates(server, 14, headers=headers)
        [worst] = server.get("/cache/offenders", headers=headers)["offenders"]
        self.assertEqual((worst["client"], worst["times"], worst["line"]), ("agent", 1, None))

    def test_a_tenant_is_shown_to_those_who_name_the_salt(self):
        server = self.server("--explain-text")
        reply = self.two_dates(server, 4, cache_salt="pepper")[1]
        self.assertEqual(server.get(EXPLAIN)["requests"], [])
        self.assert_refused(404, server.get, f"{EXPLAIN}/{reply['id']}")
        shown = server.get(EXPLAIN, headers={"X-Cache-Salt": "pepper"})["requests"]
        self.assertEqual(len(shown), 2)
        self.assertEqual(server.get(f"{EXPLAIN}?last=5&cache_salt=pepper")["requests"], shown)
        for path in ("/cache?hottest=5", "/cache/tree"):
            by_parameter = f"{path}{'&' if '?' in path else '?'}cache_salt=pepper"

            def both(path=path, by_parameter=by_parameter):
                """Once nothing is captured or written between the two answers."""
                salted = server.get(path, headers={"X-Cache-Salt": "pepper"})
                return {**salted, "now": 0} == {**server.get(by_parameter), "now": 0} and salted

            salted = wait_until(both, f"{path} shows the same for both ways to name a salt")
            self.assertNotEqual(salted.get("ended", salted.get("prefixes")), [])

    # ---- offenders and kvkeep doctor ----

    def test_offenders_survive_restarts(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        self.two_dates(server, 5, headers={"User-Agent": "agent/1.0"})
        server.stop()
        server.start()
        self.two_dates(server, 6, days=(6, 7), headers={"User-Agent": "agent/1.1"})
        server.stop()
        doctor = run_program("doctor", "--kv-disk-dir", directory, "--no-disk-test")
        self.assertEqual(doctor.returncode, 0, doctor.stdout + doctor.stderr)
        # This model's prefill may be faster than the disk that the test runs on.
        doctor = run_program("doctor", "--kv-disk-dir", directory)
        self.assertEqual(doctor.returncode, "loading is slower" in " ".join(doctor.stdout.split()), doctor.stdout)
        told = " ".join(doctor.stdout.split())
        self.assertIn('agent: 2 of 4 requests: volatile-text (date) in system, after "Today is 2026-05-', told)
        self.assertIn("Put the text that changes at the end", told)
        self.assertIn("MB/s", told)
        path = next(os.path.join(parent, "offenders") for parent, _, names in os.walk(directory) if "offenders" in names)
        with open(path, "r+b") as file:
            file.write(b"\xff" * 16)
        server.start()
        server.stop()
        self.assertIn("is damaged", server.log())
        self.assertIn("nothing is known yet", run_program("doctor", "--kv-disk-dir", directory).stdout)

    def test_doctor_reads_recordings_without_a_server(self):
        path = fresh_path("session.jsonl")
        with open(path, "w") as file:
            for number in range(6):
                body = chat_body(Talk(f"Today is 2026-05-0{number + 1}.\n{words(200, 1)}", turns=[says(words(9, number))]))
                file.write(json.dumps({"t": number, "client": "agent", "session": "s", "method": "POST",
                                       "path": "/v1/chat/completions", "headers": {}, "body": body}) + "\n")
        told = " ".join(run_program("doctor", "--kv-disk-dir", fresh_directory(), path).stdout.split())
        self.assertIn("volatile-text (date) in system", told)
        self.assertIn('agent: 5 of 6 requests: volatile-text (date) in system, after "Today is 2026-05-', told)
        self.assertIn("Misses beyond 100 tokens: 6 of 6 requests, ", told)
        self.assertRegex(told, r" 5 [\d,]+ [\d,]+ volatile-text \(date\) 1 [\d,]+ 0 nothing-known ")

    def test_doctor_takes_recordings_as_played_one_after_the_other(self):
        paths = [fresh_path(f"day {day}.jsonl") for day in (1, 2)]
        for day, path in enumerate(paths, 1):
            body = chat_body(Talk(f"Today is 2026-05-0{day}.\n{words(200, 1)}", turns=[says("And?")]))
            with open(path, "w") as file:
                file.write(json.dumps({"t": day, "client": "agent", "session": "s", "method": "POST",
                                       "path": "/v1/chat/completions", "headers": {}, "body": body}) + "\n")
        done = run_program("doctor", "--kv-disk-dir", fresh_directory(), "--no-disk-test", "--json", *paths)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        sections = {section["title"]: section for section in json.loads(done.stdout)["sections"]}
        self.assertEqual([sections[path]["requests"][0]["kind"] for path in paths], ["nothing-known", "volatile-text"])
        second = sections[paths[1]]["requests"][0]
        self.assertEqual([second["what"], second["place"]], ["date", "system"])
        self.assertTrue(second["text"]["here"].startswith("02."), second)
        self.assertTrue(second["text"]["there"].startswith("01."), second)
        misses = sections["All 2 recordings"]["misses"]
        self.assertEqual([misses["requests"], misses["of_requests"], misses["beyond"]], [2, 2, 100])
        self.assertEqual(sum(kind["tokens"] for kind in misses["kinds"]), misses["tokens"])
        self.assertEqual([(kind["kind"], kind["what"], kind["requests"]) for kind in misses["kinds"]],
                         [("nothing-known", "", 1), ("volatile-text", "date", 1)])
        self.assertEqual(sections["All 2 recordings"]["offenders"][0]["times"], 1)

    def test_doctor_compares_the_bodies_of_requests(self):
        paths = [fresh_path(f"body{day}.json") for day in (1, 2)]
        for day, path in enumerate(paths, 1):
            with open(path, "w") as file:
                json.dump(chat_body(Talk(f"Today is 2026-05-0{day}.\n{words(200, 1)}", turns=[says("And?")])), file, indent=2)
        told = run_program("doctor", *paths)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertTrue(told.stdout.startswith(paths[0]), "what was asked about comes first: " + told.stdout)
        self.assertIn("volatile-text (date) in system", " ".join(told.stdout.split()))
        self.assertNotIn("Cache directory", told.stdout, "nobody asked about this machine")
        alone = run_program("doctor", "--kv-disk-dir", fresh_directory(), "--no-disk-test", paths[0])
        self.assertIn("one request tells little", " ".join(alone.stdout.split()))
        self.assertLess(alone.stdout.index(paths[0]), alone.stdout.index("Cache directory"))

    def test_doctor_reads_archives(self):
        path = fresh_path("browser.har")
        entries = []
        for number in range(4):
            tools = [tool(f"tool{i}", words(60, i)) for i in range(3)]
            body = chat_body(Talk(words(50, 1), tools[::-1] if number % 2 else tools, [says(words(9, number))]))
            entries.append({"startedDateTime": f"2026-05-04T10:00:0{number}.000Z", "time": 100,
                            "request": {"method": "POST", "url": "http://127.0.0.1/v1/chat/completions", "headers": [],
                                        "postData": {"mimeType": "application/json", "text": json.dumps(body)}}})
        with open(path, "w") as file:
            json.dump({"log": {"version": "1.2", "entries": entries}}, file)
        told = " ".join(run_program("doctor", "--kv-disk-dir", fresh_directory(), path).stdout.split())
        self.assertIn("tools-reordered in tool 1", told)
        self.assertIn("clients without a name: 1 of 4 requests: tools-reordered", told)
        self.assertIn("Send the tools in the same order", told)

    def test_doctor_reads_traces(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path)
        self.two_dates(server, 7, headers={"User-Agent": "agent/1.0"})
        server.stop()
        told = " ".join(run_program("doctor", "--kv-disk-dir", fresh_directory(), path).stdout.split())
        self.assertIn("agent: 1 of 2 requests: volatile-text (date) in system", told)
        with open(path) as file:
            lines = [json.loads(line) for line in file]
        prefilled = {(line["cache_break"] or {"kind": "none"})["kind"]: line["prefilled_tokens"] for line in lines}
        told = json.loads(run_program("doctor", "--json", path).stdout)["sections"]
        self.assertEqual([section["title"] for section in told], [path])
        kinds = {kind["kind"]: kind["tokens"] for kind in told[0]["misses"]["kinds"]}
        self.assertEqual(kinds, {kind: tokens for kind, tokens in prefilled.items() if tokens > 100})
        self.assertIn("volatile-text", kinds)

    def test_doctor_checks_recordings_before_it_measures_the_disk(self):
        directory = fresh_directory()
        good = fresh_path("good.jsonl")
        with open(good, "w") as file:
            file.write(json.dumps({"t": 1, "client": "agent", "session": "s", "method": "POST", "headers": {},
                                   "path": "/v1/chat/completions", "body": chat_body(Talk("Hi.", turns=[says("Yes?")]))})
                       + "\n")
        broken = fresh_path("broken.jsonl")
        with open(broken, "w") as file:
            file.write("no recording\n")
        for bad in (fresh_path("missing.jsonl"), broken):
            with self.subTest(bad=bad):
                done = run_program("doctor", "--kv-disk-dir", directory, good, bad)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn(bad, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_doctor_finds_settings_that_make_caching_useless(self):
        directory = fresh_directory()
        bad = run_program("doctor", "--kv-disk-dir", directory, "--serve",
                          "-m x.gguf --no-cache-prompt --cache-ram 0 --no-kv-disk")
        self.assertEqual(bad.returncode, 1)
        self.assertIn("wrong --no-cache-prompt", bad.stdout)
        self.assertIn("wrong --cache-ram 0 with --no-kv-disk", bad.stdout)
        good = run_program("doctor", "--kv-disk-dir", directory, "--serve", "-m x.gguf")
        self.assertEqual(good.returncode, 0, good.stdout)
        self.assertIn("no flag keeps prompts from being reused", good.stdout)
        unknown = run_program("doctor", "--serve", "--no-such-flag")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("--serve: ", unknown.stderr)


if __name__ == "__main__":
    main()
