"""Every sampler of libllama, by request and by flag; what replies and /props say of them; what a model's file wants."""

from flag_case import FlagCase, covers
from gguf_writer import with_metadata
from support import fresh_directory, fresh_path, main, model, timings, user, words

NATIVE = "/completion"
# Drawn from the whole vocabulary, so that whatever narrows or bends the choice changes the text.
WIDE = {"temperature": 1.5, "seed": 11, "top_k": 0, "top_p": 1, "min_p": 0, "max_tokens": 60}


class Samplers(FlagCase):
    @classmethod
    def start_class_servers(cls):
        cls.plain = cls.class_server()

    def expect_obeyed(self, flags, fields, others, body=WIDE):
        """A server with these flags answers as one that is asked for the same by fields; each of the other values, asked
        for by a field, changes the text."""
        server = self.server(*flags)
        text = self.text(server, **body)
        self.assertEqual(text, self.text(self.plain, **{**body, **fields}))
        for name, value in others.items():
            with self.subTest(name=name):
                self.assertNotEqual(text, self.text(server, **{**body, name: value}))

    @covers("--top-n-sigma", "--typical-p", "--xtc-probability", "--xtc-threshold", "--dynatemp-range", "--dynatemp-exp")
    def test_narrowing(self):
        self.expect_obeyed(
            ["--top-n-sigma", 3, "--typical", 0.9, "--xtc-probability", 0.5, "--xtc-threshold", 0.02, "--dynatemp-range", 1,
             "--dynatemp-exp", 0.5],
            {"top_n_sigma": 3, "typical_p": 0.9, "xtc_probability": 0.5, "xtc_threshold": 0.02, "dynatemp_range": 1,
             "dynatemp_exponent": 0.5},
            {"top_n_sigma": 0.5, "typical_p": 0.1, "xtc_probability": 0, "xtc_threshold": 1, "dynatemp_range": 0,
             "dynatemp_exponent": 5})

    @covers("--samplers", "--sampling-seq")
    def test_order(self):
        narrow = {"top_k": 3, "min_p": 0.5, "temperature": 3}
        for flags, samplers in ((["--samplers", "top_k;temperature"], ["top-k", "temp"]), (["--sampling-seq", "tm"], "tm")):
            with self.subTest(flags=flags):
                server = self.server(*flags)
                text = self.text(server, **{**WIDE, **narrow})
                self.assertEqual(text, self.text(self.plain, **{**WIDE, **narrow, "samplers": samplers}))
                self.assertNotEqual(text, self.text(self.plain, **{**WIDE, **narrow}))
                shown = server.get("/props")["default_generation_settings"]["params"]["samplers"]
                self.assertEqual(shown, ["top_k", "temperature"] if "k" in flags[1] else ["temperature", "min_p"])

    @covers("--dry-multiplier", "--dry-base", "--dry-allowed-length", "--dry-penalty-last-n", "--dry-sequence-breaker")
    def test_dry(self):
        # Random weights seldom repeat more than a token, of which the base says nothing. A text of four tokens repeats all the time.
        few = [self.plain.tokenize(text)[0] for text in (" stone", " river", "a", "b")]
        fields = {"dry_multiplier": 0.3, "dry_base": 3, "dry_allowed_length": 0, "dry_penalty_last_n": 80,
                  "dry_sequence_breakers": ["\n", "zq"]}
        flags = ["--dry-multiplier", 0.3, "--dry-base", 3, "--dry-allowed-length", 0, "--dry-penalty-last-n", 80,
                 "--dry-sequence-breaker", r"\n", "--dry-sequence-breaker", "zq"]
        self.expect_obeyed(flags, fields, {"dry_multiplier": 0, "dry_base": 1, "dry_allowed_length": 30,
                                           "dry_penalty_last_n": 0, "dry_sequence_breakers": [" "]},
                           {**WIDE, "logit_bias": {str(token): 100 for token in few}})

    @covers("--mirostat", "--mirostat-lr", "--mirostat-ent")
    def test_mirostat(self):
        for version in (1, 2):
            self.expect_obeyed(["--mirostat", version, "--mirostat-lr", 0.3, "--mirostat-ent", 3],
                               {"mirostat": version, "mirostat_eta": 0.3, "mirostat_tau": 3},
                               {"mirostat": 0, "mirostat_eta": 0, "mirostat_tau": 0.1})

    @covers("--adaptive-target", "--adaptive-decay")
    def test_adaptive_p(self):
        self.expect_obeyed(["--sampling-seq", "mta", "--adaptive-target", 0.3, "--adaptive-decay", 0.5],
                           {"samplers": "mta", "adaptive_target": 0.3, "adaptive_decay": 0.5},
                           {"samplers": "mt", "adaptive_target": -1, "adaptive_decay": 0})

    def test_the_least_number_of_tokens_to_keep(self):
        narrow = {**WIDE, "top_p": 0.001}
        self.assertEqual(self.text(self.plain, **narrow), self.text(self.plain, **WIDE | {"temperature": 0}))
        self.assertNotEqual(self.text(self.plain, **narrow, min_keep=50), self.text(self.plain, **narrow))

    def test_off_values_change_nothing(self):
        off = {"mirostat": 0, "typical_p": 1.0, "top_n_sigma": -1, "xtc_probability": 0, "dry_multiplier": 0,
               "dynatemp_range": 0, "min_keep": 0, "adaptive_target": -1, "samplers": "edskypmxt"}
        text = self.text(self.plain, **WIDE)
        self.assertEqual(text, self.text(self.plain, **WIDE, **off))
        server = self.server("--mirostat", 0, "--typical", 1.0, "--dry-multiplier", 0, "--xtc-threshold", 1.0)
        self.assertEqual(text, self.text(server, **WIDE))

    def test_infill(self):
        text = self.text(self.plain, **WIDE | {"samplers": ["top_k", "top_p", "infill"], "top_k": 40, "top_p": 0.99})
        self.assertTrue(text)
        self.assert_refused(400, self.text, self.plain, samplers="i", contains="'infill' needs 'top_k' before it")

    def test_all_dialects_sample_alike(self):
        ask = {"messages": [user("hello")], "max_tokens": 20, "seed": 3, "temperature": 1.5, "samplers": "t"}
        chat = self.plain.post("/v1/chat/completions", ask)["choices"][0]["message"]["content"]
        message = self.plain.post("/v1/messages", {**ask, "model": "x"})["content"][0]["text"]
        self.assertEqual(message, chat)
        self.assertNotEqual(chat, self.plain.post("/v1/chat/completions", {**ask, "samplers": None})["choices"][0]["message"]["content"])

    def test_replies_tell_the_settings(self):
        fields = {"mirostat": 1, "mirostat_tau": 4, "samplers": ["xtc", "dry"], "dry_sequence_breakers": ["x"], "min_keep": 2}
        settings = self.plain.post(NATIVE, {"prompt": "a", "n_predict": 1, **fields})["generation_settings"]
        self.assertEqual({name: settings[name] for name in fields}, fields)
        self.assertEqual((settings["typical_p"], settings["top_n_sigma"], settings["dry_penalty_last_n"]), (1, -1, 64))

    def test_errors_name_the_field_and_its_bounds(self):
        for field, value, said in (
                ("mirostat", 3, "between 0 and 2"), ("xtc_probability", 1.5, "between 0 and 1"),
                ("adaptive_decay", 1, "between 0 and 0.99"), ("dry_multiplier", "x", "must be a number"),
                ("samplers", "q", "is not a sampler"), ("samplers", "k" * 33, "at most 32"),
                ("dry_sequence_breakers", ["x" * 41], "1 to 40 bytes"), ("min_keep", -1, "between 0 and ")):
            with self.subTest(field=field):
                error = self.assert_refused(400, self.text, self.plain, **{field: value}, contains=said)
                self.assertIn(f"'{field}'", error["message"])


