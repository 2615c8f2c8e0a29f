"""Turns that clients send back in other words than were sampled, and turns that the template writes anew: what follows
them pays for what is new alone, also after a restart.

The models here may generate any id (--free-output), so their text rarely tokenizes to the ids that were sampled.
"""

import json
import os

from flag_case import covers
from support import (ServerCase, assistant, files_under, fresh_directory, fresh_path, main, model, timings, user,
                     wait_until, words)

# History in brackets: no turn says there what was sampled.
BRACKETS = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.role == 'assistant' -%}{{- '(' + message.content + ')' -}}{%- else -%}{{- message.content -}}{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""


# White space at both ends, which clients cut off, and an end.
GRAMMAR = 'root ::= " " [a-z]{40} "  "'


class SampledTurns(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.model_path = model("--free-output")

    def serve(self, *flags, **keywords):
        return self.server("--restore", "always", "--match", "token", *flags, model_path=self.model_path, **keywords)

    def ending(self, server):
        """A reply that the template's own marker ends."""
        [end] = server.post("/tokenize", {"content": "<|im_end|>", "parse_special": True})["tokens"]
        return {"grammar": GRAMMAR, "logit_bias": [[end, 50]]}

    def first_turn(self, server, stream=False):
        """A conversation after its first answer, as its client sends it back, and the tokens of prompt and answer."""
        messages = [user(words(120, 1))]
        reply = server.chat(messages, seed=7, return_tokens=True, **self.ending(server))
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        said = reply["choices"][0]["message"]["content"]
        self.assertNotEqual(said, said.strip())
        messages += [assistant(said.strip()), user(words(10, 2))]
        return messages, reply["usage"]["prompt_tokens"] + len(reply["tokens"])

    def cached(self, server, messages):
        return timings(server.chat(messages, max_tokens=4))["cache_n"]

    def test_a_turn_is_in_the_next_prompt_as_it_was_sampled(self):
        server = self.serve()
        messages, tokens = self.first_turn(server)
        # The last id was never evaluated.
        self.assertEqual(self.cached(server, messages), tokens - 1)

    def cut_turn(self, server, **body):
        """The same, of a reply that something else ends; its tokens are those before the last, which is not evaluated."""
        messages = [user(words(120, 1))]
        reply = server.chat(messages, seed=7, return_tokens=True, **body)
        said = reply["choices"][0]["message"]["content"]
        messages += [assistant(said.strip()), user(words(10, 2))]
        return messages, reply["usage"]["prompt_tokens"] + len(reply["tokens"]) - 1, reply

    def test_a_turn_that_its_length_cut_short_is_there_too(self):
        server = self.serve()
        messages, tokens, reply = self.cut_turn(server, max_tokens=30, grammar='root ::= " " [a-z]{300}')
        self.assertEqual(reply["choices"][0]["finish_reason"], "length")
        self.assertEqual(self.cached(server, messages), tokens)

    def test_a_turn_before_a_stop_string_is_there_too(self):
        server = self.serve()
        messages, tokens, reply = self.cut_turn(server, stop=["STOP"], grammar='root ::= " " [a-z]{40} "STOP" [a-z]*')
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertNotIn("STOP", messages[1]["content"])
        # Each letter of the stop string may be a token.
        self.assertGreaterEqual(self.cached(server, messages), tokens - len("STOP"))

    def test_a_turn_that_ended_in_its_own_way_is_there_with_the_templates_end(self):
        server = self.serve()
        [end] = server.post("/tokenize", {"content": "<|endoftext|>", "parse_special": True})["tokens"]
        messages, tokens, reply = self.cut_turn(server, grammar=GRAMMAR, logit_bias=[[end, 50]])
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertEqual(self.cached(server, messages), tokens)

    @covers("--replay")
    def test_without_replay_the_turn_is_what_its_text_tokenizes_to(self):
        server = self.serve("--replay", "canonical", "--no-prefill-ahead")
        messages, tokens = self.first_turn(server)
        self.assertLess(self.cached(server, messages), tokens - 10)

    def test_an_edited_turn_is_the_clients(self):
        server = self.serve()
        messages, tokens = self.first_turn(server)
        messages[1]["content"] += " And more."
        self.assertLess(self.cached(server, messages), tokens - 10)

    def test_a_restart_knows_what_was_sampled(self):
        flags = ("--kv-disk-dir", fresh_directory())
        server = self.serve(*flags)
        messages, tokens = self.first_turn(server)
        server.stop()
        self.assertEqual(self.cached(self.serve(*flags), messages), tokens - 1)

    def test_a_kill_loses_no_turn_that_was_answered_a_moment_before(self):
        flags = ("--kv-disk-dir", fresh_directory())
        server = self.serve(*flags)
        messages, tokens = self.first_turn(server)
        self.assertEqual(self.cached(server, messages), tokens - 1)
        wait_until(lambda: any(path.endswith("turns") and os.path.getsize(path) > 100 for path in files_under(flags[1])),
                   "the turn is written")
        server.kill()
        self.assertGreaterEqual(self.cached(self.serve(*flags), messages), tokens - 1)

    def test_requests_that_leave_nothing_behind_leave_no_turn(self):
        server = self.serve()
        messages = [user(words(120, 1))]
        reply = server.chat(messages, seed=7, cache_prompt=False, **self.ending(server))
        said = reply["choices"][0]["message"]["content"]
        next_messages = [*messages, assistant(said.strip()), user(words(10, 2))]
        plain = self.serve("--replay", "canonical")
        self.assertEqual(server.chat(next_messages, max_tokens=1)["usage"]["prompt_tokens"],
                         plain.chat(next_messages, max_tokens=1)["usage"]["prompt_tokens"])

    def test_a_prompt_that_opens_no_answer_leaves_no_turn(self):
        server = self.serve()
        messages, _ = self.first_turn(server)
        plain = self.serve("--replay", "canonical")
        server.chat(messages, max_tokens=20, add_generation_prompt=False)
        raw = server.post("/apply-template", {"messages": messages, "add_generation_prompt": False})["prompt"]
        server.post("/v1/completions", {"prompt": raw, "grammar": GRAMMAR})
        other = [*messages[:2], user("Something else.")]
        before = plain.chat(other, max_tokens=1)["usage"]["prompt_tokens"]
        self.assertLess(abs(server.chat(other, max_tokens=1)["usage"]["prompt_tokens"] - before), 30)


class PrefillAhead(ServerCase):
    def serve(self, *flags):
        template = fresh_path("brackets.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write(BRACKETS)
        return self.server("--restore", "always", "--chat-template-file", template, "--trace", self.trace_path(), *flags)

    def trace_path(self):
        self.trace = fresh_path("trace.jsonl")
        return self.trace

    def traced(self, route):
        with open(self.trace, encoding="utf-8") as lines:
            return [line for line in map(json.loads, lines) if line["route"] == route]

    def turn(self, server, **fields):
        messages = [user(words(100, 1))]
        reply = server.chat(messages, **{"max_tokens": 60, "temperature": 0, **fields})
        return [*messages, assistant(reply["choices"][0]["message"]["content"]), user(words(10, 2))]

    def test_a_rewritten_turn_is_there_when_the_next_message_comes(self):
        server = self.serve()
        messages = self.turn(server)
        wait_until(lambda: self.traced("ahead"), "prefilled ahead")
        reply = server.chat(messages, max_tokens=4)
        new = len(server.post("/tokenize", {"content": messages[-1]["content"]})["tokens"])
        self.assertLessEqual(timings(reply)["prompt_n"], new + 8)

    # Letters of no word: their text tokenizes to other ids than were sampled.
    LETTERS = {"grammar": 'root ::= " " [a-z]{400}', "max_tokens": 200, "temperature": 1, "seed": 3}

    def own_template(self, replay):
        return self.server("--restore", "always", "--match", "token", "--replay", replay, "--trace", self.trace_path())

    @covers("--replay")
    def test_without_sampled_turns_each_answer_is_prefilled_as_the_template_writes_it(self):
        server = self.own_template("canonical")
        messages = self.turn(server, **self.LETTERS)
        wait_until(lambda: self.traced("ahead"), "prefilled ahead")
        reply = server.chat(messages, max_tokens=4)
        new = len(server.post("/tokenize", {"content": messages[-1]["content"]})["tokens"])
        self.assertLessEqual(timings(reply)["prompt_n"], new + 8)

    @covers("--replay")
    def test_neither_sampled_nor_ahead(self):
        server = self.own_template("off")
        messages = self.turn(server, **self.LETTERS)
        reply = server.chat(messages, max_tokens=4)
        new = len(server.post("/tokenize", {"content": messages[-1]["content"]})["tokens"])
        self.assertGreater(timings(reply)["prompt_n"], new + 20)
        self.assertEqual(self.traced("ahead"), [])

    # Begun, and then no JSON: told as a call, and the whole of it as text.
    MALFORMED = r'root ::= <tool_call> "{\"name\": \"edit\", \"arguments\": {\"line\": [" [a-z]{40} "}}" </tool_call>'

    def test_after_an_incomplete_call_the_user_speaks_next(self):
        server = self.own_template("canonical")
        [end] = server.tokenize("<|im_end|>", special=True)
        tools = [{"type": "function", "function": {"name": "edit", "parameters": {"type": "object"}}}]
        messages = [user(words(100, 1))]
        [choice] = server.chat(messages, tools=tools, grammar=self.MALFORMED, logit_bias=[[end, 50]])["choices"]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(len(choice["message"]["tool_calls"]), 1)
        wait_until(lambda: self.traced("ahead"), "prefilled ahead")
        messages += [assistant(choice["message"]["content"]), user(words(10, 2))]
        reply = server.chat(messages, tools=tools, max_tokens=4)
        new = len(server.tokenize(messages[-1]["content"]))
        self.assertLessEqual(timings(reply)["prompt_n"], new + 8)

    @covers("--prefill-ahead")
    def test_it_can_be_turned_off(self):
        server = self.serve("--no-prefill-ahead")
        messages = self.turn(server)
        reply = server.chat(messages, max_tokens=4)
        new = len(server.post("/tokenize", {"content": messages[-1]["content"]})["tokens"])
        self.assertGreater(timings(reply)["prompt_n"], new + 20)
        self.assertEqual(self.traced("ahead"), [])


if __name__ == "__main__":
    main()
