"""Calls of tools from the real program: random weights, whose calls a grammar forces, in several formats."""

import json

from support import ServerCase, main, streamed_text, user  # noqa: F401

CHAT = "/v1/chat/completions"


def tool(name, properties, **more):
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


LOOK = tool("look", {"where": {"type": "string", "enum": ["left", "right"]}, "far": {"type": "boolean"}})
STOP = tool("stop", {})


class Calls(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server()

    def ask(self, **fields):
        body = {"messages": [user("hi")], "tools": [LOOK, STOP], "max_tokens": 300, "temperature": 1, "seed": 3, **fields}
        return self.one.post(CHAT, body)["choices"][0]

    def check(self, call):
        self.assertEqual(call["type"], "function")
        self.assertTrue(call["id"].startswith("call_"))
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "look":
            self.assertIn(arguments["where"], ("left", "right"))
            self.assertIn(arguments["far"], (True, False))
        else:
            self.assertEqual((call["function"]["name"], arguments), ("stop", {}))

    def test_a_call_is_required(self):
        for seed in range(4):
            choice = self.ask(tool_choice="required", parallel_tool_calls=False, seed=seed)
            self.assertEqual(choice["finish_reason"], "tool_calls")
            self.assertIsNone(choice["message"]["content"])
            self.assertEqual(len(choice["message"]["tool_calls"]), 1)
            self.check(choice["message"]["tool_calls"][0])

    def test_the_order_of_keys_does_not_matter(self):
        other = json.loads(json.dumps([LOOK, STOP], sort_keys=True))
        other[0]["function"]["parameters"]["properties"] = dict(
            reversed(other[0]["function"]["parameters"]["properties"].items()))
        self.assertNotEqual(json.dumps(other), json.dumps([LOOK, STOP]))
        body = {"messages": [user("how far is it")], "tools": [LOOK, STOP], "max_tokens": 1}
        self.one.post(CHAT, body)
        self.assertEqual(self.one.post(CHAT, {**body, "tools": other})["timings"]["prompt_n"], 1)

    def test_a_tool_is_named(self):
        for name in ("look", "stop"):
            choice = self.ask(tool_choice={"type": "function", "function": {"name": name}})
            self.assertEqual([call["function"]["name"] for call in choice["message"]["tool_calls"]], [name])

    def test_a_stream_has_the_same_calls(self):
        fields = {"messages": [user("hi")], "tools": [LOOK, STOP], "tool_choice": "required", "max_tokens": 300,
                  "parallel_tool_calls": False, "seed": 5, "temperature": 1}
        whole = self.one.post(CHAT, fields)["choices"][0]["message"]["tool_calls"][0]["function"]
        calls, finish = {}, None
        for _, event in self.one.stream(CHAT, {**fields, "stream": True}):
            if event == "[DONE]":
                break
            for choice in event["choices"]:
                finish = choice["finish_reason"] or finish
                for delta in choice["delta"].get("tool_calls", []):
                    call = calls.setdefault(delta["index"], {"arguments": ""})
                    call["id"] = delta.get("id") or call["id"]
                    call["name"] = delta["function"].get("name") or call.get("name")
                    call["arguments"] += delta["function"]["arguments"]
        self.assertEqual(finish, "tool_calls")
        self.assertEqual(list(calls), [0])
        self.assertEqual((calls[0]["name"], calls[0]["arguments"]), (whole["name"], whole["arguments"]))

    def test_arguments_come_while_they_are_written(self):
        body = {"messages": [user("hi")], "tools": [LOOK], "tool_choice": "required", "max_tokens": 300,
                "parallel_tool_calls": False, "seed": 5, "temperature": 1, "stream": True}
        deltas = []
        for _, event in self.one.stream(CHAT, body):
            for choice in event["choices"] if event != "[DONE]" else ():
                deltas += [call["function"]["arguments"] for call in choice["delta"].get("tool_calls", [])]
        self.assertGreater(len(deltas), 5, deltas)
        for count in range(1, len(deltas)):
            with self.assertRaises(ValueError):
                json.loads("".join(deltas[:count]))
        self.assertEqual(set(json.loads("".join(deltas))), {"where", "far"})

    def test_markers_are_no_letters_of_an_argument(self):
        say = tool("say", {"text": {"type": "string", "minLength": 20, "maxLength": 60}})
        body = {"messages": [user("hi")], "tools": [say], "seed": 1, "temperature": 1}
        for spelling in ("<|im_start|>", "<|User|>", "<tool_response>"):
            with self.subTest(marker=spelling):
                (marker,) = self.one.tokenize(spelling, special=True)
                likely = {**body, "logit_bias": {str(marker): 100}}
                free = self.one.post(CHAT, {**likely, "max_tokens": 3, "return_tokens": True})
                self.assertEqual(free["tokens"], [marker] * 3)
                choice = self.one.post(CHAT, {**likely, "tool_choice": "required", "parallel_tool_calls": False,
                                              "max_tokens": 200})["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls", choice)
                (call,) = choice["message"]["tool_calls"]
                text = json.loads(call["function"]["arguments"])["text"]
                self.assertGreaterEqual(len(text), 20)
                self.assertNotIn(spelling, text)

    def test_a_call_cut_by_the_length_is_incomplete(self):
        say = tool("say", {"text": {"type": "string", "minLength": 400}})
        body = {"messages": [user("hi")], "tools": [say], "tool_choice": "required", "max_tokens": 60, "seed": 1,
                "temperature": 1}
        choice = self.one.post(CHAT, body)["choices"][0]
        self.assertEqual(choice["finish_reason"], "length")
        (call,) = choice["message"]["tool_calls"]
        self.assertEqual(call["function"]["name"], "say")
        self.assertTrue(call["function"]["arguments"].startswith("{"), call)
        with self.assertRaises(ValueError):
            json.loads(call["function"]["arguments"])

    def test_a_call_cut_before_its_arguments_is_text(self):
        choice = self.ask(tool_choice="required", max_tokens=3)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertNotIn("tool_calls", choice["message"])
        self.assertTrue(choice["message"]["content"].startswith("<t"), choice)

    def test_a_turn_goes_on_after_a_call(self):
        call = self.ask(tool_choice="required", parallel_tool_calls=False)["message"]["tool_calls"][0]
        messages = [user("hi"), {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": call["id"], "content": "seen"}]
        reply = self.one.post(CHAT, {"messages": messages, "tools": [LOOK, STOP], "max_tokens": 2})
        self.assertGreater(reply["usage"]["prompt_tokens_details"]["cached_tokens"], 20)

    def test_calls_that_cannot_be_forced_are_refused(self):
        body = {"messages": [user("hi")], "tools": [LOOK]}
        self.assert_refused(400, self.one.post, CHAT, {**body, "tool_choice": "maybe"}, contains="tool_choice")
        self.assert_refused(400, self.one.post, CHAT, {"messages": [user("hi")], "tool_choice": "required"},
                            contains="no 'tools'")
        named = {"type": "function", "function": {"name": "walk"}}
        self.assert_refused(400, self.one.post, CHAT, {**body, "tool_choice": named}, contains="walk")
        odd = tool("odd", {"a": {"not": {"type": "string"}}})
        self.assert_refused(400, self.one.post, CHAT, {**body, "tools": [odd], "tool_choice": "required"},
                            contains="odd")

    def test_other_formats(self):
        for name in ("qwen3-coder", "glm", "llama3", "mistral", "kimi", "dsml", "deepseek", "minimax"):
            with self.subTest(format=name):
                server = self.server("--tool-format", name)
                body = {"messages": [user("hi")], "tools": [LOOK, STOP], "max_tokens": 300, "tool_choice": "required",
                        "parallel_tool_calls": False, "seed": 1, "temperature": 1}
                choice = server.post(CHAT, body)["choices"][0]
                self.assertEqual(choice["finish_reason"], "tool_calls", choice)
                arguments = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
                self.assertIsInstance(arguments, dict)


if __name__ == "__main__":
    main()
