"""Edits are told from news, each kind of text that changes has its name, and no client or tenant learns of another's text:
through each dialect. explain_test.py makes the other kinds."""

import json

from explain_case import ALL, CHATS, EXPLAIN, QWEN, ExplainCase, Talk, answers, calls, returns, says, tool
from support import fresh_directory, fresh_path, main, model, segments, wait_until, words

BILLING = "x-anthropic-billing-header: cc_version=2.SEED.0.{}; cc_entrypoint=cli;"
GIT = "gitStatus: as it was at the start.\nCurrent branch: main\n\nStatus:\n{}"
# The kind of text, a line that holds it, and two forms of it.
VOLATILE = (("billing-line", BILLING, ("abc", "e1f")), ("git-status", GIT, ("(clean)", " M src/app.py\n?? notes.txt")),
            ("date", "Today is {}.", ("Monday, May 4", "Tuesday, May 5")), ("time", "It is {} now.", ("17:05", "18:11")),
            ("number", "The process has the number {}.", ("4711", "9283")),
            ("text", "The user's name is {}.", ("Ann", "Bob Miller", "Cy")))


REMINDER = "\n<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"
EDIT = {"file_path": "src/app.py", "old_string": "def first():\n    return the + old + words\n\n\ndef second():",
        "new_string": "def first(self):\n    return other + new + lines\n\n\ndef second(self):"}


def small_tools(*names):
    return [(name, f"does {name}", {"type": "object", "properties": {}}) for name in names]


def edits(seed):
    """Small changes of a client: {name: (fields of the first request, those of the second one, kind, place)}."""
    text, described = words(60, seed), words(60, seed + 1)
    tools = [tool(name, described) for name in ("read", "find")]
    return {
        "a call without its last argument": (
            {"call": '{"command": "ls", "timeout": 120000}'}, {"call": '{"command": "ls"}'}, "call-reserialised", "calls of message 3"),
        "a call with another form of a number": (
            {"call": '{"timeout": 1000}'}, {"call": '{"timeout": 1000.0}'}, "call-reserialised", "calls of message 3"),
        "a call with its arguments the other way round": (
            {"call": json.dumps(EDIT)}, {"call": json.dumps(dict(reversed(EDIT.items())))}, "call-reserialised", "calls of message 3"),
        "a system text without its last sentence": (
            {"system": f"{text} Be brief."}, {"system": text}, "message-changed", "system"),
        "a question without its reminder": (
            {"question": text + REMINDER}, {"question": text}, "message-changed", "message 2 (user)"),
        "a result without its reminder": (
            {"result": text + REMINDER}, {"result": text}, "message-changed", "message 4 (tool result)"),
        "a short result emptied": (
            {"result": "done"}, {"result": ""}, "message-changed", "message 4 (tool result)"),
        "an answer without its end": (
            {"answer": f"{text} So be it."}, {"answer": text}, "message-changed", "message 5 (assistant)"),
        "an answer without its blank": (
            {"answer": f"{text} "}, {"answer": text}, "message-changed", "message 5 (assistant)"),
        "a thought that ends earlier": (
            {"thought": f"{text} or so"}, {"thought": text}, "message-changed", "thinking of message 3"),
        "a tool put in before one of the same schema": (
            {"tools": tools}, {"tools": [tool("look", described), *tools]}, "tools-changed", "tool 1"),
        "three small tools in another order": (
            {"tools": small_tools("a", "b", "c")}, {"tools": small_tools("c", "b", "a")}, "tools-reordered", "tool 1"),
    }


def edited(seed, system="Be kind.", tools=(), question="look", thought=None, call='{"path": "a"}', result="done", answer="yes"):
    turns = [says(f"{question}"), calls(call, thinking=thought), returns(result)]
    if thought:  # templates show it up to the next question
        turns[-1] = returns(words(150, seed + 2))
    else:
        turns += [answers(answer), says(words(150, seed + 2))]
    return Talk(f"{words(30, seed + 3)} {system}", tools or [tool("read", "reads")], turns)


