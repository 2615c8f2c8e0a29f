"""Flags whose effect takes several starts to see (flags_test.py has the others)."""

import concurrent.futures
import os
import re
import shutil

from flag_case import COMPLETION, FlagCase, covers
from gguf_writer import make_control_vector, make_lora
from support import fresh_directory, fresh_path, main, model, timings, wait_until, words

WIDTH, LAYERS = 128, 3  # of the tiny model
KEYS_AND_VALUES = 2 * 64 * LAYERS  # numbers per token in its rows


class ManyStarts(FlagCase):
    @covers("--load-mode")
    def test_load_mode(self):
        for mode, mapped, locked in (("mmap", True, False), ("none", False, False), ("mlock", False, True),
                                     ("mmap+mlock", True, True), ("dio", False, False)):
            with self.subTest(mode=mode), self._make(self._logs, ["--load-mode", mode], {}) as server:
                with open(f"/proc/{server.process.pid}/maps") as maps:
                    self.assertEqual(model() in maps.read(), mapped)
                with open(f"/proc/{server.process.pid}/status") as status:
                    locked_kb = int(re.search(r"VmLck:\s*(\d+)", status.read())[1])
                self.assertEqual(locked_kb > 0, locked)

    @covers("--override-kv", "--rope-freq-base")
    def test_override_kv(self):
        changed = self.text_with("--override-kv", "llama.rope.freq_base=float:700")
        self.assertNotEqual(changed, self.text_with())
        self.assertEqual(changed, self.text_with("--rope-freq-base", 700))

    @covers("--model-hash")
    def test_model_hash(self):
        # A byte of the output matrix, which is small enough to be hashed as a whole (model_files_test.py has larger ones).
        changed = fresh_path("changed.gguf")
        shutil.copyfile(model(), changed)
        with open(changed, "r+b") as file:
            file.seek(-150_001, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        for kind in ("fast", "full"):
            directory = fresh_directory()
            for path in (model(), changed):
                self.server("--model-hash", kind, "--kv-disk-dir", directory, model_path=path).stop()
            self.assertEqual(len([name for name in os.listdir(directory) if len(name) == 64]), 2, kind)

    @covers("--lora", "--lora-scaled")
    def test_lora(self):
        lora = make_lora(fresh_path("lora.gguf"), WIDTH, LAYERS)
        plain, changed = self.text_with(), self.text_with("--lora", lora)
        self.assertNotEqual(plain, changed)
        self.assertEqual(changed, self.text_with("--lora-scaled", f"{lora}:1.0"))
        self.assertEqual(plain, self.text_with("--lora-scaled", f"{lora}:0"))
        self.assertNotIn(self.text_with("--lora-scaled", f"{lora}:0.3"), (plain, changed))

    @covers("--control-vector", "--control-vector-scaled", "--control-vector-layer-range")
    def test_control_vector(self):
        vector = make_control_vector(fresh_path("vector.gguf"), WIDTH, LAYERS)
        plain, changed = self.text_with(), self.text_with("--control-vector", vector)
        self.assertNotEqual(plain, changed)
        self.assertEqual(changed, self.text_with("--control-vector-scaled", f"{vector}:1.0"))
        self.assertNotIn(self.text_with("--control-vector-scaled", f"{vector}:-1.0"), (plain, changed))
        one_layer = self.text_with("--control-vector", vector, "--control-vector-layer-range", 2, 2)
        self.assertNotIn(one_layer, (plain, changed))

    @covers("--rope-scaling", "--rope-scale", "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-ext-factor",
            "--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast")
    def test_rope(self):
        base = {"--rope-scaling": "yarn", "--rope-scale": 4, "--yarn-orig-ctx": 256}
        texts = {self.text_with(*self.flat(base))}
        for flag, value in (("--rope-scaling", "none"), ("--rope-scaling", "linear"), ("--rope-scale", 2),
                            ("--yarn-orig-ctx", 1024), ("--yarn-ext-factor", 0.3), ("--yarn-beta-slow", 3),
                            ("--yarn-beta-fast", 8)):
            with self.subTest(flag=flag):
                text = self.text_with(*self.flat({**base, flag: value}))
                self.assertNotIn(text, texts)
                texts.add(text)
        # Where the extrapolation mix is not 0, libllama computes the magnitude by itself. With 0 yarn is linear.
        factor = {**base, "--yarn-ext-factor": 0, "--yarn-attn-factor": 1.6}
        self.assertNotIn(self.text_with(*self.flat(factor)), texts)
        self.assertEqual(self.text_with("--rope-scaling", "linear", "--rope-scale", 4),
                         self.text_with("--rope-scaling", "linear", "--rope-freq-scale", 0.25))

    @staticmethod
    def flat(flags):
        return [part for pair in flags.items() for part in pair]

    def test_state_is_not_shared_between_settings(self):
        lora = make_lora(fresh_path("lora.gguf"), WIDTH, LAYERS)
        directory = fresh_directory()
        settings = ([], ["--rope-freq-base", 700], ["--rope-scaling", "yarn", "--rope-scale", 2], ["--lora", lora],
                    ["--lora-scaled", f"{lora}:0.5"], ["-ctk", "f16"], ["-ctv", "f16"],
                    ["-ctk", "f16", "-ctv", "f16", "-fa", "off"],
                    ["--override-kv", "llama.rope.freq_base=float:700"])
        body = {"prompt": words(80, 6), "max_tokens": 8, "temperature": 0}
        for number, flags in enumerate(settings):
            with self._make(self._logs, ["--kv-disk-dir", directory, "--restore", "always", *flags], {}) as server:
                reply = server.post(COMPLETION, body)
                self.assertEqual(timings(reply)["cache_n"], 0, flags)
                server.stop()
            self.assertEqual(len([name for name in os.listdir(directory) if len(name) == 64]), number + 1, flags)
        server = self.server("--kv-disk-dir", directory, "--restore", "always")
        self.assertGreater(timings(server.post(COMPLETION, body))["cache_n"], 0)

    @covers("--parallel")
    def test_parallel(self):
        long = {"prompt": "long", "max_tokens": 3000, "temperature": 0}
        for parallel, overtakes in ((1, False), (2, True)):
            server = self.server("-np", parallel, "-lv", 4)
            with self.subTest(parallel=parallel), concurrent.futures.ThreadPoolExecutor(1) as pool:
                slow = pool.submit(server.post, COMPLETION, long)
                wait_until(lambda: "prompt done" in server.log(), "the long one decodes")
                server.post(COMPLETION, {"prompt": "quick", "max_tokens": 1})
                slow.result()
                # The order of the log is the order in which they ended: two clients may hear of it in any.
                lengths = re.findall(r" done end=\w+ .*reply=(\d+)", server.log())
                self.assertEqual(lengths, ["1", "3000"] if overtakes else ["3000", "1"])

    @covers("--cache-type-k", "--cache-type-v", "--flash-attn")
    def test_kv_types(self):
        quantized = KEYS_AND_VALUES // 32 * 34
        for flags, size in ((["-ctk", "f32", "-ctv", "f32"], KEYS_AND_VALUES * 4),
                            (["-ctk", "f16", "-ctv", "f16"], KEYS_AND_VALUES * 2),
                            (["-ctk", "q8_0", "-ctv", "f16"], KEYS_AND_VALUES + quantized // 2),
                            (["-ctk", "f16", "-ctv", "q8_0"], KEYS_AND_VALUES + quantized // 2)):
            log = self.server(*flags).log()
            told = int(re.search(r"(\d+) bytes of rows per token", log)[1])
            self.assertTrue(size <= told < size + 32, (flags, told))  # and a few bytes of position
        for value, given in (("on", "1"), ("off", "0"), ("auto", "-1")):
            self.assertEqual(self.params("-ctk", "f16", "-ctv", "f16", "-fa", value)["flash_attention"], [given])


if __name__ == "__main__":
    main()
