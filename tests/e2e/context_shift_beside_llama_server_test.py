"""Greedy replies beyond several shifts of the context are llama-server's: the same tokens leave, and the same rows move."""

import os
import unittest

import support
from support import words

LLAMA_SERVER = os.environ["KVKEEP_LLAMA_SERVER"]
CONTEXT = 256


class ContextShiftBesideLlamaServer(unittest.TestCase):
    def both(self, *flags):
        flags = ["-m", support.model(), "-c", str(CONTEXT), "-np", "1", "-t", "1", *support.EXACT_FLAGS, "--context-shift", *flags]
        ours = self.enterContext(support.ServerProcess([support.PROGRAM, "serve", *flags, "--no-kv-disk"]))
        theirs = self.enterContext(support.ServerProcess([LLAMA_SERVER, *flags, "--no-webui", "--no-warmup", "--cache-ram", "0"]))
        return ours, theirs

    def test_texts_are_llama_servers(self):
        bos = ["--override-kv", "tokenizer.ggml.add_bos_token=bool:true"]
        for flags in ([], ["--keep", "20"], [*bos, "--keep", "20"]):
            ours, theirs = self.both(*flags)
            for fields in ({}, {"n_keep": -1}, {"n_keep": 1000, "n_predict": 220}, {"n_keep": 5, "n_discard": 30},
                           {"n_keep": 5, "n_discard": 1000}):
                body = {"prompt": words(40, 7), "n_predict": 500, "temperature": 0, "ignore_eos": True, "cache_prompt": False,
                        **fields}
                with self.subTest(flags=flags, fields=fields):
                    reply, other = (server.post("/completion", body) for server in (ours, theirs))
                    for name in ("content", "truncated", "stop_type", "tokens_predicted", "tokens_evaluated"):
                        self.assertEqual(reply[name], other[name], name)
                    for name in ("n_keep", "n_discard"):
                        self.assertEqual(reply["generation_settings"][name], other["generation_settings"][name])


if __name__ == "__main__":
    unittest.main(verbosity=1)
