"""Without -kvu and -no-kvu the layout of cells follows the requests: unrelated replies get cells of their own, and a
prompt that does not fit there brings the pool back. Nothing is computed twice for it, and texts are those of a server
with one pool and no cache, but for near ties (exactness_case.py).
"""

import concurrent.futures
import random

from exactness_case import COMPLETION, ExactnessCase
from gguf_writer import LAYERS, WIDTH, make_lora
from monitoring_test import metrics
from support import ServerCase, fresh_directory, fresh_path, main, model, timings, wait_until

PLACES = 4
OWN = 2048
CELLS = PLACES * OWN
CHOSEN = f"share one pool of {CELLS} cells, and have {OWN} of their own each while decoding is faster so"
PROMPT = 1000
REPLY = 900


def ids(count, seed):
    """A prompt that shares not even its first token with those of other seeds."""
    chosen = random.Random(seed)
    return [300 + seed, *(chosen.randrange(300, 800) for _ in range(count - 1))]


class Choice(ExactnessCase):
    """The base of the classes of memory."""
    more_flags = ()
    exact = True  # each position is restorable

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

    def ask_at_once(self, server, prompts, count):
        """Returns the replies, and how many ids they gave to the model."""
        before = server.decoded_ids()
        bodies = [{"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True, "return_tokens": True}
                  for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            replies = list(pool.map(lambda body: server.post(COMPLETION, body), bodies))
        decoded = server.decoded_ids() - before
        for body, reply in zip(bodies, replies):
            self.same_tokens(body, reply)
        return replies, decoded

    def same_tokens(self, body, reply):
        truth = self.truth(COMPLETION, body)
        self.assertEqual(len(reply["tokens"]), body["max_tokens"])
        if truth["tokens"] != reply["tokens"]:
            at = next(at for at, (a, b) in enumerate(zip(truth["tokens"], reply["tokens"])) if a != b)
            self.assert_within_noise(body["prompt"], body, reply["tokens"], at)

    def changes(self, server):
        values = metrics(server)[0]
        return values["kvkeep_layout_changes_total"], values["kvkeep_own_cells"]

    def make_own(self, server):
        """Unrelated replies, until the layout has changed."""
        for turn in range(6):
            prompts = [ids(PROMPT, 10 * turn + n) for n in range(PLACES)]
            _, decoded = self.ask_at_once(server, prompts, REPLY)
            self.assertEqual(decoded, PLACES * (PROMPT + REPLY - 1), "nothing is computed twice")
            if self.changes(server)[1] == 1:
                break
        self.assertEqual(self.changes(server)[1], 1)
        self.assertIn(f"have {OWN} cells of their own each from now on", server.log())
        return prompts

    def test_the_layout_follows_the_requests(self):
        directory = fresh_directory()
        server = self.start(directory)
        unrelated = self.make_own(server)
        prefix = ids(900, 100)
        _, decoded = self.ask_at_once(server, [prefix + ids(20, 200 + n) for n in range(PLACES)], 16)
        fresh = 900 + PLACES * (20 + 15)
        if self.exact:
            self.assertEqual(decoded, fresh, "a shared prefix is computed once")
        changes, own = self.changes(server)
        long = ids(5000, 300)
        replies, decoded = self.ask_at_once(server, [long], 8)
        self.assertEqual(decoded, 5000 + 7)
        self.assertEqual(self.changes(server), (changes + own, 0))
        if own:
            self.assertIn(f"share one pool of {CELLS} cells from now on: a request has more tokens", server.log())
        replies, decoded = self.ask_at_once(server, [unrelated[0]], 8)
        self.assertGreaterEqual(timings(replies[0])["cache_n"], PROMPT - 64)
        self.assertEqual(server.stop(), 0)
        again = self.start(directory)
        replies, decoded = self.ask_at_once(again, [long + ids(3, 350)], 8)
        self.assertGreaterEqual(timings(replies[0])["cache_n"], 5000 - (1 if self.exact else 64))

    def test_a_kill_after_a_change_loses_no_prompt(self):
        directory = fresh_directory()
        server = self.start(directory)
        prompts = [ids(900, 400 + n) for n in range(PLACES)]
        body = {"max_tokens": OWN, "temperature": 0, "ignore_eos": True, "stream": True}
        streams = [server.stream(COMPLETION, {**body, "prompt": prompt, "max_tokens": 1100}) for prompt in prompts]
        for stream in streams:
            next(stream)
        wait_until(lambda: self.changes(server)[0] > 0, "the layout changes")
        server.kill()
        again = self.start(directory)
        replies, _ = self.ask_at_once(again, prompts, 8)
        for reply in replies:
            self.assertGreaterEqual(timings(reply)["cache_n"], 900 - 64)


class Sliceable(Choice):
    pass


class Windowed(Choice):
    model_flags = ("--arch", "gemma3", "--window", "64")
    noise = 0.6  # with -kvu as well, some of 900 tokens next to three other replies
    exact = False


class Hybrid(Choice):
    model_flags = ("--arch", "qwen35")
    exact = False


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
                self.assertNotIn("while decoding is faster so", server.log())

    def test_recurrent_models_have_no_cells(self):
        server = self.server("-c", CELLS, "-np", PLACES, model_path=model("--arch", "mamba2"))
        self.assertIn("each running request has a state of its own", server.log())
        self.assertNotIn("while decoding is faster so", server.log())


del ExactnessCase, Choice  # only its children are tests

if __name__ == "__main__":
    main()
