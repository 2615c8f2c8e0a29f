"""`--trace FILE`, what `kvkeep replay` makes of it, and POST /cache/lookup, over HTTP with the real program."""

import json
import os
import stat
import threading

from flag_case import FlagCase, covers
from media_test import png, shows
from support import (assistant, fresh_directory, fresh_path, main, model, needs_libmtmd, reply_text, run_program,
                     serve_command, system, timings, user, wait_until, words)

COMPLETION = "/v1/completions"
CHAT = "/v1/chat/completions"
LOOKUP = "/cache/lookup"


def lines_of(path, count):
    """The lines of a trace, once there are so many: they are written behind the replies."""

    def read():
        with open(path) as file:
            lines = file.read().splitlines()
        return lines if len(lines) >= count else None

    lines = wait_until(read, f"{count} lines in {path}")
    return [json.loads(line) for line in lines]


class Trace(FlagCase):
    @covers("--trace")
    def test_a_line_per_request_agrees_with_its_reply(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path)
        talk = [system(words(80, 1)), user(words(30, 2))]
        replies = [server.chat(talk, max_tokens=8)]
        talk += [assistant(reply_text(replies[0])), user(words(20, 3))]
        replies.append(server.chat(talk, max_tokens=8))
        replies.append(server.post(COMPLETION, {"prompt": words(40, 4), "max_tokens": 4, "temperature": 0}))
        lines = lines_of(path, 3)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual([line["route"] for line in lines], ["chat", "chat", "completion"])
        self.assertEqual([line["path"] for line in lines], [CHAT, CHAT, COMPLETION])
        for line, reply in zip(lines, replies):
            told = timings(reply)
            self.assertEqual(line["id"], reply["id"])
            self.assertEqual(line["effective_prompt_tokens"], reply["usage"]["prompt_tokens"])
            self.assertEqual(line["cached_tokens"], told["cache_n"])
            self.assertEqual(line["prefilled_tokens"], told["prompt_n"])
            self.assertEqual(line["predicted_tokens"], reply["usage"]["completion_tokens"])
            self.assertEqual(line["cache_source"], told["cache_source"])
            self.assertEqual(line["cache_tokens"], told["cache_tokens"])
            self.assertEqual(line["cache_point"], told["cache_point"])
            self.assertEqual(line["cache_miss_reason"], told["cache_miss_reason"])
            self.assertEqual(line["inflight"], 1)
            self.assertTrue(line["cuts"])
            self.assertGreater(line["stored_bytes"], 0)
        self.assertGreater(lines[1]["cached_tokens"], 80)
        self.assertEqual(lines[1]["candidates"][0]["verdict"], "taken")
        self.assertLessEqual(lines[0]["t"], lines[1]["t"])

    def test_a_line_shows_the_first_difference_in_tokens_and_text(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path, "--trace-prompts")
        before, after = words(60, 1), words(60, 2)
        for word in ("apple", "zebra"):
            server.post(COMPLETION, {"prompt": f"{before} {word} {after}", "max_tokens": 1, "temperature": 0})
        line = lines_of(path, 2)[1]
        difference = line["first_difference"]
        self.assertEqual(difference["at"], line["cached_tokens"])
        sides = [difference["prompt"], difference["cached"]]
        place = difference["at"] - difference["begin"]
        self.assertEqual(sides[0]["ids"][:place], sides[1]["ids"][:place])
        self.assertNotEqual(sides[0]["ids"][place], sides[1]["ids"][place])
        for side, word in zip(sides, ("zebra", "apple")):
            self.assertEqual(len(side["ids"]), len(side["texts"]))
            self.assertIn(word[0], "".join(side["texts"][place:]))

    @covers("--trace-prompts")
    def test_texts_where_prompts_part_are_only_there_with_the_flag(self):
        for flags, private in (((), False), (("--trace-prompts",), True)):
            path = fresh_path("trace.jsonl")
            server = self.server("--trace", path, *flags, "--api-key", "one", "--api-key", "two")
            for key, codename in (("one", "Zanzibar"), ("two", "Quetzal")):
                server.post(CHAT, {"messages": [system(f"{words(60, 1)}\nThe codename is {codename}. {words(60, 2)}"),
                                                user("x")], "max_tokens": 1},
                            headers={"Authorization": f"Bearer {key}"})
            line = lines_of(path, 2)[1]
            with self.subTest(flags=flags):
                self.assertEqual(line["cache_break"]["at"], line["first_difference"]["at"])
                self.assertEqual("text" in line["cache_break"], private)
                with open(path) as file:
                    written = file.read()
                for codename in ("Zanzibar", "Quetzal"):
                    self.assertEqual(codename in written, private)
                for side in ("prompt", "cached"):
                    self.assertEqual(line["first_difference"][side] is not None, private)

    @covers("--trace-prompts")
    def test_texts_of_users_are_only_there_with_the_flag(self):
        secret = "a-secret-key"
        body = {"messages": [user("the gardener plants purple beans")], "max_tokens": 4, "temperature": 0,
                "user": "ada", "prompt_cache_key": "k1"}
        headers = {"Authorization": f"Bearer {secret}", "X-Session-Id": "s1", "Cookie": "c"}
        for flags, private in (((), False), (("--trace-prompts",), True)):
            path = fresh_path("trace.jsonl")
            server = self.server("--trace", path, *flags, "--api-key", secret)
            reply = server.post(CHAT, body, headers=headers)
            line = lines_of(path, 1)[0]
            self.assertEqual(line["headers"], {"x-session-id": "s1"})
            self.assertEqual((line["user"], line["prompt_cache_key"]), ("ada", "k1"))
            with open(path) as file:
                text = file.read()
            self.assertNotIn(secret, text)
            self.assertEqual("purple" in text, private)
            if private:
                self.assertEqual(line["body"], body)
                self.assertEqual(line["reply"], {"role": "assistant", "content": reply_text(reply)})
            else:
                self.assertNotIn("body", line)

    def test_replay_plays_a_trace(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path, "--trace-prompts")
        talk = [system(words(80, 1)), user(words(30, 2))]
        for turn in range(3):
            reply = server.chat(talk, max_tokens=8)
            talk += [assistant(reply_text(reply)), user(words(20, 10 + turn))]
        server.post(COMPLETION, {"prompt": words(40, 4), "max_tokens": 4, "temperature": 0})
        server.post("/cache/warm", {"messages": [user(words(50, 77))]})
        *lines, warmed = lines_of(path, 5)
        self.assertEqual((warmed["route"], warmed["path"]), ("warm", None), "no request for a reply, so not played")
        server.stop()
        again = self.server()
        report = fresh_path("report.json")
        run = run_program("replay", "--url", f"http://127.0.0.1:{again.port}", "--fast", "--json", report, path)
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        with open(report) as file:
            played = json.load(file)["runs"][0]["requests"]
        self.assertEqual([one["prompt_tokens"] for one in played],
                         [line["effective_prompt_tokens"] for line in lines])
        self.assertEqual([one["cached_tokens"] for one in played], [line["cached_tokens"] for line in lines])

    @needs_libmtmd
    @covers("--trace-media")
    def test_pictures_are_hashes_unless_they_are_asked_for(self):
        kind = ("--arch", "qwen3vl")
        flags = ("--mmproj", model("--mmproj", *kind))
        talk = [shows(png(1, 832, 608), "What is it?"), assistant("A tree."), shows(png(2, 832, 608), "And this?")]
        bodies = [{"messages": talk[:1], "max_tokens": 4, "temperature": 0}, {"messages": talk, "max_tokens": 4, "temperature": 0}]
        for more in ((), ("--trace-media",)):
            path = fresh_path("trace.jsonl")
            server = self.server(*flags, "--trace", path, "--trace-prompts", *more, model_path=model(*kind))
            for body in bodies:
                server.post(CHAT, body)
            lines = lines_of(path, 2)
            server.stop()
            recorded = [line["body"] for line in lines]
            self.assertEqual(recorded == bodies, bool(more))
            if not more:
                urls = [message["content"][0]["image_url"]["url"] for message in recorded[1]["messages"][::2]]
                self.assertRegex(urls[0], r"^data:image/png;base64,kvkeep-media:picture:[0-9a-f]{32}:\d+$")
                self.assertEqual(recorded[0]["messages"][0]["content"][0]["image_url"]["url"], urls[0])
                self.assertNotEqual(urls[0], urls[1])
            again = self.server(*flags, model_path=model(*kind))
            report = fresh_path("report.json")
            run = run_program("replay", "--url", f"http://127.0.0.1:{again.port}", "--fast", "--json", report, path)
            self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
            with open(report) as file:
                played = json.load(file)["runs"][0]
            self.assertEqual([one["prompt_tokens"] for one in played["requests"]],
                             [line["effective_prompt_tokens"] for line in lines], "stand-ins have the same size here")
            self.assertEqual([one["cached_tokens"] for one in played["requests"]], [line["cached_tokens"] for line in lines])
            self.assertEqual(any("in place of 2 pictures" in problem for problem in played["problems"]), not more)

    def test_replay_says_what_a_trace_without_prompts_lacks(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path)
        server.chat([user("hi")], max_tokens=1)
        lines_of(path, 1)
        run = run_program("replay", "--url", f"http://127.0.0.1:{server.port}", path)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--trace-prompts", run.stderr)

    def test_a_file_that_was_moved_away_is_made_anew(self):
        path, old = fresh_path("trace.jsonl"), fresh_path("old.jsonl")
        server = self.server("--trace", path)
        server.chat([user("one")], max_tokens=1)
        lines_of(path, 1)
        os.rename(path, old)
        server.chat([user("two")], max_tokens=1)
        wait_until(lambda: os.path.exists(path), "a new file")
        lines_of(path, 1)
        self.assertEqual(len(lines_of(old, 1)), 1)

    def test_a_file_that_cannot_be_written_fails_no_request(self):
        server = self.server("--trace", "/dev/full")
        for number in range(3):
            self.assertTrue(server.chat([user(f"hello {number}")], max_tokens=4)["choices"])
        wait_until(lambda: "trace: write /dev/full" in server.log(), "a warning")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.log().count("trace: write"), 1)
        self.assertIn("trace: 3 requests are missing", server.log())

    def test_a_file_that_cannot_be_opened_is_reported_before_the_model_is_loaded(self):
        for bad in (fresh_directory(), fresh_path("no/such")):
            run = run_program(*serve_command("--no-kv-disk", "--port", "0", "--trace", bad)[1:])
            self.assertEqual(run.returncode, 1)
            self.assertIn("--trace: open " + bad, run.stderr)
            self.assertNotIn("loading", run.stderr)

    def test_requests_in_flight_together_have_a_line_each(self):
        path = fresh_path("trace.jsonl")
        server = self.server("--trace", path)
        threads = [threading.Thread(target=server.chat, args=([user(words(50, number))],), kwargs={"max_tokens": 16})
                   for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = lines_of(path, 6)
        self.assertEqual(len({line["id"] for line in lines}), 6)
        self.assertTrue(all(1 <= line["inflight"] <= 6 for line in lines))


class Lookup(FlagCase):
    def test_replies_that_come_back_as_text(self):
        """The model's text rarely tokenizes to the ids that it sampled; ids that are not plain ASCII are forbidden."""
        path = fresh_path("trace.jsonl")
        server = self.server("--restore", "always", "--replay", "canonical", "--no-prefill-ahead", "--trace", path,
                             model_path=model("--free-output"))
        size = server.get("/v1/models")["data"][0]["meta"]["n_vocab"]
        pieces = [server.post("/detokenize", {"tokens": [token]})["content"] for token in range(size)]
        forbidden = [[token, False] for token, piece in enumerate(pieces)
                     if not (piece.isascii() and piece.isprintable() and piece.strip() == piece and piece)
                     or "<" in piece]
        talk = [user(words(40, 1))]
        reply = server.chat(talk, max_tokens=40, logit_bias=forbidden)
        talk += [assistant(reply_text(reply)), user(words(10, 2))]
        asked = server.post(LOOKUP, {"messages": talk})
        reply = server.chat(talk, max_tokens=1)
        line = lines_of(path, 2)[1]
        self.assertEqual(line["cache_source"], "memory-text")
        self.assertEqual(line["cache_source"], timings(reply)["cache_source"])
        self.assertGreater(line["text_from"], 40)
        self.assertLess(line["text_from"], line["cached_tokens"])
        self.assertEqual(line["effective_prompt_tokens"], line["cached_tokens"] + line["prefilled_tokens"])
        self.assertEqual(line["prompt_tokens"], len(server.prompt_ids(talk)))
        for name in ("prompt_tokens", "effective_prompt_tokens", "text_from", "cache_source", "cached_tokens",
                     "cache_miss_reason", "known_tokens"):
            self.assertEqual(asked[name], line[name], name)

    def test_says_what_a_request_would_reuse_and_touches_nothing(self):
        server = self.server()
        talk = [system(words(80, 1)), user(words(30, 2))]
        empty = server.post(LOOKUP, {"messages": talk})
        self.assertEqual((empty["cached_tokens"], empty["cache_miss_reason"]), (0, "nothing-cached"))
        self.assertEqual(server.decoded_ids(), 0)
        talk += [assistant(reply_text(server.chat(talk, max_tokens=8))), user(words(20, 3))]
        decoded = server.decoded_ids()
        answers = [server.post(LOOKUP, {"messages": talk}) for _ in range(3)]
        self.assertEqual(server.decoded_ids(), decoded)
        for answer in answers:
            self.assertEqual(answer["cached_tokens"] + answer["prefill_tokens"], answer["effective_prompt_tokens"])
        reply = server.chat(talk, max_tokens=1)
        for name in ("cache_source", "cache_tokens", "cache_miss_reason"):
            self.assertEqual([answer[name] for answer in answers], [timings(reply)[name]] * 3)
        self.assertEqual([answer["cached_tokens"] for answer in answers], [timings(reply)["cache_n"]] * 3)
        self.assertEqual(answers[0]["effective_prompt_tokens"], reply["usage"]["prompt_tokens"])

    def test_takes_messages_text_and_tokens_alike(self):
        server = self.server()
        talk = [user(words(60, 1))]
        server.chat(talk, max_tokens=1)
        prompt = server.post("/apply-template", {"messages": talk})["prompt"]
        asked = [{"messages": talk}, {"prompt": prompt}, {"tokens": server.prompt_ids(talk)}]
        answers = [server.post(LOOKUP, body) for body in asked]
        self.assertGreater(answers[0]["cached_tokens"], 60)
        self.assertEqual([answer["cached_tokens"] for answer in answers], [answers[0]["cached_tokens"]] * 3)
        off = server.post(LOOKUP, {"messages": talk, "cache_prompt": False})
        self.assertEqual((off["cached_tokens"], off["cache_miss_reason"]), (0, "cache-off"))

    def test_shows_what_others_sent_only_with_trace_prompts(self):
        for flags, shown in (((), False), (("--trace", fresh_path("t.jsonl")), False),
                             (("--trace", fresh_path("t.jsonl"), "--trace-prompts"), True)):
            server = self.server(*flags)
            server.post(COMPLETION, {"prompt": words(40, 1) + " purple", "max_tokens": 1})
            answer = server.post(LOOKUP, {"prompt": words(40, 1) + " yellow"})
            self.assertEqual(answer["first_difference"]["cached"] is not None, shown)
            self.assertTrue(answer["first_difference"]["prompt"]["ids"])

    def test_refuses_in_the_words_of_other_routes(self):
        server = self.server("-c", "512", "--api-key", "k")
        key = {"headers": {"Authorization": "Bearer k"}}
        for body, words_of_it in (({}, "exactly one of"), ({"prompt": "a", "tokens": [1]}, "exactly one of"),
                                  ({"tokens": []}, "'tokens'"), ({"tokens": "x"}, "'tokens'"),
                                  ({"tokens": [-1]}, "'tokens'"), ({"tokens": [1 << 40]}, "'tokens'"),
                                  ({"prompt": ""}, "'prompt'"), ({"messages": []}, "messages"), ("no json", "JSON")):
            self.assert_refused(400, server.post, LOOKUP, body, contains=words_of_it, **key)
        error = self.assert_refused(400, server.post, LOOKUP, {"tokens": [1] * 600}, **key)
        self.assertEqual(error["type"], "exceed_context_size_error")
        self.assert_refused(401, server.post, LOOKUP, {"tokens": [1]})
        self.assertEqual(server.post(LOOKUP, {"tokens": [1]}, **key)["cached_tokens"], 0)

    def test_is_answered_while_others_generate(self):
        server = self.server()
        thread = threading.Thread(target=server.chat, args=([user(words(600, 1))],), kwargs={"max_tokens": 100})
        thread.start()
        for number in range(20):
            self.assertIn("candidates", server.post(LOOKUP, {"prompt": words(30, number)}))
        thread.join()


if __name__ == "__main__":
    main()
