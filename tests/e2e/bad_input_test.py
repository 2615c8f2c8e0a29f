"""Bad requests, bad clients, bad senders: the right status and shape, and a server that goes on as if nothing was."""

import contextlib
import json
import os
import socket
import time

from support import ServerCase, fresh_path, main, reply_text, timings, user, wait_until, words

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
CONTEXT = 512
PIXEL = "data:image/png;base64,AAAA"


class BadRequests(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", CONTEXT, "--max-body-mb", 1)

    def tearDown(self):
        # After every test the server answers a good request, and rightly.
        reply = self.one.chat([user("After the bad comes a good one.")], max_tokens=8)
        self.assertEqual(reply["usage"]["completion_tokens"], 8)
        if not hasattr(type(self), "good_text"):
            type(self).good_text = reply_text(reply)
        self.assertEqual(reply_text(reply), self.good_text)

    def post(self, path, body, status=400, **keywords):
        return self.assert_refused(status, self.one.post, path, body, **keywords)

    def chat_with(self, status=400, contains=None, **fields):
        return self.post(CHAT, {"messages": [user("hi")], "max_tokens": 2, **fields}, status, contains=contains)

    def test_malformed_json(self):
        for body in ("", "{", "nonsense", '{"messages": [}', '{"a":1}{"b":2}', "\x00", "[1,2]", '"text"', "null", "17",
                     '{"messages": [{"role":"user","content":"\\ud800"}]}', b'{"messages":"\xff\xfe"}', "{'a':1}",
                     '{"prompt": NaN}', '{"prompt": 1e999}'):
            for path in (CHAT, COMPLETION, "/tokenize", "/detokenize", "/apply-template"):
                with self.subTest(body=body, path=path):
                    self.post(path, body)

    def test_deep_json(self):
        for body in ("[" * 100_000, '{"a":' * 100_000, '{"messages":' + "[" * 5_000 + "]" * 5_000 + "}"):
            self.post(CHAT, body)

    def test_huge_numbers(self):
        for field, value in (("max_tokens", 10**30), ("max_tokens", -2), ("max_tokens", 1.5), ("top_k", 10**12),
                             ("temperature", 1e30), ("top_p", 2), ("min_p", -1), ("repeat_last_n", -2)):
            with self.subTest(field=field, value=value):
                self.chat_with(contains=field, **{field: value})

    def test_wrong_types(self):
        for field, value in (("temperature", "hot"), ("temperature", True), ("max_tokens", "ten"), ("stream", "yes"),
                             ("stop", 5), ("stop", [5]), ("seed", "x"), ("ignore_eos", 1), ("cache_prompt", "off"),
                             ("logit_bias", 3), ("logit_bias", {"x": True}), ("logit_bias", {"99999999": 1}),
                             ("stream_options", []), ("return_progress", 1), ("model", 7), ("tools", {}),
                             ("tools", [{"type": "function"}]), ("chat_template_kwargs", "x")):
            with self.subTest(field=field, value=value):
                self.chat_with(contains=field, **{field: value})

    def test_bad_messages(self):
        for messages in (None, [], {}, "hi", [None], ["hi"], [{}], [{"role": "user"}], [{"content": "hi"}],
                         [{"role": "wizard", "content": "hi"}], [{"role": 1, "content": "hi"}],
                         [{"role": "user", "content": 5}], [{"role": "user", "content": [{"type": "text"}]}],
                         [{"role": "user", "content": [{"text": "x"}]}], [{"role": "assistant"}],
                         [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}],
                         [{"role": "assistant", "tool_calls": [{"function": {}}]}]):
            with self.subTest(messages=messages):
                self.post(CHAT, {"messages": messages}, contains="messages")
        self.post(CHAT, {}, contains="messages")

    def test_bad_prompts(self):
        for prompt in (None, "", [], 5, {}, ["a", ""], [10**9, "a"], [-1], [10**9], [1.5], [2**64], [[1, 2], []]):
            with self.subTest(prompt=prompt):
                self.post(COMPLETION, {"prompt": prompt}, contains="prompt")
        self.post(COMPLETION, {}, contains="prompt")
        self.post("/detokenize", {"tokens": [10**9]}, contains="tokens")
        self.post("/detokenize", {"tokens": "x"}, contains="tokens")
        self.post("/tokenize", {"content": 5}, contains="content")

    def test_unsupported_fields_are_refused(self):
        for field, value in (("best_of", 2), ("n_discard", -1), ("top_logprobs", 3), ("grammar", "root ::= x"),
                             ("response_format", {"type": "yaml"}), ("json_schema", {"not": {}}),
                             ("tool_choice", "required"), ("context_shift", True), ("mirostat", 3),
                             ("tool_choice", {"type": "function", "function": {"name": "f"}}),
                             ("modalities", ["text", "audio"]), ("samplers", ["tfs_z"]), ("lora", [{"id": 0}])):
            with self.subTest(field=field):
                self.chat_with(contains=field, **{field: value})
        self.chat_with(contains="suffix", suffix="b")
        self.chat_with(contains="echo", echo=True)
        self.post(COMPLETION, {"prompt": "a", "echo": True, "logprobs": 21}, contains="echo")
        self.post(COMPLETION, {"prompt": "a", "response_fields": ["content"]}, contains="response_fields")
        image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL}}]}
        self.post(CHAT, {"messages": [image]}, contains="image input is not supported")

    def test_neutral_values_of_the_same_fields_are_accepted(self):
        reply = self.one.chat([user("hi")], max_tokens=2, n=1, logprobs=False, tool_choice="auto", grammar="",
                              response_format={"type": "text"}, mirostat=0, n_keep=0, stop=None)
        self.assertEqual(reply["usage"]["completion_tokens"], 2)

    def test_prompt_longer_than_the_context(self):
        text = words(3 * CONTEXT)
        ids = self.one.tokenize(text)
        for stream in (False, True):
            error = self.post(COMPLETION, {"prompt": text, "stream": stream})
            self.assertEqual((error["type"], error["n_prompt_tokens"], error["n_ctx"]),
                             ("exceed_context_size_error", len(ids), CONTEXT))
        error = self.post(CHAT, {"messages": [user(text)]})
        self.assertEqual(error["n_prompt_tokens"], len(self.one.prompt_ids([user(text)])))
        self.assertEqual(error["n_ctx"], CONTEXT)

    def test_prompts_around_the_context_size(self):
        token = self.one.tokenize(" river")[0]
        self.assertEqual(self.post(COMPLETION, {"prompt": [token] * CONTEXT})["n_prompt_tokens"], CONTEXT)
        reply = self.one.post(COMPLETION, {"prompt": [token] * (CONTEXT - 1), "max_tokens": 100, "temperature": 0})
        self.assertEqual(reply["choices"][0]["finish_reason"], "length")
        self.assertLessEqual(reply["usage"]["total_tokens"], CONTEXT + 1)

    def test_body_larger_than_the_limit(self):
        self.post(CHAT, {"messages": [user("x" * (2 << 20))]}, 413)
        # Without a length the limit holds while bytes arrive.
        with socket.create_connection(("127.0.0.1", self.one.port), 20) as link:
            link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            with contextlib.suppress(ConnectionError, socket.timeout):
                for _ in range(40):
                    link.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            answer = b""
            with contextlib.suppress(ConnectionError):
                answer = link.recv(4096)
        self.assertTrue(answer == b"" or b" 413 " in answer.split(b"\r\n")[0], answer)

    def test_unknown_paths_and_methods(self):
        self.assert_refused(404, self.one.get, "/nowhere")
        self.assert_refused(404, self.one.post, "/completons", {}, contains="did you mean '/completions'?")
        self.assert_refused(404, self.one.post, "/v1/v1/messages", {}, contains="did you mean '/v1/messages'?")
        self.assert_refused(404, self.one.get, "/../../etc/passwd")
        self.assert_refused(405, self.one.get, CHAT)
        self.assert_refused(405, self.one.post, "/health", {})

    def test_garbage_instead_of_http(self):
        for garbage in (b"\x16\x03\x01\x02\x00\x01\x00", b"\r\n\r\n\r\n", b"GET\r\n\r\n", os.urandom(4096),
                        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
                        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                        b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % 10**20):
            with self.subTest(garbage=garbage[:40]):
                with socket.create_connection(("127.0.0.1", self.one.port), 20) as link:
                    with contextlib.suppress(ConnectionError):
                        link.sendall(garbage)
                        link.shutdown(socket.SHUT_WR)
                        answer = b"".join(iter(lambda: link.recv(65536), b""))
                        self.assertNotIn(b" 200 ", answer[:20])

    def test_any_model_name_is_served_without_an_alias(self):
        self.assertEqual(self.one.chat([user("hi")], max_tokens=1, model="gpt-17")["usage"]["completion_tokens"], 1)


