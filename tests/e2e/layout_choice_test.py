"""Without -kvu and -no-kvu the layout of cells follows the requests: unrelated replies get cells of their own, and a
prompt that does not fit there brings the pool back. Nothing is computed twice for it, and texts are those of a server
with one pool and no cache, but for near ties (exactness_case.py).
"""

import concurrent.futures
import contextlib
import http.client
import itertools
import random
import time

from exactness_case import COMPLETION, ExactnessCase
from gguf_writer import LAYERS, WIDTH, make_lora
from monitoring_test import metrics
from kvkeep_process import DecodedPrefixes
from support import ServerCase, fresh_directory, fresh_path, main, model, system, timings, user, wait_until, words

PLACES = 8  # the more replies pass over each other's cells, the sooner a change has paid
OWN = 768
CELLS = PLACES * OWN
CHOSEN = f"share one pool of {CELLS} cells, or have {OWN} of their own each while that is faster"
PROMPT = 450
REPLY = 150
LONG = OWN + 150
COMPARED = 3  # replies of those that ran together: computing each without a cache takes longer than all of them did
SHORT = 20
# A change comes when as much time was lost as it costs, after some seconds on any machine, and after more of them on a
# busy one: no load of a given length is long enough everywhere.
CHANGE_LIMIT_S = 300


def ids(count, seed):
    """A prompt that shares not even its first token with those of the seeds next to it."""
    chosen = random.Random(seed)
    return [300 + seed % 500, *(chosen.randrange(300, 800) for _ in range(count - 1))]


