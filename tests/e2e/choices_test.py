"""Several replies in one request: choices of one prompt, several prompts, and both, in all dialects that have them."""

import re

from support import ServerCase, main, model, user, words

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
NATIVE = "/completion"
PROMPT = words(400, seed=1)


def deltas(server, path, body):
    """Texts and finish reasons by index, and the last usage, of a stream; checks that it ends once."""
    texts, ends, usages, last = {}, {}, [], None
    for _, last in server.stream(path, {**body, "stream": True, "stream_options": {"include_usage": True}}):
        if last == "[DONE]":
            break
        if last.get("usage"):
            usages.append(last["usage"])
        for choice in last["choices"]:
            index = choice["index"]
            texts[index] = texts.get(index, "") + (choice.get("text") or choice.get("delta", {}).get("content") or "")
            if choice["finish_reason"]:
                assert index not in ends, f"choice {index} ended twice"
                ends[index] = choice["finish_reason"]
    assert last == "[DONE]", last
    assert len(usages) == 1, usages
    return texts, ends, usages[0]


def peak_kib(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(r"^VmHWM:\s+(\d+)", file.read(), re.M)[1])


class Choices(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.one = cls.class_server("-c", 16384, "-np", 4)

    def computed(self, call):
        """The reply, and how many ids the model computed for it."""
        before = self.one.decoded_ids()
        reply = call()
        return reply, self.one.decoded_ids() - before

    def test_choices_of_a_chat_prefill_its_prompt_once(self):
        messages = [user(words(300, seed=2))]
        tokens = len(self.one.prompt_ids(messages))
        reply, computed = self.computed(lambda: self.one.post(CHAT, {
            "messages": messages, "n": 8, "max_tokens": 6, "seed": 5, "temperature": 2.0, "top_k": 0, "ignore_eos": True}))
        choices = reply["choices"]
        self.assertEqual([choice["index"] for choice in choices], list(range(8)))
        texts = [choice["message"]["content"] for choice in choices]
        self.assertGreater(len(set(texts)), 4, "each has a seed of its own")
        usage = reply["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]),
                         (tokens, 8 * 6, tokens + 8 * 6))
        self.assertEqual(computed, tokens - usage["prompt_tokens_details"]["cached_tokens"] + 8 * 5)
        alone = self.one.post(CHAT, {"messages": messages, "max_tokens": 6, "seed": 5, "temperature": 2.0, "top_k": 0,
                                     "ignore_eos": True})
        self.assertEqual(alone["choices"][0]["message"]["content"], texts[0], "the first one has the seed itself")

    def test_streams_interleave_choices(self):
        body = {"messages": [user(words(200, seed=3))], "n": 3, "max_tokens": 6, "temperature": 0}
        texts, ends, usage = deltas(self.one, CHAT, body)
        whole = self.one.post(CHAT, body)
        self.assertEqual(texts, {choice["index"]: choice["message"]["content"] for choice in whole["choices"]})
        self.assertEqual(ends, {index: "length" for index in range(3)})
        self.assertEqual(usage["completion_tokens"], 18)
        self.assertEqual(usage["prompt_tokens"], whole["usage"]["prompt_tokens"])

    def test_several_prompts(self):
        prompts = [words(50, seed=seed) for seed in range(10, 16)]
        body = {"max_tokens": 5, "temperature": 0}
        alone = [self.one.post(COMPLETION, {**body, "prompt": prompt}) for prompt in prompts]
        together = self.one.post(COMPLETION, {**body, "prompt": prompts})
        self.assertEqual([choice["text"] for choice in together["choices"]],
                         [reply["choices"][0]["text"] for reply in alone])
        self.assertEqual([choice["index"] for choice in together["choices"]], list(range(6)))
        for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(together["usage"][name], sum(reply["usage"][name] for reply in alone))
        texts, ends, usage = deltas(self.one, COMPLETION, {**body, "prompt": prompts})
        self.assertEqual([texts[index] for index in range(6)], [choice["text"] for choice in together["choices"]])
        self.assertEqual(set(ends.values()), {"length"})
        self.assertEqual(usage["total_tokens"], together["usage"]["total_tokens"])

    def test_prompts_and_choices(self):
        prompts = [words(40, seed=20), words(40, seed=21)]
        reply = self.one.post(COMPLETION, {"prompt": prompts, "n": 3, "max_tokens": 4, "temperature": 0})
        texts = [choice["text"] for choice in reply["choices"]]
        self.assertEqual(texts, [texts[0]] * 3 + [texts[3]] * 3)
        self.assertEqual([choice["index"] for choice in reply["choices"]], list(range(6)))

    def test_forms_of_prompts(self):
        ids = self.one.tokenize(words(30, seed=30))
        text = words(30, seed=30)
        body = {"max_tokens": 4, "temperature": 0}

        def texts(prompt):
            return [choice["text"] for choice in self.one.post(COMPLETION, {**body, "prompt": prompt})["choices"]]

        expected = texts(text)
        self.assertEqual(texts(ids), expected)
        self.assertEqual(texts([text]), expected)
        self.assertEqual(texts([ids, text]), expected * 2)
        self.assertEqual(texts([text, ids[:5] + [""] + ids[5:]]), expected * 2)
        self.assertEqual(texts(ids[:5] + ["", *ids[5:]]), expected, "one prompt of both")

    def test_native_replies(self):
        body = {"prompt": [PROMPT, "Other"], "n_predict": 4, "temperature": 0}
        replies = self.one.post(NATIVE, body)
        self.assertEqual([(reply["index"], reply["prompt"]) for reply in replies], [(0, PROMPT), (1, "Other")])
        self.assertIsInstance(self.one.post(NATIVE, {**body, "prompt": [PROMPT]}), dict)
        replies, computed = self.computed(lambda: self.one.post(NATIVE, {**body, "prompt": words(90, seed=40), "n_cmpl": 6}))
        self.assertEqual([reply["index"] for reply in replies], list(range(6)))
        self.assertEqual(len({reply["content"] for reply in replies}), 1)
        self.assertEqual(computed, replies[0]["timings"]["prompt_n"] + 6 * 3)
        ended, texts = [], {}
        for _, event in self.one.stream(NATIVE, {**body, "stream": True}):
            texts[event["index"]] = texts.get(event["index"], "") + event["content"]
            if event["stop"]:
                ended.append(event["index"])
        self.assertEqual(sorted(ended), [0, 1])
        self.assertEqual(texts[0], self.one.post(NATIVE, {**body, "prompt": PROMPT})["content"])

    def test_choices_without_the_cache_share_the_prompt(self):
        reply, computed = self.computed(lambda: self.one.post(COMPLETION, {
            "prompt": PROMPT, "n": 3, "max_tokens": 3, "temperature": 0, "cache_prompt": False}))
        self.assertEqual(computed, reply["usage"]["prompt_tokens"] + 3 * 2)

    def test_limits(self):
        for field in ("n", "n_cmpl"):
            for value in (0, -1, 129, 1.5, "2", True):
                self.assert_refused(400, self.one.post, CHAT, {"messages": [user("a")], field: value}, contains=field)
        self.assert_refused(400, self.one.post, COMPLETION, {"prompt": ["a"] * 1025}, contains="prompt")
        self.assert_refused(400, self.one.post, COMPLETION, {"prompt": ["a"] * 9, "n": 128}, contains="replies")
        self.assert_refused(400, self.one.post, COMPLETION, {"prompt": ["a", ""]}, contains="prompt")
        self.assert_refused(400, self.one.post, COMPLETION, {"prompt": ["a", words(20000)]}, contains="context")

    # As maps of their own, the likeliest tokens of such a reply took 300 MB; as numbers they take 2 MB.
    def test_probabilities_take_the_memory_of_their_numbers(self):
        server = self.server("-np", 4)
        ask = {"prompt": "hello", "n": 4, "max_tokens": 250, "temperature": 1, "logprobs": 256, "ignore_eos": True}
        server.post(COMPLETION, {**ask, "max_tokens": 2})
        before = peak_kib(server)
        reply = server.post(COMPLETION, ask)
        self.assertEqual([len(choice["logprobs"]["content"]) for choice in reply["choices"]], [250] * 4)
        self.assertEqual(len(reply["choices"][3]["logprobs"]["top_logprobs"][249]), 256)
        self.assertLess(peak_kib(server) - before, 64 << 10)
        too_much = {**ask, "n": 128, "max_tokens": 4000}
        self.assert_refused(400, server.post, COMPLETION, too_much, contains="'logprobs'")
        self.assert_refused(400, server.post, "/completion", {**too_much, "prompt": ["a", "b"]}, contains="'logprobs'")
        for _ in server.stream(COMPLETION, {**too_much, "stream": True}):
            break  # a stream keeps none

    def test_a_client_that_leaves_ends_all_choices(self):
        for _ in self.one.stream(CHAT, {"messages": [user("hi")], "n": 4, "stream": True, "ignore_eos": True}):
            break
        reply = self.one.chat([user("there")], max_tokens=2)
        self.assertEqual(reply["usage"]["completion_tokens"], 2)


class ChoicesOfOtherModels(ServerCase):
    def test_choices_share_a_prompt_whose_state_are_points(self):
        for architecture in ("gemma3", "qwen35", "mamba"):
            with self.subTest(architecture=architecture):
                one = self.server("-np", 3, model_path=model("--arch", architecture))
                before = one.decoded_ids()
                reply = one.post(COMPLETION, {"prompt": words(200), "n": 5, "max_tokens": 4, "temperature": 0})
                self.assertEqual(len({choice["text"] for choice in reply["choices"]}), 1)
                self.assertEqual(one.decoded_ids() - before, reply["usage"]["prompt_tokens"] + 5 * 3)


if __name__ == "__main__":
    main()
