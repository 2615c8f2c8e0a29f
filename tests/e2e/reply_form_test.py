"""The form and the biases that flags give to replies whose requests say nothing of it."""

import json

from flag_case import COMPLETION, FlagCase, covers
from support import fresh_path, main, run_program, serve_command, user

CHAT = "/v1/chat/completions"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
COLOUR = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}


def written(text):
    path = fresh_path("form")
    with open(path, "w") as file:
        file.write(text)
    return path


class ReplyForm(FlagCase):
    def chat(self, server, **fields):
        reply = server.post(CHAT, {"messages": [user("hi")], "max_tokens": 60, "temperature": 1, "seed": 3, **fields})
        return reply["choices"][0]["message"]

    @covers("--grammar")
    def test_replies_keep_to_the_grammar_unless_the_request_has_a_form_of_its_own(self):
        server = self.server("--grammar", 'root ::= "yes" | "no"')
        one = ("yes", "no")
        self.assertIn(server.post(COMPLETION, {"prompt": "x", "max_tokens": 9})["choices"][0]["text"], one)
        self.assertIn(server.post("/completion", {"prompt": "x", "n_predict": 9, "grammar": ""})["content"], one)
        self.assertIn(self.chat(server)["content"], one)
        self.assertIn(self.chat(server, response_format={"type": "text"})["content"], one)
        self.assertIn(self.chat(server, tools=[TOOL], tool_choice="none")["content"], one)
        message = server.post("/v1/messages", {"model": "m", "messages": [user("hi")], "max_tokens": 60})
        self.assertIn(message["content"][0]["text"], one)
        self.assertIn(server.post("/v1/responses", {"input": "hi"})["output"][0]["content"][0]["text"], one)
        own = {"type": "json_schema", "json_schema": {"name": "reply", "schema": COLOUR}}
        self.assertIn(json.loads(self.chat(server, response_format=own)["content"])["colour"], ("red", "blue"))
        self.assertEqual(self.chat(server, grammar='root ::= "maybe"')["content"], "maybe")
        # Whatever a random model writes with tools, it is not held to the server's grammar.
        self.assertNotIn(self.chat(server, tools=[TOOL])["content"], one)
        call = self.chat(server, tools=[TOOL], tool_choice="required", max_tokens=200)
        self.assertEqual(call["tool_calls"][0]["function"]["name"], "look")

    @covers("--grammar-file", "--json-schema", "--json-schema-file")
    def test_the_other_ways_to_give_a_form(self):
        for flags in (("-j", json.dumps(COLOUR)), ("-jf", written(json.dumps(COLOUR)))):
            with self._make(self._logs, flags, {}) as server:
                self.assertIn(json.loads(self.chat(server)["content"])["colour"], ("red", "blue"))
        with self._make(self._logs, ("--grammar-file", written('root ::= "one\\n" "two"\n')), {}) as server:
            self.assertEqual(self.chat(server)["content"], "one\ntwo")

    def test_a_form_that_cannot_be_kept_ends_the_start(self):
        for flags, part in ((("--grammar", "root ::= x"), "'--grammar': line 1: there is no rule 'x'"),
                            (("--grammar-file", "/no/such"), "--grammar-file /no/such"),
                            (("--grammar-file", written("root = x")), "'--grammar-file': line 1"),
                            (("-j", "{"), "--json-schema: not a JSON object"),
                            (("-j", '{"not": {}}'), "--json-schema: 'not' cannot be enforced"),
                            (("-jf", written("[]")), "--json-schema-file: not a JSON object"),
                            (("-j", "{}", "--grammar", "root ::= [a]"), "leave all but one out")):
            with self.subTest(flags=flags):
                run = run_program(*serve_command("--no-kv-disk", "--port", "0", *flags)[1:])
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn(part, run.stderr)

    @covers("--logit-bias")
    def test_biases_hold_where_a_request_has_none(self):
        server = self.server("-l", "300+1000", "-l", "301+2000", "-l", "301-inf")
        body = {"prompt": "x", "n_predict": 4, "return_tokens": True, "temperature": 1}
        self.assertEqual(server.post("/completion", body)["tokens"], [300] * 4)
        self.assertEqual(server.post("/completion", {**body, "logit_bias": [[302, 1000]]})["tokens"], [302] * 4)
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "-l", "99999999+1")[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("--logit-bias: the model has no token 99999999", run.stderr)


if __name__ == "__main__":
    main()
