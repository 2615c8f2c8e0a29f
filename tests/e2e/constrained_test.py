"""Constrained replies of the real program: random weights write valid JSON, whatever the schema, seed and way to ask."""

import json
import os
import sys
import time
from decimal import Decimal

from support import ServerCase, main, streamed_text, user

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "grammar"))
from validator import Validator  # noqa: E402

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"

# Each ends by itself within a few hundred tokens.
SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0,
     "maximum": 130}, "mood": {"enum": ["good", "bad", None]}}, "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"type": "number", "minimum": -1.5, "maximum": 2}, "minItems": 2, "maxItems": 4},
    {"$ref": "#/$defs/list", "$defs": {"list": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {
        "value": {"type": "boolean"}, "next": {"$ref": "#/$defs/list"}}, "required": ["value", "next"]}]}}},
    {"type": "string", "format": "date-time"},
    {"type": "string", "pattern": "^[A-Z]{2}-\\d{3}[a-f]*$", "maxLength": 12},
    {"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "integer", "minimum": 1,
                "maximum": 9}}, "required": ["kind", "radius"]},
               {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "boolean"}},
                "required": ["kind", "side"]}]},
    {"const": {"marker": "<|im_end|>", "tag": "<tool_call>"}},
]


def load(text):
    return json.loads(text, parse_float=Decimal)


def response_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, **more}}


