"""--repeatable: with quantized keys and values, text with the cache equals text without it, to the letter: over memory, RAM
and disk, restarts and kills, branches and resends, one request at a time and several.

KVKEEP_REPLIES sets the replies of each model and kind (default 24); KVKEEP_TEST_SEED repeats a run.
"""

import concurrent.futures
import os

from support import (ServerCase, assistant, fresh_directory, main, make_random, model, reply_text, run_program, serve_command,
                     system, timings, user, words)

REPLIES = int(os.environ.get("KVKEEP_REPLIES", 24))
QUANTIZED = ("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")
PLACES = 3
CHAT = "/v1/chat/completions"


class Repeatable(ServerCase):
    def setUp(self):
        super().setUp()
        self.random = make_random()

    def play(self, *model_flags, at_once=1):
        """Returns (replies, those that differ, tokens that came from the cache)."""
        path = model(*model_flags)
        flags = ("--repeatable", *QUANTIZED, "-np", PLACES, "-c", PLACES * 3072, "--kv-cache-min-tokens", 32)
        cached = self.server(*flags, "--kv-disk-dir", fresh_directory(), "--cache-ram", 16, model_path=path)
        plain = self.server(*flags, "--cache-ram", 0, model_path=path)
        talks = [[system(words(300, 1)), user(words(40, 2))]]
        differ, reused, sources = [], 0, set()
        for number in range(0, REPLIES, at_once):
            asked = [self.next_prompt(talks, number + i) for i in range(at_once)]
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                replies = list(pool.map(lambda messages: cached.chat(messages, max_tokens=20), asked))
            for messages, reply in zip(asked, replies):
                truth = plain.chat(messages, max_tokens=20, cache_prompt=False)
                if reply_text(reply) != reply_text(truth):
                    differ.append((number, timings(reply), reply_text(reply), reply_text(truth)))
                reused += timings(reply)["cache_n"]
                sources.add(timings(reply)["cache_source"].split("-")[0])
                talks.append([*messages, assistant(reply_text(reply))])
            if self.random.random() < 0.15:
                self.random.choice((cached.restart_after_kill, self.restarter(cached)))()
        return differ, reused, sources

    @staticmethod
    def restarter(server):
        def restart():
            server.stop()
            server.start()
        return restart

    def next_prompt(self, talks, number):
        """Goes on with a conversation, branches off in its middle, sends it again, or begins another one."""
        talk = self.random.choice(talks[-4:])
        kind = self.random.randrange(5)
        if kind == 0 or len(talk) > 14:
            return [system(words(self.random.choice((150, 300)), 1)), user(words(30, 1000 + number))]
        if kind == 1:
            return [*talk[:max(1, len(talk) // 4 * 2 - 1)], user(words(20, 2000 + number))]
        if kind == 2 and talk[-1]["role"] == "assistant":
            return talk[:-1]
        asked = talk if talk[-1]["role"] == "assistant" else talk[:-1]
        return [*asked, user(words(self.random.choice((5, 60, 250)), 3000 + number))]

    def check(self, *model_flags, at_once=1):
        differ, reused, sources = self.play(*model_flags, at_once=at_once)
        self.assertEqual(differ, [])
        self.assertGreater(reused, REPLIES * 100)
        return sources

    def test_sliceable(self):
        self.assertIn("ram", self.check("--arch", "llama"))

    def test_windowed(self):
        self.check("--arch", "gemma3", "--window", "128")

    def test_hybrid(self):
        self.check("--arch", "falcon-h1")

    def test_several_at_a_time(self):
        for arch in ("llama", "falcon-h1"):
            with self.subTest(arch=arch):
                self.check("--arch", arch, at_once=PLACES)


class Refusals(ServerCase):
    def test_what_contradicts_it(self):
        for flags, said in ((("--kv-unified",), "--kv-unified contradict"),
                            (("--decode-with-prefill", "together"), "--decode-with-prefill together contradict"),
                            (("--prefill-slice-ms", "100"), "--prefill-slice-ms contradict")):
            run = run_program(*serve_command("--repeatable", *flags, "--port", "0")[1:])
            self.assertEqual(run.returncode, 1)
            self.assertIn(said, run.stderr)

    def test_a_model_whose_sequences_share_cells(self):
        run = run_program(*serve_command("--repeatable", "--no-kv-disk", "--port", "0",
                                         model_path=model("--arch", "deepseek4"))[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("cells of their own: the state of a sequence can be copied only as a whole", run.stderr)

    def test_types_that_are_computed_otherwise_in_batches(self):
        self.assertIn("text may still depend", self.server("--repeatable", "-ctk", "f16", "-ctv", "f16").log())
        self.assertNotIn("text may still depend", self.server("--repeatable", *QUANTIZED).log())


if __name__ == "__main__":
    main()
