"""Anthropic's Messages API from outside: replies, streams, counts, errors and probes, as Claude Code and the SDKs use them."""

import json

from support import ServerCase, main, words

PATH = "/v1/messages?beta=true"
HEADERS = {"Content-Type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "none"}
BILLING = "x-anthropic-billing-header: cc_version=2.1.329.%s; cc_entrypoint=sdk-cli;"
USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
TOOL = {"name": "ls", "description": "Lists a directory.",
        "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}


def text(content, marked=False):
    return {"type": "text", "text": content, **({"cache_control": {"type": "ephemeral"}} if marked else {})}


def body(prompt="Say something.", **fields):
    return {"model": "claude-sonnet-4-5", "max_tokens": 8, "temperature": 0,
            "messages": [{"role": "user", "content": prompt}], **fields}


def prompt_tokens(usage):
    return sum(usage[name] for name in USAGE)


class Answers:
    """Requests with their whole reply: status, headers, parsed body or events."""

    def ask(self, server, path, payload=None, method="POST", headers=None):
        connection = server.connection()
        try:
            data = payload if payload is None or isinstance(payload, (str, bytes)) else json.dumps(payload)
            connection.request(method, path, data, HEADERS if headers is None else headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode("utf-8")
        finally:
            connection.close()

    def message(self, server, **fields):
        status, headers, reply = self.ask(server, PATH, body(**fields))
        self.assertEqual(status, 200, reply)
        self.assertRegex(headers["request-id"], "^req_[0-9a-f]{24}$")
        return json.loads(reply)

    def events(self, server, **fields):
        """The stream's events, each checked to have its own line and type."""
        status, headers, reply = self.ask(server, PATH, body(stream=True, **fields))
        self.assertEqual(status, 200, reply)
        self.assertEqual(headers["Content-Type"], "text/event-stream")
        self.assertIn("request-id", headers)
        events = []
        for block in reply.split("\n\n")[:-1]:
            if block.startswith(":"):
                continue
            kind, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            self.assertEqual(kind, "event: " + events[-1]["type"])
        return events

    def refused(self, status, kind, server, path, payload=None, contains="", **keywords):
        answered, headers, reply = self.ask(server, path, payload, **keywords)
        self.assertEqual(answered, status, reply)
        error = json.loads(reply)
        self.assertEqual(error["type"], "error", reply)
        self.assertEqual(error["error"]["type"], kind, reply)
        self.assertEqual(error["request_id"], headers["request-id"])
        self.assertIn(contains, error["error"]["message"])


class Messages(Answers, ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", 4096, "--max-body-mb", 1)

    def test_whole_and_streamed_replies_are_the_same(self):
        whole = self.message(self.one)
        self.assertEqual((whole["type"], whole["role"], whole["stop_sequence"]), ("message", "assistant", None))
        self.assertTrue(whole["id"].startswith("msg_"))
        self.assertIn(whole["stop_reason"], ("max_tokens", "end_turn"))
        self.assertEqual([part["type"] for part in whole["content"]], ["text"])
        self.assertIn("cache_source", whole["timings"])

        events = self.events(self.one)
        kinds = [event["type"] for event in events]
        deltas = kinds.count("content_block_delta")
        self.assertGreater(deltas, 0)
        self.assertEqual(kinds, ["message_start", "ping", "content_block_start", *["content_block_delta"] * deltas,
                                 "content_block_stop", "message_delta", "message_stop"])
        start = events[0]["message"]
        self.assertEqual((start["content"], start["stop_reason"], start["role"]), ([], None, "assistant"))
        self.assertEqual({event["index"] for event in events if "index" in event}, {0})
        streamed = "".join(event["delta"]["text"] for event in events if event["type"] == "content_block_delta")
        self.assertEqual(streamed, whole["content"][0]["text"])
        last = events[-2]
        self.assertEqual(last["delta"]["stop_reason"], whole["stop_reason"])
        self.assertEqual(last["usage"]["output_tokens"], whole["usage"]["output_tokens"])
        self.assertEqual(prompt_tokens(last["usage"]), prompt_tokens(whole["usage"]))
        self.assertEqual(prompt_tokens(start["usage"]), prompt_tokens(whole["usage"]))
        self.assertIn("cache_source", last["timings"])

    def test_stop_sequences(self):
        full = self.message(self.one, prompt="Go on and on.", max_tokens=24)["content"][0]["text"]
        stop = full[len(full) // 2:][:3]
        reply = self.message(self.one, prompt="Go on and on.", max_tokens=24, stop_sequences=["\x00never", stop])
        self.assertEqual((reply["stop_reason"], reply["stop_sequence"]), ("stop_sequence", stop))
        self.assertEqual("".join(part["text"] for part in reply["content"]), full[:full.index(stop)])

    def test_a_conversation_with_tools_reads_what_came_before(self):
        system = [text(BILLING % "bbc"), text(words(60, 1), True)]
        turns = [{"role": "user", "content": words(30, 2)}]
        fields = {"system": system, "tools": [TOOL], "metadata": {"user_id": json.dumps({"session_id": "s"})},
                  "thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
                  "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
        first = self.message(self.one, messages=turns, **fields)["usage"]
        self.assertEqual(first["cache_read_input_tokens"], 0)
        self.assertEqual(first["input_tokens"], 1)
        self.assertEqual(first["cache_creation"]["ephemeral_5m_input_tokens"], first["cache_creation_input_tokens"])
        turns = [{"role": "user", "content": [text(turns[0]["content"])]},
                 {"role": "assistant", "content": [
                     {"type": "thinking", "thinking": "It must look.", "signature": "abc"}, text("Looking."),
                     {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "/"}}]},
                 {"role": "user", "content": [
                     {"type": "tool_result", "tool_use_id": "t1", "content": [text("README")], "is_error": False},
                     text("And?", True)]}]
        second = self.message(self.one, messages=turns, **fields)["usage"]
        self.assertGreater(second["cache_read_input_tokens"], prompt_tokens(first) - 16)

    def test_a_second_session_reads_the_first_ones_prompt(self):
        def session(number, prompt):
            system = [text(BILLING % number), text(words(200, 3), True)]
            return self.message(self.one, system=system, prompt=prompt)["usage"]
        first = session("bbc", "First task.")
        second = session("ef1", "Another task.")
        self.assertGreater(second["cache_read_input_tokens"], 200)
        self.assertLess(second["input_tokens"] + second["cache_creation_input_tokens"], 40)
        self.assertEqual(session("0a0", "First task.")["cache_read_input_tokens"], prompt_tokens(first) - 1)

    def test_counting_touches_neither_model_nor_cache(self):
        conversation = {"system": words(50, 4), "tools": [TOOL], "messages": [{"role": "user", "content": words(20, 5)}]}
        decoded = self.one.decoded_ids()
        status, _, reply = self.ask(self.one, "/v1/messages/count_tokens?beta=true", {"model": "x", **conversation})
        self.assertEqual(status, 200, reply)
        count = json.loads(reply)
        self.assertEqual(list(count), ["input_tokens"])
        self.assertEqual(self.one.decoded_ids(), decoded)
        usage = self.message(self.one, **conversation)["usage"]
        self.assertEqual(prompt_tokens(usage), count["input_tokens"])
        self.assertEqual(usage["cache_creation_input_tokens"], 0, "nothing was marked")
        # Longer than the context, and still counted.
        status, _, reply = self.ask(self.one, "/v1/messages/count_tokens", {"messages": [
            {"role": "user", "content": words(90_000, 6)}]})
        self.assertGreater(json.loads(reply)["input_tokens"], 90_000)

    def test_no_tokens_at_all_only_warm_the_cache(self):
        reply = self.message(self.one, prompt=words(40, 7), max_tokens=0)
        self.assertEqual((reply["content"], reply["stop_reason"]), ([], "max_tokens"))
        again = self.message(self.one, prompt=words(40, 7))["usage"]
        self.assertEqual(again["cache_read_input_tokens"], prompt_tokens(again) - 1)

    def test_bad_requests(self):
        bad = (400, "invalid_request_error", self.one, PATH)
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
        self.refused(*bad, "{", contains="")
        self.refused(*bad, {"messages": [{"role": "user", "content": "x"}]}, contains="max_tokens")
        self.refused(*bad, body(messages=[]), contains="at least one message")
        self.refused(*bad, body(prompt=[image]), contains="'messages.0.content.0' is of type 'image'")
        self.refused(*bad, body(system=[text("x", True)] * 5), contains="A maximum of 4 blocks with cache_control")
        self.refused(*bad, body(tools=[{"type": "web_search_20250305", "name": "web_search"}]), contains="web_search")
        self.refused(*bad, body(tool_choice={"type": "any"}), contains="tool_choice")
        self.refused(*bad, body(prompt=words(6_000, 8)), contains="prompt is too long: ")
        self.refused(400, "invalid_request_error", self.one, "/v1/messages/count_tokens", {}, contains="messages")

    def test_errors_found_before_the_route(self):
        self.refused(404, "not_found_error", self.one, "/v1/messages/batches", {})
        self.refused(404, "not_found_error", self.one, "/v1/files", {})
        self.refused(405, "invalid_request_error", self.one, "/v1/messages", method="GET")
        self.refused(413, "request_too_large", self.one, PATH, b" " * (1_100_000))
        self.refused(403, "permission_error", self.one, PATH, "{}", headers={**HEADERS, "Origin": "http://evil.example"})
        # Clients that speak OpenAI's dialect are answered in it.
        status, headers, reply = self.ask(self.one, "/nowhere", "{}", headers={})
        self.assertEqual((status, json.loads(reply)["error"]["code"]), (404, 404))
        self.assertEqual(headers["x-request-id"], headers["request-id"])

    def test_probes(self):
        for path in ("/", "/api/hello", "/v1/models"):
            self.assertEqual(self.ask(self.one, path, method="HEAD")[0], 200, path)
        status, headers, page = self.ask(self.one, "/", method="GET")
        self.assertEqual((status, headers["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("<title>kvkeep", page)
        models = json.loads(self.ask(self.one, "/v1/models?limit=20", method="GET")[2])
        self.assertEqual(models["data"][0]["type"], "model")
        self.assertEqual((models["has_more"], models["first_id"]), (False, models["data"][0]["id"]))

    def test_a_system_message_in_the_middle_is_rendered_there(self):
        def count(role):
            return prompt_tokens(self.message(self.one, messages=[
                {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
                {"role": role, "content": [text(words(30, 9))]}, {"role": "user", "content": "three"}])["usage"])
        self.assertGreater(count("system"), 30)


class KeysAndNames(Answers, ServerCase):
    def test_keys_come_as_either_header_and_models_have_names(self):
        server = self.server("--api-key", "secret", "-a", "mine", "--strict-model-names")
        self.refused(401, "authentication_error", server, PATH, body())
        self.refused(401, "authentication_error", server, PATH, body(), headers={"x-api-key": "wrong"})
        for header in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"}):
            self.refused(404, "not_found_error", server, PATH, body(), headers=header, contains="claude-sonnet-4-5")
            status, _, reply = self.ask(server, PATH, body(model="mine"), headers=header)
            self.assertEqual((status, json.loads(reply)["model"]), (200, "mine"))
        self.refused(404, "not_found_error", server, "/v1/messages/count_tokens",
                     {"model": "x", "messages": body()["messages"]}, headers={"x-api-key": "secret"})
        self.assertEqual(self.ask(server, "/", method="HEAD", headers={})[0], 200)


if __name__ == "__main__":
    main()
