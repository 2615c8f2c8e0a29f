"""OpenAI's Responses API from outside: replies, streams, calls, thoughts sent back, counts and errors, as codex,
@ai-sdk/openai and the openai libraries use them."""

import json

from support import ServerCase, fresh_path, main, user, words

PATH = "/v1/responses"
CHAT = "/v1/chat/completions"
LOOK = {"type": "function", "name": "look", "description": "Looks.", "strict": False,
        "parameters": {"type": "object", "properties": {"where": {"type": "string", "enum": ["left", "right"]}},
                       "required": ["where"], "additionalProperties": False}}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
AGENTS = {"type": "namespace", "name": "agents", "description": "Others.",
          "tools": [{"type": "function", "name": "spawn", "parameters": NOTHING, "strict": False}]}
NOTE = {"type": "custom", "name": "note", "description": "Takes a note."}
# Shows what was thought in every turn.
TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.reasoning_content -%}{{- '<think>\\n' + message.reasoning_content.strip() + '\\n</think>\\n\\n' -}}{%- endif -%}
{{- message.content -}}
{%- for call in message.tool_calls or [] -%}{{- '<tool_call>' + (call | tojson) + '</tool_call>' -}}{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""
SEARCH = {"type": "web_search", "external_web_access": False}


def body(**fields):
    return {"model": "gpt-5-codex", "max_output_tokens": 8, "temperature": 0, "input": "Say something.", **fields}


def item(role, text):
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def cached(response):
    return response["usage"]["input_tokens_details"]["cached_tokens"]


def texts(response):
    return "".join(part["text"] for one in response["output"] if one["type"] == "message" for part in one["content"])


class Answers:
    """Requests with their whole reply: status, parsed body or events."""

    def ask(self, server, payload=None, path=PATH, method="POST", headers=None):
        connection = server.connection()
        try:
            data = payload if payload is None or isinstance(payload, (str, bytes)) else json.dumps(payload)
            connection.request(method, path, data, headers or {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode("utf-8")
        finally:
            connection.close()

    def respond(self, server, **fields):
        status, _, reply = self.ask(server, body(**fields))
        self.assertEqual(status, 200, reply)
        return json.loads(reply)

    def events(self, server, **fields):
        """The stream's events, each checked to have its own line, type and number."""
        status, headers, reply = self.ask(server, body(stream=True, **fields))
        self.assertEqual(status, 200, reply)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        events = []
        for block in reply.split("\n\n")[:-1]:
            kind, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(kind, "event: " + events[-1]["type"])
            self.assertEqual(events[-1]["sequence_number"], len(events) - 1)
        return events

    def refused(self, status, payload, contains="", code=None, param=None, **keywords):
        answered, _, reply = self.ask(self.one, payload, **keywords)
        self.assertEqual(answered, status, reply)
        error = json.loads(reply)["error"]
        self.assertIn(contains, error["message"])
        self.assertEqual(error["code"], code, reply)
        self.assertEqual(error["param"], param, reply)
        return error


class Responses(Answers, ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("--max-body-mb", 1)

    def test_whole_and_streamed_replies_are_the_same(self):
        whole = self.respond(self.one, metadata={"a": "b"}, prompt_cache_key="k", instructions="Be brief.")
        self.assertRegex(whole["id"], "^resp_[0-9a-f]+$")
        self.assertEqual((whole["object"], whole["store"], whole["error"]), ("response", False, None))
        self.assertEqual((whole["metadata"], whole["prompt_cache_key"]), ({"a": "b"}, "k"))
        self.assertEqual((whole["status"], whole["incomplete_details"]),
                         ("incomplete", {"reason": "max_output_tokens"}))
        self.assertIn("cache_source", whole["timings"])
        [message] = whole["output"]
        self.assertEqual((message["type"], message["role"], message["status"]), ("message", "assistant", "incomplete"))
        usage = whole["usage"]
        self.assertEqual(usage["output_tokens"], 8)
        self.assertEqual(usage["total_tokens"], usage["input_tokens"] + 8)

        events = self.events(self.one, instructions="Be brief.")
        kinds = [event["type"] for event in events]
        deltas = kinds.count("response.output_text.delta")
        self.assertGreater(deltas, 0)
        self.assertEqual(kinds, ["response.created", "response.in_progress", "response.output_item.added",
                                 "response.content_part.added", *["response.output_text.delta"] * deltas,
                                 "response.output_text.done", "response.content_part.done",
                                 "response.output_item.done", "response.incomplete"])
        streamed = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        last = events[-1]["response"]
        self.assertEqual(streamed, texts(whole))
        self.assertEqual(texts(last), streamed)
        self.assertEqual(last["usage"]["output_tokens"], 8)
        self.assertEqual(events[0]["response"]["id"], last["id"])
        self.assertEqual({event["item_id"] for event in events if "item_id" in event}, {last["output"][0]["id"]})

    def test_the_short_path_and_the_count(self):
        count = json.loads(self.ask(self.one, {"model": "x", "input": words(30, 1), "tools": [LOOK]},
                                    path="/v1/responses/input_tokens")[2])
        reply = json.loads(self.ask(self.one, body(input=words(30, 1), tools=[LOOK]), path="/responses")[2])
        self.assertEqual(count, {"object": "response.input_tokens", "input_tokens": reply["usage"]["input_tokens"]})

    def test_a_next_turn_reads_what_came_before(self):
        begin = [item("developer", words(60, 2)), item("user", words(40, 3)), item("user", "Begin.")]
        fields = {"tools": [LOOK, AGENTS, NOTE, SEARCH], "store": False, "include": ["reasoning.encrypted_content"],
                  "tool_choice": "required", "max_output_tokens": 300,
                  "reasoning": {"effort": "medium", "summary": "auto"}, "client_metadata": {"x": "y"},
                  "logit_bias": [[self.one.post("/tokenize", {"content": "<|im_end|>"})["tokens"][0], 50]]}
        first = self.respond(self.one, input=begin, **fields)
        self.assertEqual(first["status"], "completed")
        calls, used = first["output"], first["usage"]
        outputs = [{"type": call["type"] + "_output", "call_id": call["call_id"], "output": "seen"} for call in calls]
        # Written anew, as many clients do.
        for call in calls:
            if call["type"] == "function_call":
                call["arguments"] = json.dumps(json.loads(call["arguments"]))
        second = self.respond(self.one, input=[*begin, *calls, *outputs], **fields)
        self.assertGreaterEqual(cached(second), used["input_tokens"] + used["output_tokens"] - 2)

    def call(self, tool, **fields):
        fields = {"tools": [LOOK, AGENTS, NOTE, SEARCH], "max_output_tokens": 400, "temperature": 1, "seed": 3, **fields}
        whole = self.respond(self.one, tool_choice=tool, **fields)
        events = self.events(self.one, tool_choice=tool, **fields)
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual([event["type"] for event in events].count("response.output_item.done"), 1)
        [one] = whole["output"]
        [other] = events[-1]["response"]["output"]
        for field in ("id", "call_id"):
            self.assertTrue(one.pop(field) and other.pop(field))
        self.assertEqual(one, other)
        return one, events

    def test_calls_come_under_the_names_their_client_gave(self):
        call, events = self.call({"type": "function", "name": "look"})
        self.assertEqual((call["type"], call["name"], call["status"]), ("function_call", "look", "completed"))
        self.assertIn(json.loads(call["arguments"])["where"], ("left", "right"))
        pieces = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        self.assertEqual("".join(pieces), call["arguments"])
        call, _ = self.call({"type": "function", "name": "spawn", "namespace": "agents"})
        self.assertEqual((call["type"], call["namespace"], call["name"]), ("function_call", "agents", "spawn"))
        quote = self.one.post("/tokenize", {"content": '"'})["tokens"][0]
        call, events = self.call({"type": "custom", "name": "note"}, logit_bias=[[quote, 10]])
        self.assertEqual((call["type"], call["name"]), ("custom_tool_call", "note"))
        self.assertEqual([event["input"] for event in events if "input" in event], [call["input"]])

    def test_only_allowed_tools_are_called(self):
        for seed in range(3):
            choice = {"type": "allowed_tools", "mode": "required",
                      "tools": [{"type": "function", "name": "spawn", "namespace": "agents"}]}
            reply = self.respond(self.one, tools=[LOOK, AGENTS], tool_choice=choice, parallel_tool_calls=False,
                                 temperature=1, seed=seed, max_output_tokens=200)
            self.assertEqual([one["name"] for one in reply["output"]], ["spawn"])

    def test_text_formats(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}},
                  "required": ["n"], "additionalProperties": False}
        text = {"format": {"type": "json_schema", "name": "number", "schema": schema, "strict": True}}
        reply = self.respond(self.one, text=text, max_output_tokens=100, temperature=1, seed=1)
        self.assertIn(json.loads(texts(reply))["n"], range(1, 10))
        self.assertEqual(reply["text"], text)

    def test_unsupported_input_is_refused(self):
        self.refused(400, "{")
        self.refused(400, {}, contains="'input' is required", param="input")
        self.refused(400, body(input=[{"type": "item_reference", "id": "msg_1"}]), param="input[0]",
                     contains="nothing is stored here")
        image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]}
        self.refused(400, body(input=[image]), contains="input_image", param="input[0].content[0]")
        self.refused(400, body(previous_response_id="resp_1"), contains="'input'", param="previous_response_id")
        self.refused(400, body(conversation="c"), contains="not stored", param="conversation")
        self.refused(400, body(background=True), param="background")
        self.refused(400, body(tools=[], tool_choice="required"), param="tool_choice")
        error = self.refused(400, body(input=words(6_000, 4)), code="context_length_exceeded", param="input",
                             contains="exceeds the context window")
        self.assertEqual(error["n_ctx"], 4096)
        self.assertGreater(error["n_prompt_tokens"], 4096)

    def test_a_stream_whose_prompt_does_not_fit_says_so(self):
        events = self.events(self.one, input=words(6_000, 4))
        self.assertEqual([event["type"] for event in events], ["response.created", "error", "response.failed"])
        self.assertEqual(events[1]["error"]["code"], "context_length_exceeded")
        self.assertEqual(events[2]["response"]["error"]["code"], "context_length_exceeded")
        self.assertEqual(events[2]["response"]["status"], "failed")

    def test_nothing_is_stored(self):
        one = self.respond(self.one, store=True)
        self.assertFalse(one["store"])
        for method in ("GET", "DELETE"):
            self.refused(404, None, method=method, path=f"{PATH}/{one['id']}", contains="not stored", code="not_found")
        self.refused(404, {}, path=f"{PATH}/{one['id']}/cancel", code="not_found")
        self.refused(405, None, method="GET")
        self.refused(413, b" " * 1_100_000)


