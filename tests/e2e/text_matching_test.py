"""Replies that come back as text, in other ids than were sampled, are not computed again; and what is reused is never
seen in a text: the truth is the effective prompt, computed from nothing.

The models here may generate any id (--free-output), so their text rarely tokenizes to the ids that were sampled. Ids
that are not plain ASCII are forbidden: what a client is told of broken UTF-8 has other bytes.
"""

import itertools

from exactness_case import COMPLETION, ExactnessCase, common_length
from support import NOISE, assistant, fresh_directory, main, model, system, timings, user, words


class TextCase(ExactnessCase):
    """One server without a cache (`plain`) and what is known of the model's vocabulary."""

    architecture = "llama"

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model("--arch", cls.architecture, "--free-output")
        cls.plain = cls.class_server("--cache-ram", 0, model_path=cls.model_path)
        size = cls.plain.get("/v1/models")["data"][0]["meta"]["n_vocab"]
        cls.pieces = [cls.plain.post("/detokenize", {"tokens": [token]})["content"] for token in range(size)]
        plain_text = [piece.isascii() and piece.isprintable() and piece.strip() == piece and "<" not in piece
                      and piece != "" for piece in cls.pieces]
        cls.forbidden = [[token, False] for token in range(size) if not plain_text[token]]

    def matching(self, how, *flags):
        return self.server("--restore", "always", "--match", how, "--replay", "canonical", "--no-prefill-ahead", *flags,
                           model_path=self.model_path)

    def ask(self, server, messages, max_tokens=40):
        return server.chat(messages, max_tokens=max_tokens, return_tokens=True, logit_bias=self.forbidden)

    def text(self, tokens):
        return self.plain.post("/detokenize", {"tokens": tokens})["content"]

    def next_turn(self, messages, reply, number):
        """The reply as a client sends it back. Of the ids that were sampled the last was never evaluated."""
        return [*messages, assistant(self.text(reply["tokens"][:-1])), user(f"{number} {words(10, number)}")]

    def letters(self, ids):
        """Ids as letters: a marker, or what has no text, is a letter of its own."""
        return [self.pieces[token] or chr(0xE000 + token) for token in ids]

    def effective(self, known, sampled, prompt):
        """The prompt with its head in known ids, and the length of that head: by whole texts and the ends of pieces,
        naively. `sampled` tells for each known id whether it was sampled."""
        def ends(ids):
            lengths = itertools.accumulate(len(letters) for letters in self.letters(ids))
            return {length: at + 1 for at, length in enumerate(lengths)}

        known_text, prompt_text = ("".join(self.letters(ids)) for ids in (known, prompt))
        agree = common_length(known_text, prompt_text)
        known_ends, prompt_ends = ends(known), ends(prompt)
        head = tail = 0
        for end, count in known_ends.items():
            own = prompt[prompt_ends[end] - 1] == known[count - 1] if end in prompt_ends else False
            if end > agree or not (sampled[count - 1] or own):
                break
            if end in prompt_ends:
                head, tail = count, prompt_ends[end]
        return known[:head] + prompt[tail:], head

    def assert_true_reply(self, effective, reply):
        """As ExactnessCase.same(), for the effective prompt."""
        tokens, at = reply["tokens"], 0
        while True:
            body = {"prompt": effective + tokens[:at], "logit_bias": self.forbidden}
            truth = self.truth(COMPLETION, body, max_tokens=len(tokens) - at)["tokens"]
            at += common_length(truth, tokens[at:])
            if at >= len(tokens):
                return
            bias = [*self.forbidden, [tokens[at], NOISE]]
            favoured = self.truth(COMPLETION, {"prompt": effective + tokens[:at]}, max_tokens=1, logit_bias=bias)
            self.assertEqual(favoured["tokens"], [tokens[at]], f"token {at} of {len(tokens)} is no close second")
            at += 1
            if at == len(tokens):
                return

    def converse(self, server, turns):
        """A conversation; yields per turn what was computed before, the prompt, the effective prompt, its known head and
        the reply."""
        messages = [system(words(60, 1)), user(words(10, 2))]
        known, sampled = [], []
        for turn in range(turns):
            prompt = self.plain.prompt_ids(messages)
            effective, head = self.effective(known, sampled, prompt)
            reply = self.ask(server, messages)
            yield known, prompt, effective, head, reply
            known = effective + reply["tokens"][:-1]
            sampled = sampled[:head] + [False] * (len(effective) - head) + [True] * (len(reply["tokens"]) - 1)
            messages = self.next_turn(messages, reply, turn)


