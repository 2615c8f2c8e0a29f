"""Replies that come back as text, in other ids than were sampled, are not computed again; and what is reused is never
seen in a text: the truth is the effective prompt, computed from nothing.

The models here may generate any id (--free-output), so their text rarely tokenizes to the ids that were sampled. Ids
that are not plain ASCII are forbidden: what a client is told of broken UTF-8 has other bytes.
"""

import itertools

from exactness_test import ExactnessCase
from support import assistant, fresh_directory, main, model, system, timings, user, words

COMPLETION = "/v1/completions"


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
        return self.server("--restore", "always", "--match", how, *flags, model_path=self.model_path)

    def ask(self, server, messages, max_tokens=40):
        return server.chat(messages, max_tokens=max_tokens, return_tokens=True, logit_bias=self.forbidden)

    def text(self, tokens):
        return self.plain.post("/detokenize", {"tokens": tokens})["content"]

    def next_turn(self, messages, reply, number):
        """The reply as a client sends it back. Of the ids that were sampled the last was never evaluated."""
        return [*messages, assistant(self.text(reply["tokens"][:-1])), user(f"{number} {words(10, number)}")]

    def effective(self, known, sampled_from, prompt):
        """The prompt with its head in known ids, and the length of that head: by the ends of pieces, naively. Ids before
        `sampled_from` are those of a prompt."""
        same = next((at for at, (a, b) in enumerate(itertools.zip_longest(known, prompt)) if a != b))
        if same < sampled_from:
            return prompt, same

        def ends(ids):
            lengths = itertools.accumulate(len(self.pieces[token]) for token in ids)
            return {length: at + 1 for at, length in enumerate(lengths)}

        def as_text(ids):  # markers are no text: a letter that none has ends it
            return "".join(self.pieces[token] or "\0" for token in ids)

        known_text, prompt_text = as_text(known[same:]), as_text(prompt[same:])
        agree = next((at for at, (a, b) in enumerate(itertools.zip_longest(known_text, prompt_text)) if a != b or a == "\0"),
                     len(known_text))
        known_ends, prompt_ends = ends(known[same:]), ends(prompt[same:])
        last = max((end for end in known_ends if end <= agree and end in prompt_ends), default=0)
        head = same + known_ends.get(last, 0)
        return known[:head] + prompt[same + prompt_ends.get(last, 0):], head

    def assert_true_reply(self, effective, reply, max_tokens=40):
        body = {"prompt": effective, "max_tokens": max_tokens, "logit_bias": self.forbidden}
        truth = self.truth(COMPLETION, body)["tokens"]
        if truth != reply["tokens"]:
            at = next(at for at, (a, b) in enumerate(zip(truth, reply["tokens"])) if a != b)
            self.assert_within_noise(effective, {"max_tokens": max_tokens}, reply["tokens"], at)

    def converse(self, server, turns):
        """A conversation; yields per turn what was computed before, the effective prompt, its known head and the reply."""
        messages = [system(words(60, 1)), user(words(10, 2))]
        known, sampled_from = [], 0
        for turn in range(turns):
            prompt = self.plain.prompt_ids(messages)
            effective, head = self.effective(known, sampled_from, prompt)
            reply = self.ask(server, messages)
            yield known, prompt, effective, head, reply
            known, sampled_from = effective + reply["tokens"][:-1], len(effective)
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

    def test_ids_alone_reuse_less(self):
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
