"""Flags about chats do what their rows in docs/flags.md say."""

from flag_case import FlagCase, covers
from support import fresh_path, main, user

TEMPLATE = """{%- for message in messages %}{{- message.role + ': ' + message.content + '\\n' }}{%- endfor %}
{{- 'thinking=' + (enable_thinking | string if enable_thinking is defined else 'unset') }}
{{- ' effort=' + (reasoning_effort if reasoning_effort is defined else 'unset') }}
{{- ' preserve=' + (preserve_thinking | string if preserve_thinking is defined else 'unset') }}
{{- ' color=' + (color if color is defined else 'unset') }}
{%- if false %}<think></think>{{ tools }}<tool_call>{%- endif %}"""


class Chats(FlagCase):
    @classmethod
    def template(cls):
        path = fresh_path("template.jinja")
        with open(path, "w") as file:
            file.write(TEMPLATE)
        return path

    def prompt(self, *flags, **fields):
        with self._make(self._logs, ("--chat-template-file", self.template(), *flags), {}) as server:
            return self.prompt_of(server, **fields)

    def prompt_of(self, server, **fields):
        text = server.post("/apply-template", {"messages": [user("hi")], **fields})["prompt"]
        return dict(pair.split("=") for pair in text.splitlines()[-1].split())

    @covers("--reasoning", "--reasoning-effort", "--chat-template-kwargs", "--reasoning-preserve")
    def test_flags_set_the_templates_variables(self):
        said = self.prompt()
        self.assertEqual((said["thinking"], said["effort"], said["color"]), ("unset", "unset", "unset"))
        self.assertEqual(said["preserve"].lower(), "true")
        flags = ["--reasoning", "off", "--reasoning-effort", "low", "--no-reasoning-preserve",
                 "--chat-template-kwargs", '{"color":"red"}']
        said = self.prompt(*flags)
        self.assertEqual((said["thinking"].lower(), said["preserve"].lower()), ("false", "false"))
        self.assertEqual((said["effort"], said["color"]), ("low", "red"))

    def test_requests_say_otherwise(self):
        said = self.prompt("--reasoning", "off", "--reasoning-effort", "low", "--chat-template-kwargs", '{"color":"red"}',
                           chat_template_kwargs={"color": "blue", "enable_thinking": True}, reasoning_effort="high")
        self.assertEqual((said["thinking"].lower(), said["effort"], said["color"]), ("true", "high", "blue"))

    @covers("--reasoning-budget")
    def test_reasoning_budget(self):
        self.assertEqual(self.prompt("--reasoning-budget", "0")["thinking"].lower(), "false")
        self.assertEqual(self.prompt("--reasoning-budget", "-1")["thinking"], "unset")

    def open_thought(self, *flags):
        """A server whose template opens a thought, and what closes it."""
        path = fresh_path("thinks.jinja")
        with open(path, "w") as file:
            file.write(TEMPLATE + "{{- '\\n<think>\\n' }}")
        server = self.server("--chat-template-file", path, *flags)
        (close,) = server.post("/tokenize", {"content": "</think>"})["tokens"]
        return server, close

    def test_a_thought_ends_with_its_budget(self):
        server, close = self.open_thought("--reasoning-budget", "5")
        # The model itself would never close it.
        body = {"messages": [user("hi")], "max_tokens": 12, "temperature": 1, "seed": 1, "return_tokens": True,
                "ignore_eos": True, "logit_bias": [[close, False]]}
        for said, length in (({}, 5), ({"thinking_budget_tokens": 2}, 2), ({"thinking_budget_tokens": 0}, 0),
                             ({"thinking_budget_tokens": 50}, None), ({"thinking_budget_tokens": -1}, 5)):
            with self.subTest(said=said):
                reply = server.post("/v1/chat/completions", {**body, **said})
                message = reply["choices"][0]["message"]
                places = [at for at, token in enumerate(reply["tokens"]) if token == close]
                self.assertEqual(places, [] if length is None else [length])
                self.assertEqual(reply["usage"]["completion_tokens"], 12)
                self.assertEqual(message["content"] == "", length is None, message)
                self.assertEqual("reasoning_content" in message, length != 0, message)
        self.assert_refused(400, server.post, "/v1/chat/completions", {**body, "thinking_budget_tokens": "x"},
                            contains="thinking_budget_tokens")
        reply = server.post("/v1/messages", {**body, "model": "m", "thinking": {"type": "enabled", "budget_tokens": 3}})
        self.assertEqual([block["type"] for block in reply["content"]], ["thinking", "text"])

    @covers("--reasoning-budget-message")
    def test_the_last_words_of_a_thought_that_is_cut_off(self):
        server, close = self.open_thought("--reasoning-budget", "3", "--reasoning-budget-message", " Time is up.")
        body = {"messages": [user("hi")], "max_tokens": 40, "temperature": 1, "seed": 1, "ignore_eos": True,
                "logit_bias": [[close, False]]}
        for said, is_cut in (({}, True), ({"thinking_budget_tokens": 0}, True), ({"thinking_budget_tokens": 90}, False)):
            with self.subTest(said=said):
                message = server.post("/v1/chat/completions", {**body, **said})["choices"][0]["message"]
                self.assertEqual(message["reasoning_content"].endswith("Time is up."), is_cut, message)
                self.assertEqual(bool(message["content"]), is_cut, message)

    def test_a_client_ends_a_thought(self):
        server, close = self.open_thought()
        control = "/v1/chat/completions/control"
        body = {"messages": [user("hi")], "max_tokens": 900, "temperature": 1, "seed": 1, "stream": True,
                "ignore_eos": True, "logit_bias": [[close, False]]}
        for wish, ends in ({"reasoning_control": True}, True), ({}, False):
            with self.subTest(ends=ends):
                thought, answered, asked = 0, 0, False
                for _, event in server.stream("/v1/chat/completions", {**body, **wish}):
                    delta = event["choices"][0]["delta"]
                    thought += "reasoning_content" in delta
                    answered += bool(delta.get("content"))
                    if thought >= 20 and not asked:
                        asked = True
                        end = {"id": event["id"], "action": "reasoning_end"}
                        self.assertEqual(server.post(control, end)["success"], ends)
                    if answered >= 10 or thought >= 600:
                        break
                self.assertEqual((answered >= 10, thought < 600), (ends, ends))
        self.assert_refused(400, server.post, control, {"id": "x", "action": "stop"}, contains="reasoning_end")
        self.assert_refused(400, server.post, control, {"action": "reasoning_end"}, contains="'id'")

    def test_inserted_tokens_come_back_with_their_turn(self):
        server, close = self.open_thought()
        body = {"messages": [user("hi")], "max_tokens": 12, "temperature": 1, "seed": 1, "thinking_budget_tokens": 4,
                "ignore_eos": True, "logit_bias": [[close, False]]}
        whole = server.post("/v1/chat/completions", body)["choices"][0]["message"]
        deltas = [event["choices"][0]["delta"]
                  for _, event in server.stream("/v1/chat/completions", {**body, "stream": True}) if event != "[DONE]"]
        for name in ("content", "reasoning_content"):
            self.assertEqual("".join(delta.get(name) or "" for delta in deltas), whole[name])

    def thinks(self, *flags):
        """The reply of a model that writes nothing but <think>."""
        server = self.server("--chat-template-file", self.template(), *flags)
        think = server.post("/tokenize", {"content": "<think>"})["tokens"]
        self.assertEqual(len(think), 1)
        body = {"messages": [user("hi")], "max_tokens": 3, "temperature": 0, "logit_bias": [[think[0], 100]]}
        message = server.post("/v1/chat/completions", body)["choices"][0]["message"]
        return message["content"], message.get("reasoning_content")

    @covers("--reasoning-format", "--skip-chat-parsing")
    def test_where_thoughts_go(self):
        three = "<think>" * 3
        for flags, expected in ((["--reasoning-format", "deepseek"], ("", "<think>" * 2)),
                                (["--reasoning-format", "none"], (three, None)),
                                (["--reasoning-format", "deepseek-legacy"], (three, "<think>" * 2)),
                                (["--skip-chat-parsing"], (three, None))):
            with self.subTest(flags=flags):
                self.assertEqual(self.thinks(*flags), expected)

    @covers("--tool-format")
    def test_tool_format(self):
        for flags, name in (([], "hermes"), (["--tool-format", "kimi"], "kimi"), (["--tool-format", "auto"], "hermes")):
            with self.subTest(flags=flags):
                server = self.server("--chat-template-file", self.template(), "-lv", 4, *flags)
                self.assertIn(f"tool calls as {name}", server.log())


if __name__ == "__main__":
    main()