class Clients(ServerCase):
    """Clients that are slow or leave."""

    def test_slow_headers_are_cut(self):
        server = self.server("--timeout", 1)
        with socket.create_connection(("127.0.0.1", server.port), 20) as link:
            begin = time.monotonic()
            link.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
            with contextlib.suppress(ConnectionError):
                while time.monotonic() - begin < 15:
                    link.sendall(b"X: y\r\n")  # a byte now and then must not hold the thread
                    time.sleep(0.1)
                    link.settimeout(0.001)
                    with contextlib.suppress(socket.timeout):
                        if not link.recv(4096):
                            break
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(server.chat([user("hi")], max_tokens=2)["usage"]["completion_tokens"], 2)

    def test_slow_body_is_cut(self):
        server = self.server("--timeout", 1)
        with socket.create_connection(("127.0.0.1", server.port), 20) as link:
            link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
            begin = time.monotonic()
            answer = link.recv(4096)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertTrue(answer == b"" or b" 408 " in answer.split(b"\r\n")[0], answer)
        self.assertEqual(server.chat([user("hi")], max_tokens=2)["usage"]["completion_tokens"], 2)

    def leave_mid_stream(self, server, body):
        """Reads a few events of a stream, then hangs up; returns the text that arrived."""
        text = ""
        events = server.stream(COMPLETION, {**body, "stream": True, "temperature": 0})
        for _, event in events:
            text += event["choices"][0]["text"]
            if len(text) > 40:
                break
        events.close()
        return text

    def test_gone_in_mid_stream(self):
        server = self.server("-c", 65536, "--restore", "always")
        prompt = words(200)
        seen = self.leave_mid_stream(server, {"prompt": prompt, "max_tokens": 60_000})
        decoded = server.decoded_ids()
        wait_until(lambda: " done end=client-left" in server.log(), "generation ends soon after the client left")
        self.assertNotRegex(server.log(), r"http POST \S+ 500")
        self.assertLess(server.decoded_ids() - decoded, 30_000)
        stopped_at = server.decoded_ids()
        time.sleep(0.3)
        self.assertEqual(server.decoded_ids(), stopped_at, "nothing is generated for nobody")
        # The computed state is reused: the prompt and the reply so far are known.
        reply = server.post(COMPLETION, {"prompt": prompt + seen + " and then", "max_tokens": 8, "temperature": 0})
        known = len(server.tokenize(prompt + seen))
        self.assertGreaterEqual(timings(reply)["cache_n"], known - 2)
        plain = server.post(COMPLETION, {"prompt": prompt + seen + " and then", "max_tokens": 8, "temperature": 0,
                                         "cache_prompt": False})
        self.assertEqual(reply["choices"][0]["text"], plain["choices"][0]["text"])

    def test_gone_while_waiting_and_while_prefilling(self):
        server = self.server("-np", 1, "-b", 32, "-ub", 32, "-lv", 4)
        long = {"prompt": words(2_500), "max_tokens": 4, "temperature": 0}
        links = []
        for _ in range(3):
            link = socket.create_connection(("127.0.0.1", server.port), 20)
            body = json.dumps(long).encode()
            link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(body) + body)
            links.append(link)
        wait_until(lambda: "prompt start" in server.log(), "the first prefill begins")
        for link in links:
            link.close()
        wait_until(lambda: server.log().count(" done end=") == 3, "all three end")
        reply = server.post(COMPLETION, long)
        self.assertEqual(reply["choices"][0]["text"],
                         server.post(COMPLETION, {**long, "cache_prompt": False})["choices"][0]["text"])

    def test_sigterm_while_streaming_ends_the_stream(self):
        server = self.server("-c", 65536)
        events = server.stream(COMPLETION, {"prompt": "once", "max_tokens": 60_000, "stream": True, "temperature": 0})
        next(events)
        process = server.process
        process.terminate()
        last = [event for _, event in events][-1]
        # An end that says so, not a connection that breaks off.
        self.assertIn("error", last)
        self.assertEqual(last["error"]["code"], 503)
        self.assertEqual(process.wait(20), 0)
        self.assertTrue(server.log().endswith("bye\n"))