class Conversations(TextCase):
    def test_everything_sampled_is_reused(self):
        replaced = 0
        for known, prompt, effective, head, reply in self.converse(self.matching("text"), 5):
            self.assertEqual(head, len(known))
            self.assertEqual(timings(reply)["cache_n"], head)
            self.assertEqual(reply["usage"]["prompt_tokens"], len(effective))
            self.assertEqual(timings(reply)["prompt_n"], len(effective) - head)
            self.assert_true_reply(effective, reply)
            if effective != prompt:
                replaced += 1
                self.assertEqual(timings(reply)["cache_source"], "memory-text")
        self.assertEqual(replaced, 4)

    def test_only_matching_ids_reuses_less(self):
        server = self.matching("token")
        messages = [system(words(60, 1)), user(words(10, 2))]
        reply = self.ask(server, messages)
        known = self.plain.prompt_ids(messages) + reply["tokens"][:-1]
        messages = self.next_turn(messages, reply, 0)
        prompt = self.plain.prompt_ids(messages)
        reply = self.ask(server, messages)
        self.assertLess(timings(reply)["cache_n"], len(known) - 10)
        self.assertEqual(reply["usage"]["prompt_tokens"], len(prompt))
        self.assertEqual(timings(reply)["cache_source"], "memory-token")
        self.assert_true_reply(prompt, reply)

    def test_live_sequences_are_enough(self):
        sources = [timings(reply)["cache_source"]
                   for *_, reply in self.converse(self.matching("text", "--cache-ram", 0), 3)]
        self.assertEqual(sources, ["none", "memory-text", "memory-text"])

    def test_after_a_restart(self):
        directory = fresh_directory()
        server = self.matching("text", "--kv-disk-dir", directory)
        turns = 0
        for known, _, effective, head, reply in self.converse(server, 4):
            self.assertEqual(timings(reply)["cache_n"], len(known))
            self.assert_true_reply(effective, reply)
            if turns > 0:
                self.assertEqual(timings(reply)["cache_source"], "disk-text")
            turns += 1
            server.stop()
            server.start()

    def test_a_marker_that_was_sampled_is_not_its_spelling(self):
        """A reply that holds a marker comes back as text, and is known no further than up to it."""
        server = self.matching("text")
        special = next(token for token in self.plain.tokenize("<|im_end|>", special=True))
        messages = [user(words(20, 3))]
        prompt = self.plain.prompt_ids(messages)
        sampled = server.post(COMPLETION, {"prompt": prompt, "max_tokens": 1, "return_tokens": True,
                                           "logit_bias": [[special, 100]], "ignore_eos": False})
        self.assertEqual(sampled["tokens"], [special])
        as_text = self.plain.tokenize("<|im_end|>")
        self.assertNotIn(special, as_text)
        reply = server.post(COMPLETION, {"prompt": prompt + as_text + as_text, "max_tokens": 1})
        self.assertEqual(timings(reply)["cache_n"], len(prompt))
        self.assertEqual(timings(reply)["cache_source"], "memory-token")


class OtherMemories(TextCase):
    """Models that go on from points or windows: where a reply ended there is one."""

    def check(self):
        replaced = 0
        for known, prompt, effective, head, reply in self.converse(self.matching("text"), 4):
            self.assertEqual(head, len(known))
            self.assertEqual(timings(reply)["cache_n"], head)
            self.assert_true_reply(effective, reply)
            replaced += effective != prompt
        self.assertEqual(replaced, 3)


class Windowed(OtherMemories):
    architecture = "gemma3"

    def test_everything_sampled_is_reused(self):
        self.check()


class Hybrid(OtherMemories):
    architecture = "qwen35"

    def test_everything_sampled_is_reused(self):
        self.check()


class Recurrent(OtherMemories):
    architecture = "mamba2"

    def test_everything_sampled_is_reused(self):
        self.check()


del TextCase, OtherMemories, ExactnessCase

if __name__ == "__main__":
    main()
