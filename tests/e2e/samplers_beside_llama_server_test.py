"""The same fields and seed give the texts that llama-server gives: its chain of samplers is ours.

One thread, quantized rows and short prompts, so that both compute the same logits (docs/generated-models.md).
"""

import os
import random
import unittest

import support
from gguf_writer import with_metadata
from support import fresh_path, words

LLAMA_SERVER = os.environ["KVKEEP_LLAMA_SERVER"]
NATIVE = "/completion"
WIDE = {"top_k": 0, "top_p": 1, "min_p": 0, "temperature": 1.5}
DRY = {"dry_multiplier": 3, "dry_base": 2, "dry_allowed_length": 1}
CASES = [
    {}, {"temperature": 0}, {"temperature": 3}, WIDE, {"samplers": []}, {"samplers": "t", "temperature": 2},
    {"samplers": ["min_p", "temperature", "top_k"], "min_p": 0.2, "temperature": 5},
    {**WIDE, "top_n_sigma": 1}, {**WIDE, "typical_p": 0.3}, {**WIDE, "top_p": 0.01, "min_keep": 30},
    {**WIDE, "xtc_probability": 0.5, "xtc_threshold": 0.02}, {"temperature": 0, "xtc_probability": 0.7, "xtc_threshold": 0.05},
    {**WIDE, "dynatemp_range": 1}, {"temperature": 0, "dynatemp_range": 2, "dynatemp_exponent": 0.5},
    {**WIDE, "repeat_penalty": 1.5, "presence_penalty": 0.5, "frequency_penalty": 0.3, "repeat_last_n": 100},
    {**WIDE, **DRY}, {**DRY, "temperature": 0}, {**DRY, "dry_penalty_last_n": 120, "dry_sequence_breakers": [" river", "gar"]},
    {**DRY, "temperature": 0, "samplers": "kdt"}, {"mirostat": 1}, {"mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.3},
    {"mirostat": 1, "temperature": 0}, {"samplers": "mta", "adaptive_target": 0.2, "adaptive_decay": 0.5},
    {"samplers": "a", "adaptive_target": -1}, {"samplers": ["top_k", "top_p", "infill"]},
    {"samplers": ["temperature", "top-k", "typ", "TOP_P"], "typical_p": 0.8},
    {**WIDE, "logit_bias": [[300, 5.0], [301, False]]}, {**WIDE, "ignore_eos": True},
    # Not with XTC, which draws numbers of its own: kvkeep leaves out forbidden tokens before it first tries a draw.
    {**WIDE, "grammar": 'root ::= [a-z ]+', "top_n_sigma": 2},
]
SETTINGS = ["temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "top_n_sigma", "xtc_probability",
            "xtc_threshold", "typical_p", "repeat_last_n", "repeat_penalty", "presence_penalty", "frequency_penalty",
            "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "mirostat",
            "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay", "min_keep", "samplers"]


def random_case(generator):
    """Any order of all samplers, each of them on."""
    order = list("edskypmxt")
    generator.shuffle(order)
    return {**DRY, "samplers": "".join(order[:generator.randrange(3, 10)]), "temperature": 1.3, "top_k": 60, "top_p": 0.97,
            "min_p": 0.02, "top_n_sigma": 3, "typical_p": 0.9, "xtc_probability": 0.4, "xtc_threshold": 0.05,
            "repeat_penalty": 1.1, "dynatemp_range": 0.5}


class SamplersBesideLlamaServer(unittest.TestCase):
    def both(self, model, *flags):
        flags = ["-m", model, "-c", "1024", "-np", "1", "-t", "1", *support.EXACT_FLAGS, *flags]
        ours = self.enterContext(support.ServerProcess([support.PROGRAM, "serve", *flags, "--no-kv-disk"]))
        theirs = self.enterContext(support.ServerProcess([LLAMA_SERVER, *flags, "--no-webui", "--no-warmup", "--cache-ram", "0"]))
        return ours, theirs

    def ask(self, server, **fields):
        return server.post(NATIVE, {"prompt": words(60, 7), "n_predict": 40, "seed": 12, "cache_prompt": False, **fields})

    def test_texts_are_llama_servers(self):
        generator = support.make_random()
        ours, theirs = self.both(support.model())
        cases = [*CASES, *(random_case(generator) for _ in range(20))]
        different = []
        for case in cases:
            reply, other = self.ask(ours, **case), self.ask(theirs, **case)
            shown, expected = reply["generation_settings"], other["generation_settings"]
            self.assertEqual({name: shown[name] for name in SETTINGS}, {name: expected[name] for name in SETTINGS}, case)
            if reply["content"] != other["content"]:
                different.append(case)
        self.assertEqual(different, [])

    def test_a_models_file_is_obeyed_alike(self):
        generator = random.Random(5)
        for wants in ({"temp": 0.6, "top_k": 20, "top_p": 0.8, "min_p": 0.01, "penalty_repeat": 1.05, "penalty_last_n": 30},
                      {"sequence": "temperature;xtc", "xtc_probability": 0.5, "xtc_threshold": 0.05, "temp": 1.4},
                      {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.2}):
            path = with_metadata(fresh_path("wants.gguf"), support.model(),
                                 {f"general.sampling.{key}": value for key, value in wants.items()})
            ours, theirs = self.both(path, *generator.choice(([], ["--top-k", "9"])))
            with self.subTest(wants=wants):
                shown, expected = (server.get("/props")["default_generation_settings"]["params"] for server in (ours, theirs))
                self.assertEqual({name: shown[name] for name in SETTINGS}, {name: expected[name] for name in SETTINGS})
                self.assertEqual(self.ask(ours)["content"], self.ask(theirs)["content"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