class Senders(ServerCase):
    """Keys, host names, origins and model names."""

    @classmethod
    def start_class_servers(cls):
        cls.keys = fresh_path("keys")
        with open(cls.keys, "w") as file:
            file.write("# the team's\nfrom-file\n")
        cls.one = cls.class_server("--api-key", "first,second", "--api-key-file", cls.keys, "-a", "tiny,tiny-one", "--strict-model-names",
                                   "--allowed-hosts", "models.example", "--allowed-origins", "http://pages.example")
        cls.good = {"Authorization": "Bearer first"}

    def chat(self, headers, **fields):
        return self.one.post(CHAT, {"messages": [user("hi")], "max_tokens": 2, **fields}, headers=headers)

    def tearDown(self):
        self.assertEqual(self.chat(self.good)["usage"]["completion_tokens"], 2)

    def test_keys(self):
        for headers in ({"Authorization": "Bearer first"}, {"Authorization": "Bearer second"},
                        {"Authorization": "Bearer from-file"}, {"X-Api-Key": "second"}):
            self.chat(headers)
        missing, wrong, bare = "No API key was sent", "The API key is wrong", "does not contain 'Bearer KEY'"
        for headers, why in (({}, missing), ({"X-Api-Key": ""}, missing), ({"Authorization": "Bearer third"}, wrong),
                             ({"Authorization": "Bearer firs"}, wrong), ({"Authorization": "Bearer firstx"}, wrong),
                             ({"Authorization": "Bearer # the team's"}, wrong), ({"X-Api-Key": "third"}, wrong),
                             ({"Authorization": "first"}, bare), ({"Authorization": "Bearer "}, bare)):
            with self.subTest(headers=headers):
                error = self.assert_refused(401, self.chat, headers, contains=why)
                self.assertIn("'Authorization: Bearer KEY' or as 'x-api-key: KEY'", error["message"])

    def test_some_paths_need_no_key(self):
        self.assertEqual(self.one.get("/health")["status"], "ok")
        self.assertEqual(self.one.get("/v1/models")["data"][0]["id"], "tiny")
        self.assert_refused(401, self.one.get, "/nowhere")

    def test_hosts(self):
        for host in ("localhost", "127.0.0.1:1234", "[::1]:80", "models.example", "MODELS.example:443"):
            with self.subTest(host=host):
                self.chat({**self.good, "Host": host})
        for host in ("evil.example", "localhost.evil.example", "models.example.evil", "10.0.0.1"):
            with self.subTest(host=host):
                self.assert_refused(403, self.chat, {**self.good, "Host": host})
        self.assert_refused(403, self.chat, {**self.good, "Host": "host.docker.internal:8080"},
                            contains="start the server with --allowed-hosts host.docker.internal")

    def test_refusals_are_in_the_log_with_their_words(self):
        self.assert_refused(403, self.chat, {**self.good, "Host": "stranger.example"})
        self.assert_refused(400, self.chat, self.good, temperature="hot")
        self.assert_refused(404, self.one.get, "/no%0awhere", headers=self.good)
        wait_until(lambda: "/no?where 404" in self.one.log(), "control characters do not reach the log")
        log = self.one.log()
        self.assertIn("'stranger.example' is not served here", log)
        self.assertRegex(log, "POST /v1/chat/completions 400 .*temperature")

    def test_origins(self):
        self.chat({**self.good, "Origin": "http://pages.example"})
        for origin in ("http://evil.example", "https://pages.example", "http://pages.example:81", "null",
                       "http://pages.example.evil"):
            with self.subTest(origin=origin):
                self.assert_refused(403, self.chat, {**self.good, "Origin": origin},
                                    contains="" if origin == "null" else f"with --allowed-origins {origin}")

    def test_pages_may_read_only_what_was_allowed(self):
        connection = self.one.connection()
        with contextlib.closing(connection):
            connection.request("OPTIONS", CHAT, headers={"Origin": "http://pages.example",
                                                         "Access-Control-Request-Method": "POST"})
            reply = connection.getresponse()
            reply.read()
            self.assertEqual(reply.headers["Access-Control-Allow-Origin"], "http://pages.example")
            connection.request("GET", "/health")
            reply = connection.getresponse()
            reply.read()
            self.assertIsNone(reply.headers["Access-Control-Allow-Origin"])

    def test_one_model_by_its_name(self):
        self.assertEqual(self.one.get("/v1/models/tiny"), self.one.get("/v1/models")["data"][0])
        self.assert_refused(404, self.one.get, "/v1/models/gpt-17", headers=self.good)

    def test_models_by_their_aliases_only(self):
        for name in ("tiny", "tiny-one", ""):
            self.assertEqual(self.chat(self.good, model=name)["model"], "tiny")
        error = self.assert_refused(404, self.chat, self.good, model="gpt-17")
        self.assertIn("gpt-17", error["message"])


if __name__ == "__main__":
    main()