class ExplainNews(ExplainCase):
    def test_small_changes_of_a_client(self):
        server = self.server(*QWEN, "--no-prefill-ahead")
        for dialect in CHATS:
            for named in (False, True):
                for name in edits(0):
                    seed = self.seed()
                    first, second, kind, place = edits(seed)[name]
                    headers = {"X-Session-Id": f"s{seed}"} if named else None
                    with self.subTest(name, dialect=dialect, named=named):
                        found = self.break_of(server, dialect, edited(seed, **first), edited(seed, **second), headers=headers)
                        self.assertEqual((found["kind"], found["place"]), (kind, place), found)
                        self.assertGreater(found["lost_tokens"], 100)

    def test_each_kind_of_text_that_changes(self):
        server = self.server("--stabilize", "none")
        for dialect in ALL:
            for what, line, forms in VOLATILE:
                seed = self.seed()
                # The billing line is the first line of a system text.
                above = "" if what == "billing-line" else words(40, seed) + "\n"
                texts = [line.replace("SEED", str(seed)).format(form) for form in forms]
                talks = [Talk(f"{above}{text}\n{words(200, seed + 1)}", turns=[says("go on")]) for text in texts]
                with self.subTest(dialect=dialect, what=what):
                    found = self.break_of(server, dialect, *talks)
                    self.assertEqual((found["kind"], found["what"]), ("volatile-text", what))
                    self.assertGreater(found["lost_tokens"], 180)
                    self.assertTrue(found["advice"])

    def test_a_version_is_no_date(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            seed = self.seed()
            talks = [Talk("Be kind.", [tool("read", "reads")],
                          [says(words(60, seed)), calls('{"path": "a"}'), returns(f'VERSION = "0.{version}.0"\n{words(60, 2)}'),
                           answers(words(80, 3)), says("and now?")]) for version in (1, 2)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *talks)
                self.assertEqual((found["kind"], found["place"]), ("new-content", "message 4 (tool result)"))
                self.assertGreater(found["lost_tokens"], 100)
                self.assertIn("tool", found["advice"])

    def test_a_summary_is_an_edit_within_its_conversation(self):
        server = self.server()
        for dialect in CHATS:
            for first, second, kind in (("a", "a", "message-changed"), ("a", "b", "new-content"),
                                        ("a", None, "new-content")):
                seed = self.seed()
                rest = [answers(words(150, seed + 1)), says("and now?")]
                talks = [Talk(words(60, seed), turns=[says(words(count, seed + count)), *rest]) for count in (120, 40)]
                names = [{"X-Session-Id": f"{name}-{seed}"} if name else {} for name in (first, second)]
                with self.subTest(dialect=dialect, sessions=(first, second)):
                    self.ask(server, dialect, talks[0], headers=names[0])
                    found = self.break_of(server, dialect, talks[1], headers=names[1])
                    self.assertEqual((found["kind"], found["place"]), (kind, "message 2 (user)"))
                    self.assertGreater(found["lost_tokens"], 100)

    def test_agents_of_one_session_are_conversations_of_their_own(self):
        server = self.server()
        for dialect in CHATS:
            seed = self.seed()
            turns = [[says(words(50, seed + i)), answers(words(150, seed)), says("so?")] for i in (1, 2)]
            with self.subTest(dialect=dialect):
                for number, one in enumerate(turns):
                    found = self.break_of(server, dialect, Talk(words(80, seed), turns=one),
                                          headers={"X-Claude-Code-Session-Id": f"s-{seed}",
                                                   "X-Claude-Code-Agent-Id": f"agent-{seed}-{number}"})
                self.assertEqual((found["kind"], found["place"]), ("new-content", "message 2 (user)"))

    def test_another_agent_with_the_same_tools(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            seed = self.seed()
            tools = [tool(f"tool{i}", words(60, seed + i)) for i in range(4)]
            agents = [Talk(f"{words(30, seed)} {words(count, seed + count)}", tools, [says("go on")]) for count in (200, 300)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, *agents)
                self.assertEqual((found["kind"], found["place"]), ("new-content", "system"))
                self.assertGreater(found["lost_tokens"], 200)
                self.assertIn("put it first", found["advice"])

    def test_tools_that_are_left_out(self):
        server = self.server(*QWEN)
        for dialect in CHATS:
            seed = self.seed()
            tools = [tool(f"tool{i}", f"{words(60, seed + i)} {words(30, seed + 50 + i % 2)}") for i in range(6)]
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, Talk("Be kind.", tools, [says(words(20, 1))]),
                                      Talk("Be kind.", [tools[0], *tools[2:4], tools[5]], [says(words(20, 1))]))
                self.assertEqual((found["kind"], found["place"]), ("tools-changed", "tool 2"))
                self.assertGreater(found["lost_tokens"], 200)

    # ---- state that is not there any more ----

    def test_another_model(self):
        directory = fresh_directory()
        for number, (seed, kinds) in enumerate(((1, ("nothing-known",)), (2, ("other-settings",)))):
            server = self.server("--kv-disk-dir", directory, model_path=model("--seed", str(seed)))
            for other, dialect in enumerate(ALL):
                with self.subTest(dialect=dialect, model=number):
                    found = self.break_of(server, dialect, Talk(words(200, 177 + other), turns=[says("hello")]))
                    self.assertIn(found["kind"], kinds)
            server.stop()

    def assert_cleared(self, found):
        self.assertEqual((found["kind"], found.get("lost", {}).get("cause")), ("evicted", "forgotten"), found)
        self.assertGreater(found["lost"]["t"], 1e9)
        self.assertGreater(found["lost_tokens"], 100)

    def test_state_that_somebody_cleared(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        talks = {dialect: Talk(words(150, self.seed()), turns=[says("hello")]) for dialect in ALL}
        for dialect, talk in talks.items():
            self.ask(server, dialect, talk)
        wait_until(lambda: len(segments(directory)) >= len(ALL), "a segment of each prompt")
        server.post("/cache/clear", {"all": True})
        for dialect, talk in talks.items():
            with self.subTest(dialect=dialect):
                self.assert_cleared(self.break_of(server, dialect, talk))

    def test_state_that_somebody_cleared_while_it_was_written(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        for dialect in [*ALL] * 3:
            talk = Talk(words(150, self.seed()), turns=[says("hello")])
            with self.subTest(dialect=dialect):
                self.ask(server, dialect, talk)
                server.post("/cache/clear", {"all": True})
                self.assert_cleared(self.break_of(server, dialect, talk))

    # ---- whose text is shown ----

    def other_sides(self, server, dialect, seed, secrets, first, second, fields):
        """What the second of two clients is told, whose prompts differ in a secret word."""
        talks = [Talk(f"{words(60, seed)} the password is {secret} {words(120, seed + 1)}", turns=[says("go on")])
                 for secret in secrets]
        self.ask(server, dialect, talks[0], headers=first, **fields[0])
        reply = self.ask(server, dialect, talks[1], headers=second, **fields[1])
        listed = server.get(EXPLAIN, headers=second)
        one = server.get(f"{EXPLAIN}/{listed['requests'][0]['id']}", headers=second)
        return reply, json.dumps([reply["timings"], listed, one])

    def test_no_key_learns_of_the_text_of_another(self):
        keys = fresh_path("keys")
        with open(keys, "w") as file:
            file.write("one\ntwo\n")
        server = self.server("--api-key-file", keys, "--explain-text")
        first, second = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
        for dialect in ALL:
            with self.subTest(dialect=dialect):
                reply, told = self.other_sides(server, dialect, self.seed(), ("apple", "zebra"), first, second, ({}, {}))
                found = reply["timings"]["cache_break"]
                self.assertEqual(found["kind"], "message-changed")
                self.assertIsNone(found["text"]["there"])
                self.assertNotIn("apple", told)

    def test_no_tenant_learns_of_another(self):
        server = self.server("--explain-text")
        for dialect in ALL:
            with self.subTest(dialect=dialect):
                salted = {"X-Cache-Salt": "two"}
                reply, told = self.other_sides(server, dialect, self.seed(), ("apple", "zebra"), {}, salted,
                                               ({"cache_salt": "one"}, {"cache_salt": "two"}))
                found = reply["timings"]["cache_break"]
                self.assertEqual((found["kind"], found["lost_tokens"]), ("nothing-known", 0))
                self.assertNotIn("text", found)
                self.assertNotIn("apple", told)


if __name__ == "__main__":
    main()