class Keys(Answers, ServerCase):
    def test_keys_and_names(self):
        self.one = self.server("--api-key", "secret", "-a", "mine", "--strict-model-names")
        self.refused(401, body(), code="invalid_api_key")
        key = {"Authorization": "Bearer secret"}
        self.refused(404, body(), headers=key, contains="gpt-5-codex")
        status, _, reply = self.ask(self.one, body(model="mine"), headers=key)
        self.assertEqual((status, json.loads(reply)["model"]), (200, "mine"))


class Thoughts(Answers, ServerCase):
    """The model's thoughts come back in every form in which clients keep them."""

    @classmethod
    def start_class_servers(cls):
        template = fresh_path("thoughts.jinja")
        with open(template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        cls.one = cls.class_server("--match", "token", "--restore", "always", "--replay", "canonical",
                                   "--no-prefill-ahead", "--chat-template-file", template)

    def think(self, **fields):
        opened, closed = (self.one.post("/tokenize", {"content": tag})["tokens"][0] for tag in ("<think>", "</think>"))
        grammar = f'root ::= <[{opened}]> "\\n" [a-z]{{20}} "\\n" <[{closed}]> "\\n\\n" [a-z]{{20}}'
        return {"input": [user(words(60, 5))], "grammar": grammar, "max_output_tokens": 100, "temperature": 1,
                "seed": 9, **fields}

    def test_thoughts_are_items_before_the_text(self):
        whole = self.respond(self.one, **self.think())
        self.assertEqual([one["type"] for one in whole["output"]], ["reasoning", "message"])
        thought = whole["output"][0]["summary"][0]["text"]
        self.assertEqual(len(thought.strip()), 20)
        self.assertEqual(len(texts(whole)), 20)
        counted = whole["usage"]["output_tokens_details"]["reasoning_tokens"]
        self.assertTrue(0 < counted < whole["usage"]["output_tokens"], whole["usage"])
        events = self.events(self.one, **self.think())
        kinds = [event["type"] for event in events]
        self.assertLess(kinds.index("response.reasoning_summary_part.done"), kinds.index("response.content_part.added"))
        streamed = [event["delta"] for event in events if event["type"] == "response.reasoning_summary_text.delta"]
        self.assertEqual("".join(streamed), thought)
        self.assertEqual(events[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"], counted)

    def test_thoughts_come_back_as_a_chat_would_send_them(self):
        question, next_question = user(words(60, 5)), user("And?")
        reasoning, message = self.respond(self.one, **self.think())["output"]
        thought, said = reasoning["summary"][0]["text"], message["content"][0]["text"]
        chat = self.one.post(CHAT, {"max_tokens": 1, "messages": [
            question, {"role": "assistant", "content": said, "reasoning_content": thought}, next_question]})
        prompt = chat["usage"]["prompt_tokens"]
        echoes = {
            "whole": [reasoning, message],
            "codex": [{key: reasoning[key] for key in ("type", "summary", "encrypted_content")}, message],
            "summary": [{"type": "reasoning", "summary": reasoning["summary"]}, message],
            "sealed": [{"type": "reasoning", "summary": [], "encrypted_content": reasoning["encrypted_content"]},
                       {"role": "assistant", "content": said}],
        }
        for name, echo in echoes.items():
            with self.subTest(echo=name):
                reply = self.respond(self.one, input=[question, *echo, next_question], max_output_tokens=1)
                # The same ids: all but the one that is always computed are there.
                self.assertEqual((reply["usage"]["input_tokens"], cached(reply)), (prompt, prompt - 1))
        without = self.respond(self.one, input=[question, message, next_question], max_output_tokens=1)
        self.assertLess(without["usage"]["input_tokens"], prompt - 3)


if __name__ == "__main__":
    main()