class Replays(FlagCase):
    def test_the_same_seed_gives_the_same_text_from_every_tier(self):
        """The sampler's state comes from the prompt's tokens, whether or not they are computed."""
        body = {"prompt": words(200, 3), "n_predict": 40, **WIDE, "dry_multiplier": 3, "dry_allowed_length": 1,
                "dry_penalty_last_n": -1, "repeat_penalty": 1.2}
        requests = [body, {**body, "mirostat": 2}, {**body, "samplers": "edta", "adaptive_target": 0.2}]
        server = self.server("--kv-disk-dir", fresh_directory(), "--restore", "always")
        cold = [server.post(NATIVE, {**one, "cache_prompt": False})["content"] for one in requests]
        warm = [server.post(NATIVE, one) for one in [*requests, *requests]]
        self.assertEqual([one["content"] for one in warm], cold * 2)
        server.stop()
        server.start()
        restored = [server.post(NATIVE, one) for one in requests]
        self.assertEqual([one["content"] for one in restored], cold)
        self.assertEqual(timings(restored[0])["cache_source"], "disk-token")


class ModelFiles(FlagCase):
    def test_a_model_says_how_it_wants_to_be_sampled(self):
        path = with_metadata(fresh_path("wants.gguf"), model(), {
            "general.sampling.temp": 1.5, "general.sampling.top_k": 7, "general.sampling.top_p": 1.5,
            "general.sampling.penalty_repeat": 1.25, "general.sampling.sequence": "top_k;temperature"})
        server = self.server("--temp", 2, model_path=path)
        shown = server.get("/props")["default_generation_settings"]["params"]
        self.assertEqual((shown["temperature"], shown["top_k"], shown["repeat_penalty"], shown["samplers"]),
                         (2, 7, 1.25, ["top_k", "temperature"]))
        self.assertEqual(round(shown["top_p"], 6), 0.95)
        self.assertIn("samplers top_k;temperature, repeat_penalty 1.25, top_k 7", server.log())
        self.assertIn("general.sampling.top_p is 1.5", server.log())
        plain = self.server()
        ask = {"max_tokens": 40, "seed": 4, "temperature": None}
        wanted = {"temperature": 2, "samplers": "kt", "top_k": 7}
        self.assertEqual(self.text(server, **ask), self.text(plain, **{**ask, **wanted}))
        self.assertNotEqual(self.text(server, **ask), self.text(plain, **ask))
        self.assertEqual(self.text(server, **{**ask, "top_k": 1}), self.text(plain, **{**ask, "temperature": 0}))


if __name__ == "__main__":
    main()
