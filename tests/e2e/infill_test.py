"""Filling gaps in text, and what editors send: /infill, `suffix`, limits of time and lines, chosen fields, `echo`."""

from flag_case import covers
from support import ServerCase, main, words

COMPLETION = "/v1/completions"
NATIVE = "/completion"
INFILL = "/infill"
CODE = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n"
# As llama.vim sends it while a user types.
VIM = {"id_slot": 0, "input_prefix": CODE, "input_suffix": "\n\nprint(volume(1, 2, 3))\n", "prompt": "    return ",
       "input_extra": [{"text": words(60, seed=1), "time": 5, "filename": "a.py"},
                       {"text": words(60, seed=2), "time": 6, "filename": "b.py"}],
       "n_predict": 8, "n_indent": 0, "top_k": 40, "top_p": 0.9, "stream": False, "cache_prompt": True,
       "t_max_prompt_ms": 500000, "t_max_predict_ms": 1000000, "temperature": 0,
       "response_fields": ["content", "timings/prompt_n", "timings/cache_n", "timings/predicted_n", "truncated",
                           "tokens_cached", "generation_settings/n_predict", "not/there"]}


class Infill(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", 4096)

    def ids(self, text):
        return self.one.tokenize(text, special=True)

    def test_an_editors_requests(self):
        first = self.one.post(INFILL, VIM)
        self.assertEqual(set(first), set(VIM["response_fields"]) - {"not/there"})
        self.assertEqual((first["timings/predicted_n"], first["generation_settings/n_predict"], first["truncated"]),
                         (8, 8, False))
        typed = self.one.post(INFILL, {**VIM, "prompt": "    return width "})
        self.assertGreater(typed["timings/cache_n"], 120, "other files and the text before the gap stay cached")
        self.assertLess(typed["timings/prompt_n"], 30)

    def test_the_prompt_is_in_the_models_order(self):
        body = {"n_predict": 6, "temperature": 0, "input_prefix": "one two", "input_suffix": " four", "prompt": " three"}

        def same(infill, spelled):
            by_hand = self.one.post(NATIVE, {"prompt": spelled, "n_predict": 6, "temperature": 0})
            self.assertEqual((infill["content"], infill["tokens_evaluated"]),
                             (by_hand["content"], by_hand["tokens_evaluated"]))

        same(self.one.post(INFILL, body),
             "<|repo_name|>myproject\n<|file_sep|>filename\n<|fim_prefix|>one two three<|fim_suffix|> four<|fim_middle|>")
        same(self.one.post(INFILL, {**body, "input_extra": [{"text": "red green", "filename": "x.c"}]}),
             "<|repo_name|>myproject\n<|file_sep|>x.c\nred green<|file_sep|>filename\n"
             "<|fim_prefix|>one two three<|fim_suffix|> four<|fim_middle|>")

    def test_markers_in_texts_are_text(self):
        reply = self.one.post(INFILL, {"input_prefix": "a<|fim_middle|>b", "input_suffix": "", "n_predict": 0})
        marked = self.one.post(INFILL, {"input_prefix": "ab", "input_suffix": "", "n_predict": 0})
        self.assertGreater(reply["tokens_evaluated"], marked["tokens_evaluated"] + 3)

    def test_long_texts_are_cut_to_the_context(self):
        body = {"input_prefix": words(9000, seed=3), "input_suffix": words(9000, seed=4), "n_predict": 4,
                "input_extra": [{"text": words(500, seed=5), "filename": "x"}], "temperature": 0}
        reply = self.one.post(INFILL, body)
        self.assertGreater(reply["tokens_evaluated"], 3500)
        typed = self.one.post(INFILL, {**body, "prompt": " more"})
        self.assertGreater(typed["timings"]["cache_n"], 2500, "the prompt begins at the same place")

    def test_suffix(self):
        gap = self.one.post(COMPLETION, {"prompt": "one two", "suffix": " four", "max_tokens": 6, "temperature": 0})
        by_hand = self.one.post(COMPLETION, {"prompt": "<|fim_prefix|>one two<|fim_suffix|> four<|fim_middle|>",
                                             "max_tokens": 6, "temperature": 0})
        self.assertEqual(gap["choices"][0]["text"], by_hand["choices"][0]["text"])
        self.assertEqual(gap["usage"]["prompt_tokens"], by_hand["usage"]["prompt_tokens"])

    @covers("--spm-infill")
    def test_the_suffix_may_come_first(self):
        other = self.server("-c", 512, "--spm-infill")
        gap = {"prompt": "one two", "suffix": " four", "max_tokens": 6, "temperature": 0}
        by_hand = {**gap, "prompt": "<|fim_suffix|> four<|fim_prefix|>one two<|fim_middle|>", "suffix": ""}
        self.assertEqual(*(other.post(COMPLETION, body)["choices"][0]["text"] for body in (gap, by_hand)))

    def test_bad_requests(self):
        for change, name in (({"input_prefix": None}, "input_prefix"), ({"input_suffix": None}, "input_suffix"),
                             ({"input_prefix": 5}, "input_prefix"), ({"prompt": ["a"]}, "prompt"),
                             ({"input_extra": "x"}, "input_extra"), ({"input_extra": [5]}, "input_extra"),
                             ({"input_extra": [{}]}, "text"), ({"input_extra": [{"text": 5}]}, "text"),
                             ({"input_extra": [{"text": "x"}] * 1025}, "input_extra"), ({"echo": True}, "echo")):
            with self.subTest(change=change):
                self.assert_refused(400, self.one.post, INFILL, {**VIM, **change}, contains=name)


class Limits(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", 4096)
        tokens = {text: cls.one.tokenize(text) for text in ("\n", "  ")}
        assert all(len(ids) == 1 for ids in tokens.values()), tokens
        cls.new_line, cls.blanks = tokens["\n"][0], tokens["  "][0]

    def test_time_ends_a_reply_with_its_line(self):
        # A grammar of lines: words, then an end of line.
        body = {"prompt": "x", "n_predict": 2000, "temperature": 0, "t_max_predict_ms": 300,
                "grammar": 'root ::= ("abc abc abc\\n")+ '}
        reply = self.one.post(NATIVE, body)
        self.assertEqual((reply["stop_type"], reply["truncated"]), ("limit", False))
        self.assertTrue(reply["content"].endswith("\n"), reply["content"][-20:])
        self.assertLess(reply["tokens_predicted"], 2000)
        self.assertGreater(reply["timings"]["predicted_ms"], 250)
        self.assertGreater(self.one.post(NATIVE, {**body, "t_max_predict_ms": 0, "n_predict": 30})["tokens_predicted"], 29)

    def test_indentation_ends_a_reply(self):
        body = {"prompt": "x", "n_predict": 100, "temperature": 0, "grammar": 'root ::= "a\\n    b\\n  c\\n    d"'}
        self.assertEqual(self.one.post(NATIVE, body)["content"], "a\n    b\n  c\n    d")
        reply = self.one.post(NATIVE, {**body, "n_indent": 4})
        self.assertEqual((reply["content"], reply["stop_type"]), ("a\n    b\n  ", "limit"))
        text = "".join(event["content"] for _, event in self.one.stream(NATIVE, {**body, "n_indent": 4, "stream": True}))
        self.assertEqual(text, reply["content"])

    def test_time_ends_a_prefill(self):
        prompt = words(3000, seed=9)
        reply = self.one.post(NATIVE, {"prompt": prompt, "n_predict": 3, "t_max_prompt_ms": 1})
        self.assertEqual((reply["stop_type"], reply["tokens_predicted"], reply["content"]), ("limit", 0, ""))
        timings = reply["timings"]
        self.assertLess(timings["cache_n"] + timings["prompt_n"], 2500, "only what was prefilled counts")
        self.assertGreater(timings["prompt_n"], 0)
        self.assertGreater(timings["prompt_ms"], 0)
        again = self.one.post(NATIVE, {"prompt": prompt, "n_predict": 3})
        self.assertEqual(again["tokens_predicted"], 3)
        self.assertGreater(again["timings"]["cache_n"], 100, "what was computed is not lost")

    def test_texts_bias_their_tokens(self):
        body = {"prompt": "one two", "max_tokens": 4, "temperature": 0}
        for bias in ({" river": 100}, [[" river", 100]]):
            reply = self.one.post(COMPLETION, {**body, "logit_bias": bias})
            self.assertEqual(reply["choices"][0]["text"].strip(), "river river river river")
        forbidden = self.one.post(COMPLETION, {**body, "logit_bias": [[" river", 100], [" river", False]]})
        self.assertNotIn("river", forbidden["choices"][0]["text"])

    def test_probabilities_of_the_draw(self):
        body = {"prompt": "one two", "n_predict": 6, "n_probs": 5, "post_sampling_probs": True, "seed": 3, "top_k": 3,
                "top_p": 1, "min_p": 0, "temperature": 1.5}
        reply = self.one.post(NATIVE, body)
        for token in reply["completion_probabilities"]:
            shown = [other["prob"] for other in token["top_probs"]]
            self.assertEqual(len(shown), 3, "the others were cut off")
            self.assertAlmostEqual(sum(shown), 1, delta=1e-4)
            self.assertEqual(shown, sorted(shown, reverse=True))
            self.assertIn(token["id"], [other["id"] for other in token["top_probs"]])
        plain = self.one.post(NATIVE, {**body, "post_sampling_probs": False})
        self.assertEqual(plain["content"], reply["content"], "the draw is the same")
        grammar = self.one.post(NATIVE, {**body, "grammar": 'root ::= "a" | "b"', "temperature": 0})
        self.assertEqual(grammar["completion_probabilities"][0]["prob"], 1)
        chat = self.one.chat([{"role": "user", "content": "hi"}], max_tokens=2, logprobs=True, top_logprobs=2,
                             post_sampling_probs=True)
        self.assertEqual(chat["choices"][0]["logprobs"]["content"][0]["prob"], 1)

    def test_echo(self):
        body = {"prompt": ["one two", [1, 2, 3]], "max_tokens": 4, "temperature": 0}
        plain = [choice["text"] for choice in self.one.post(COMPLETION, body)["choices"]]
        echoed = [choice["text"] for choice in self.one.post(COMPLETION, {**body, "echo": True})["choices"]]
        ids = self.one.post("/detokenize", {"tokens": [1, 2, 3]})["content"]
        self.assertEqual(echoed[0], "one two" + plain[0])
        self.assertEqual(echoed[1], ids + plain[1])
        texts = {}
        for _, event in self.one.stream(COMPLETION, {**body, "echo": True, "stream": True}):
            if event == "[DONE]":
                break
            for choice in event["choices"]:
                texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
        self.assertEqual([texts[0], texts[1]], echoed)

    def test_echo_with_the_scores_of_the_prompt(self):
        body = {"prompt": words(100, seed=50), "max_tokens": 8, "temperature": 0, "logprobs": 2}
        reply = self.one.post(COMPLETION, body)["choices"][0]
        before = self.one.decoded_ids()
        scored = self.one.post(COMPLETION, {**body, "prompt": body["prompt"] + reply["text"], "echo": True, "max_tokens": 0})
        probabilities, prompt = scored["choices"][0]["logprobs"], scored["usage"]["prompt_tokens"]
        self.assertEqual(self.one.decoded_ids() - before, prompt, "all of it is prefilled")
        self.assertEqual((scored["choices"][0]["text"], scored["timings"]["cache_miss_reason"]),
                         (body["prompt"] + reply["text"], "prompt-scored"))
        self.assertEqual({len(probabilities[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")},
                         {prompt})
        self.assertIsNone(probabilities["token_logprobs"][0])
        self.assertEqual(probabilities["tokens"][-8:], reply["logprobs"]["tokens"])
        for told, sampled in zip(probabilities["token_logprobs"][-8:], reply["logprobs"]["token_logprobs"]):
            self.assertAlmostEqual(told, sampled, delta=0.3)
        self.assertEqual(list(probabilities["top_logprobs"][-1]), list(reply["logprobs"]["top_logprobs"][-1]))
        # Requests after it use what it stored; two replies share the scores, also in a stream.
        self.assertGreater(self.one.post(COMPLETION, body)["timings"]["cache_n"], 90)
        twice = {**body, "echo": True, "n": 2, "max_tokens": 2, "return_progress": True}
        whole = self.one.post(COMPLETION, twice)["choices"]
        self.assertEqual(whole[0]["logprobs"]["tokens"], whole[1]["logprobs"]["tokens"])
        streamed = {}
        for _, event in self.one.stream(COMPLETION, {**twice, "stream": True}):
            for choice in event["choices"] if event != "[DONE]" else ():
                streamed.setdefault(choice["index"], []).extend((choice["logprobs"] or {"tokens": []})["tokens"])
        self.assertEqual([streamed[0], streamed[1]], [choice["logprobs"]["tokens"] for choice in whole])


if __name__ == "__main__":
    main()