class Constrained(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", 8192)
        cls.chat = {"messages": [user("Anything.")], "max_tokens": 1500, "temperature": 1.5}

    def test_chat_replies_are_valid(self):
        for number, schema in enumerate(SCHEMAS):
            for seed in (1, 2):
                with self.subTest(schema=number, seed=seed):
                    reply = self.one.post(CHAT, {**self.chat, "seed": seed, "response_format": response_format(schema)})
                    choice = reply["choices"][0]
                    self.assertEqual(choice["finish_reason"], "stop", choice)
                    self.assertTrue(Validator(schema).is_valid(load(choice["message"]["content"])), choice)

    def test_greedy_replies_are_valid(self):
        reply = self.one.chat([user("hi")], max_tokens=1500, response_format=response_format(SCHEMAS[0]))
        self.assertTrue(Validator(SCHEMAS[0]).is_valid(load(reply["choices"][0]["message"]["content"])))

    def test_completions_streams_and_other_ways_to_ask(self):
        schema = SCHEMAS[1]
        for more in ({"json_schema": schema}, {"response_format": response_format(schema)},
                     {"response_format": {"type": "json_object", "schema": schema}}):
            with self.subTest(more=more):
                text, finish = streamed_text(self.one, COMPLETION, {"prompt": "numbers:", "max_tokens": 1500, "seed": 3,
                                                                    "temperature": 1.0, **more})
                self.assertEqual(finish, "stop")
                self.assertTrue(Validator(schema).is_valid(load(text)), text)

    def test_any_object(self):
        text, finish = streamed_text(self.one, CHAT, {**self.chat, "max_tokens": 60, "seed": 5,
                                                      "response_format": {"type": "json_object"}})
        self.assertTrue(text.startswith("{"), text)
        if finish == "stop":
            self.assertIsInstance(load(text), dict)

    def test_the_limit_inside_json_is_a_length(self):
        schema = {"type": "array", "items": {"type": "string", "minLength": 5}, "minItems": 50}
        for stream in (False, True):
            body = {**self.chat, "max_tokens": 20, "seed": 1, "response_format": response_format(schema)}
            if stream:
                text, finish = streamed_text(self.one, CHAT, body)
            else:
                choice = self.one.post(CHAT, body)["choices"][0]
                text, finish = choice["message"]["content"], choice["finish_reason"]
            self.assertEqual(finish, "length")
            self.assertTrue(text.startswith("["), text)

    def test_no_marker_is_sampled_inside_strings(self):
        special = self.one.tokenize("<|im_start|>", special=True)[0]
        body = {"prompt": "x", "max_tokens": 30, "seed": 1, "temperature": 1.0, "return_tokens": True,
                "logit_bias": {str(special): 100}}
        free = self.one.post(COMPLETION, body)
        self.assertIn("<|im_start|>", free["choices"][0]["text"])
        held = self.one.post(COMPLETION, {**body, "json_schema": {"type": "string", "minLength": 20}})
        self.assertNotIn("<|im_start|>", held["choices"][0]["text"])
        spelled = self.one.post(COMPLETION, {**body, "grammar": 'root ::= "<|im_start|>" [a-z]'})
        self.assertRegex(spelled["choices"][0]["text"], r"^<\|im_start\|>[a-z]$")

    def test_grammars(self):
        for grammar, pattern in (('root ::= "yes" | "no"', "^(yes|no)$"), ('root ::= [a-c]{5} "\\n" item+\nitem ::= "- " [0-9]',
                                                                          "^[a-c]{5}\n(- [0-9])+$")):
            reply = self.one.post(COMPLETION, {"prompt": "x", "max_tokens": 200, "seed": 1, "grammar": grammar})
            self.assertRegex(reply["choices"][0]["text"], pattern)

    def test_seeds_repeat_and_the_cache_changes_nothing(self):
        body = {**self.chat, "seed": 11, "response_format": response_format(SCHEMAS[0])}
        replies = {self.one.post(CHAT, {**body, "cache_prompt": cached})["choices"][0]["message"]["content"]
                   for cached in (False, True, True)}
        self.assertEqual(len(replies), 1, replies)

    def test_refusals_name_the_place(self):
        def refused(contains, **fields):
            error = self.assert_refused(400, self.one.post, CHAT, {**self.chat, **fields})
            self.assertIn(contains, error["message"])

        refused("response_format.json_schema.schema.properties.x: 'not' cannot be enforced",
                response_format=response_format({"properties": {"x": {"not": {}}}}))
        refused("json_schema: 'if' cannot be enforced", json_schema={"if": {}})
        refused("'grammar': line 1: there is no rule 'x'", grammar="root ::= x")
        refused("'grammar': rule 'root' begins with itself", grammar="root ::= root [a]")
        refused("cannot both be set", grammar="root ::= [a]", json_schema={})
        # Left out, where the client does not insist.
        reply = self.one.post(CHAT, {**self.chat, "response_format": response_format(
            {"type": "array", "items": {"type": "boolean"}, "maxItems": 2, "uniqueItems": True}, strict=False)})
        self.assertIsInstance(load(reply["choices"][0]["message"]["content"]), list)
        self.assertNotIn("expecting", self.one.log())  # what libllama would print

    def test_a_grammar_that_leads_nowhere_ends_only_its_request(self):
        digits = {self.one.tokenize(str(digit))[0] for digit in range(10)}
        body = {"prompt": "x", "max_tokens": 20, "seed": 1, "grammar": "root ::= [0-9]"}
        error = self.assert_refused(400, self.one.post, COMPLETION,
                                    {**body, "logit_bias": [[digit, False] for digit in digits]})
        self.assertIn("grammar", error["message"])
        self.assertRegex(self.one.post(COMPLETION, body)["choices"][0]["text"], "^[0-9]$")

    def test_hostile_ones_are_refused_quickly(self):
        deep = True
        for _ in range(60):
            deep = {"type": "array", "items": {"anyOf": [deep, deep]}}
        chain = "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1} [x] | a{i + 1} [y]\n" for i in range(60)) + "a60 ::= [z]"
        for fields in ({"json_schema": {"type": "string", "maxLength": 10**9}}, {"grammar": "root ::= " + "(" * 50_000},
                       {"grammar": chain}, {"grammar": "root ::= [a]{1999}" * 500},
                       {"json_schema": {"properties": {f"p{i}": {} for i in range(9_000)}}}):
            begin = time.monotonic()
            self.assert_refused(400, self.one.post, CHAT, {**self.chat, **fields})
            self.assertLess(time.monotonic() - begin, 5)


if __name__ == "__main__":
    main()