class Choice(ExactnessCase):
    """The base of the classes of memory."""
    more_flags = ()
    exact = True  # each position is restorable
    lost = 1      # most tokens of a known prompt that are computed again

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, "-c", CELLS, "-kvu", *cls.more_flags, model_path=cls.model_path)

    def start(self, directory):
        server = self.server("--restore", "always", "--kv-disk-dir", directory, "-c", CELLS, "-np", PLACES, "--metrics",
                             *self.more_flags, model_path=self.model_path)
        self.assertIn(CHOSEN, server.log())
        self.assertEqual(server.get("/props")["default_generation_settings"]["n_ctx"], CELLS)
        return server

    @staticmethod
    def body(prompt, count):
        return {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "return_tokens": True}

    def ask_at_once(self, server, prompts, count, compare=True):
        """Returns the replies, and how many ids they gave to the model. Without `compare` their texts do not matter."""
        before = server.decoded_ids()
        bodies = [self.body(prompt, count) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            replies = list(pool.map(lambda body: server.post(COMPLETION, body), bodies))
        decoded = server.decoded_ids() - before
        if compare:
            self.compare(bodies, replies)
        return replies, decoded

    def compare(self, bodies, replies):
        for body, reply in zip(bodies, replies):
            if body["max_tokens"] > SHORT:  # near ties are likely, and each would be computed anew
                self.same_tokens(body, reply["tokens"])
            else:
                self.same(COMPLETION, body, reply)

    def same_tokens(self, body, tokens):
        """In a prompt that holds the reply as well, computed without a cache, each token of it is the most likely one, or
        nearly so: by induction the reply is the greedy one, but for near ties."""
        self.assertEqual(len(tokens), body["max_tokens"])
        scored = self.truth(COMPLETION, {"prompt": body["prompt"] + tokens, "max_tokens": 1, "echo": True, "logprobs": 1})
        scores = scored["choices"][0]["logprobs"]
        reply = slice(len(body["prompt"]), len(body["prompt"]) + len(tokens))
        lost = [max(best.values()) - own for best, own in zip(scores["top_logprobs"][reply], scores["token_logprobs"][reply])]
        self.assertEqual(len(lost), len(tokens))
        self.assertLess(max(lost), self.noise, f"token {lost.index(max(lost))} is no close second")

    def changes(self, server):
        values = metrics(server)[0]
        return values["kvkeep_layout_changes_total"], values["kvkeep_own_cells"]

    def make_own(self, server):
        """Unrelated replies, until the layout has changed; the texts of those matter that it changed under."""
        deadline = time.monotonic() + CHANGE_LIMIT_S
        for turn in itertools.count():
            prompts = [ids(PROMPT, PLACES * turn + n) for n in range(PLACES)]
            replies, decoded = self.ask_at_once(server, prompts, REPLY, compare=False)
            self.assertEqual(decoded, PLACES * (PROMPT + REPLY - 1), "nothing is computed twice")
            if self.changes(server)[1] == 1:
                break
            self.assertLess(time.monotonic(), deadline, "the layout does not change")
        self.compare([self.body(prompt, REPLY) for prompt in prompts[:COMPARED]], replies)
        self.assertIn(f"have {OWN} cells of their own each from now on", server.log())
        return prompts

    def ask_of_one_system_prompt(self, server, known, seeds):
        """Chats at once that share a system prompt. Its end is a point, so that it does not matter to any class of memory
        who comes first; after raw prompts of which one ended before the others came, a class with points has none where
        they part, in any layout.

        Returns how many ids they gave to the model, and how many of these were never computed before."""
        before = server.decoded_ids()
        prompts = [[system(words(300, 100)), user(words(20, seed))] for seed in seeds]
        replies = self.same_at_once(server, prompts, max_tokens=16, ignore_eos=True)
        decoded = server.decoded_ids() - before
        fresh = 0
        for messages, reply in zip(prompts, replies):
            computed = server.prompt_ids(messages) + reply["tokens"][:-1]
            fresh += known.never_decoded(computed)
            known.add(computed)
        return decoded, fresh

    def assert_computed_once(self, decoded, fresh):
        if self.exact:
            self.assertEqual(decoded, fresh, "what requests share is computed once")
        self.assertLessEqual(decoded, 1.05 * fresh, "what requests share is computed once")

    def test_the_layout_follows_the_requests(self):
        directory = fresh_directory()
        server = self.start(directory)
        unrelated = self.make_own(server)
        known = DecodedPrefixes()
        self.assert_computed_once(*self.ask_of_one_system_prompt(server, known, range(200, 200 + COMPARED)))
        changes, own = self.changes(server)
        long = ids(LONG, 300)
        _, decoded = self.ask_at_once(server, [long], 8, compare=False)  # below, its rows are compared
        self.assertEqual(decoded, LONG + 7)
        self.assertEqual(self.changes(server), (changes + own, 0))
        if own:
            self.assertIn(f"share one pool of {CELLS} cells from now on: a request has more tokens", server.log())
        decoded, fresh = self.ask_of_one_system_prompt(server, known, range(250, 250 + COMPARED))
        self.assertLessEqual(decoded, fresh + COMPARED * self.lost, "the system prompt is there in the pool as well")
        _, decoded = self.ask_at_once(server, [unrelated[0]], 8)
        self.assertLessEqual(decoded, self.lost + 8)
        self.assertEqual(server.stop(), 0)
        again = self.start(directory)
        _, decoded = self.ask_at_once(again, [long + ids(3, 350)], 8)
        self.assertLessEqual(decoded, self.lost + 3 + 7)


class Killed:
    """Mixed into a class of memory."""

    def decode_until_killed(self, server, prompt):
        with contextlib.suppress(OSError, http.client.HTTPException):
            while True:
                server.post(COMPLETION, self.body(prompt, REPLY))

    def test_a_kill_after_a_change_loses_no_prompt(self):
        directory = fresh_directory()
        server = self.start(directory)
        prompts = [ids(PROMPT, 400 + n) for n in range(PLACES)]
        self.ask_at_once(server, prompts, 1, compare=False)
        self.assertEqual(server.stop(), 0)  # so that all of them are on disk, whenever the kill comes
        server = self.start(directory)
        with concurrent.futures.ThreadPoolExecutor(PLACES) as clients:
            try:
                asked = [clients.submit(self.decode_until_killed, server, prompt) for prompt in prompts]
                wait_until(lambda: self.changes(server)[0] > 0, "the layout changes", CHANGE_LIMIT_S)
            finally:
                server.kill()
            for each in asked:
                each.result()
        again = self.start(directory)
        replies, _ = self.ask_at_once(again, prompts, 8, compare=False)
        self.compare([self.body(prompt, 8) for prompt in prompts[:COMPARED]], replies)
        for reply in replies:
            self.assertGreaterEqual(timings(reply)["cache_n"], PROMPT - 64)


class Sliceable(Killed, Choice):
    pass


class Windowed(Killed, Choice):
    model_flags = ("--arch", "gemma3", "--window", "64")
    # Of 64 such replies without a cache, alone and four at a time, in a pool and in cells of their own, the worst token was
    # 0.28 less likely than the best (llama: 0.09): rows of windows lie in another order wherever others came and went. One
    # other id among 1,000 of the prompt makes it 2.2 and more.
    noise = 0.5
    exact = False
    lost = 64


class Hybrid(Killed, Choice):
    model_flags = ("--arch", "falcon-h1")  # each layer has rows: it has something to win
    exact = False
    lost = 64


class WithAnAdapter(Choice):
    @classmethod
    def start_class_servers(cls):
        cls.more_flags = ("--lora", make_lora(fresh_path("lora.gguf"), WIDTH, LAYERS, 1))
        super().start_class_servers()


class Fixed(ServerCase):
    """Flags and classes of memory that leave no choice."""

    def test_a_layout_that_is_given_stays(self):
        for flags in (("-np", PLACES, "-kvu"), ("-np", PLACES, "-no-kvu"), ("-np", 1)):
            with self.subTest(flags=flags):
                server = self.server("-c", CELLS, *flags)
                self.assertNotIn("while that is faster", server.log())

    def test_recurrent_models_have_no_cells(self):
        server = self.server("-c", CELLS, "-np", PLACES, model_path=model("--arch", "mamba2"))
        self.assertIn("each running request has a state of its own", server.log())
        self.assertNotIn("while that is faster", server.log())


del ExactnessCase, Choice  # only its children are tests

if __name__ == "__main__":
    main()
