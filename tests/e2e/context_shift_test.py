"""Replies that are longer than the context, with --context-shift: they go on, and the cache has nothing of what moved."""

from flag_case import FlagCase, covers
from support import main, model, run_program, serve_command, words

NATIVE = "/completion"
CONTEXT = 256


class ContextShift(FlagCase):
    def ask(self, server, **fields):
        return server.post(NATIVE, {"prompt": words(60, 3), "temperature": 0, "ignore_eos": True, "n_predict": 400, **fields})

    @covers("--context-shift")
    def test_a_reply_goes_on_beyond_the_context(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--context-shift")
        reply = self.ask(server)
        self.assertEqual((reply["tokens_predicted"], reply["truncated"], reply["stop_type"]), (400, True, "limit"))
        self.assertFalse(self.ask(server, n_predict=20)["truncated"])
        ended = self.ask(self.server("-c", CONTEXT, "-np", 1))
        self.assertEqual((ended["truncated"], ended["stop_type"]), (True, "limit"))
        self.assertLess(ended["tokens_predicted"], CONTEXT)
        self.assertTrue(reply["content"].startswith(ended["content"][:200]))

    def test_what_moved_is_not_cached_and_what_was_before_is(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--context-shift")
        self.ask(server)
        again = self.ask(server, n_predict=50)
        self.assertGreater(again["timings"]["cache_n"], 0)
        self.assertEqual(again["content"], self.ask(server, n_predict=50, cache_prompt=False)["content"])

    @covers("--keep")
    def test_kept_tokens(self):
        kept = self.server("-c", CONTEXT, "-np", 1, "--context-shift", "--keep", 40)
        plain = self.server("-c", CONTEXT, "-np", 1, "--context-shift")
        by_flag = self.ask(kept)
        self.assertEqual(by_flag["generation_settings"]["n_keep"], 40)
        self.assertEqual(self.ask(plain, n_keep=40, cache_prompt=False)["content"], by_flag["content"])
        self.assertNotEqual(self.ask(plain, cache_prompt=False)["content"], by_flag["content"])
        self.assertNotEqual(self.ask(plain, n_keep=40, n_discard=9, cache_prompt=False)["content"], by_flag["content"])

    def test_two_replies_to_one_prompt_go_on(self):
        server = self.server("-c", CONTEXT, "-np", 2, "--context-shift")
        replies = self.ask(server, n_cmpl=2, n_predict=300)
        self.assertEqual([reply["tokens_predicted"] for reply in replies], [300, 300])

    def test_models_that_need_more_than_rows_refuse_at_the_start(self):
        for architecture in ("gemma3", "qwen35", "mamba"):
            run = run_program(*serve_command("-m", model("--arch", architecture), "--no-kv-disk", "--context-shift", "--port",
                                             "0")[1:])
            with self.subTest(architecture=architecture):
                self.assertEqual(run.returncode, 1)
                self.assertIn("--context-shift: the state of this model cannot move", run.stderr)


if __name__ == "__main__":
    main()
