"""The base of tests of exactness. The cache must never be seen in a text: greedy replies with it equal replies without it, wherever rows come from.

The truth for every request is the same request with cache_prompt off at a server of its own (`plain`). The models'
text depends on every token before it, so rows of another prefix, or a hole, would show.

Attention adds up its cells in the order in which they lie, and where sequences came and went a prompt does not lie in
order. That moves logits by less than NOISE (of about 2 root mean square) and tips the choice between two tokens that
are nearly as likely. So where texts differ, each token of the cached reply must be the truth's own choice, or become
it when it is favoured by NOISE (a case may know a larger one): rows of another prefix fail that at once.
"""

import concurrent.futures

from support import NOISE, ServerCase, assistant, model, reply_text, system, timings, user, words

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
CACHED = ("--restore", "always")


def common_length(left, right):
    return next((at for at, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))


class ExactnessCase(ServerCase):
    noise = NOISE
    shared_words = 300  # of the prompts at once
    step_words = 40  # from one of them to the next
    model_flags = ()
    cached_flags = CACHED

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, model_path=cls.model_path)
        cls.cached = cls.class_server(*cls.cached_flags, model_path=cls.model_path)

    def truth(self, path, body, **changed):
        body = {"temperature": 0, **body, "cache_prompt": False, "return_tokens": True, **changed}
        reply = self.plain.post(path, body)
        self.assertEqual(timings(reply)["cache_n"], 0)
        return reply

    def same(self, path, body, reply):
        """`reply` came for `body` from a server with a cache: it must be the truth."""
        usage = reply["usage"]
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], timings(reply)["cache_n"])
        self.assertEqual(timings(reply)["cache_n"] + timings(reply)["prompt_n"], usage["prompt_tokens"])
        truth = self.truth(path, body)
        if truth["tokens"] != reply["tokens"]:
            ids = body.get("prompt") or self.plain.prompt_ids(body["messages"])
            ids = self.plain.tokenize(ids, special=True) if isinstance(ids, str) else ids
            self.assertEqual(len(ids), usage["prompt_tokens"])
            return self.assert_within_noise(ids, body, reply["tokens"], common_length(truth["tokens"], reply["tokens"]))
        self.assertEqual(reply["choices"], truth["choices"])

    def assert_within_noise(self, prompt, body, tokens, at):
        """`tokens` is not the truth's greedy reply: is each of them nevertheless its choice, give or take NOISE?"""
        fields = {name: value for name, value in body.items() if name not in ("messages", "prompt", "stream")}
        while at < len(tokens):
            favoured = self.truth(COMPLETION, {**fields, "prompt": prompt + tokens[:at]}, max_tokens=1,
                                  logit_bias={str(tokens[at]): self.noise})
            self.assertEqual(favoured["tokens"], [tokens[at]], f"token {at} of {len(tokens)} is no close second")
            at += 1
            rest = self.truth(COMPLETION, {**fields, "prompt": prompt + tokens[:at]}, max_tokens=len(tokens) - at)
            at += common_length(rest["tokens"], tokens[at:])

    def same_chat(self, server, messages, **fields):
        """Asks both; the text must be the same. Returns the cached server's reply."""
        body = {"messages": messages, "max_tokens": 16, "temperature": 0, "return_tokens": True, **fields}
        reply = server.post(CHAT, body)
        self.same(CHAT, body, reply)
        return reply

    def same_at_once(self, server, prompts, **fields):
        """Asks all at the same time; each text must be the one by itself. Returns the replies."""
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            replies = list(pool.map(lambda messages: server.chat(messages, return_tokens=True, **fields), prompts))
        for messages, reply in zip(prompts, replies):
            self.same(CHAT, {"messages": messages, **fields}, reply)
        return replies

    def prompts_at_once(self):
        """More than -np, on one prefix and on their own, some long enough to be prefilled in slices of 64 tokens."""
        shared = [system(words(self.shared_words, 30))]
        prompts = [[*shared, user(words(5 + self.step_words * n, n))] for n in range(6)]
        return prompts + [[user(words(100 + n, 40 + n))] for n in range(6)]

    def same_completion(self, server, prompt, **fields):
        body = {"prompt": prompt, "max_tokens": 16, "temperature": 0, "return_tokens": True, **fields}
        reply = server.post(COMPLETION, body)
        self.same(COMPLETION, body, reply)
        return reply

    def grow(self, server, messages, turns, **fields):
        """A conversation of some turns; returns it and the cached tokens of each turn."""
        cached = []
        for turn in range(turns):
            messages = [*messages, user(f"Turn {turn}: {words(12, turn)}")]
            reply = self.same_chat(server, messages, **fields)
            cached.append(timings(reply)["cache_n"])
            messages = [*messages, assistant(reply_text(reply))]
        return messages, cached
