"""The stand-ins for the models of llama.cpp's server tests, and the command lines that name them."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

from stand_in_models import Gguf, make_models  # noqa: E402
from stand_in_server import adapted  # noqa: E402
from support import PROGRAM, ServerCase, fresh_directory, main  # noqa: E402


class CommandLines(unittest.TestCase):
    def test_a_stand_in_takes_the_place_of_a_download(self):
        for wanted, model in ((["--hf-repo", "ggml-org/test-model-stories260K"], "stories.gguf"),
                              (["--hf-repo", "ggml-org/models", "--hf-file", "tinyllamas/split/x-00001-of-00003.gguf"],
                               "split-00001-of-00003.gguf"),
                              (["--hf-repo", "ggml-org/stories15M_MOE", "--hf-file", "x.gguf"], "moe.gguf"), ([], "stories.gguf")):
            with self.subTest(wanted=wanted):
                self.assertEqual(adapted(["--port", "1", *wanted, "--no-jinja", "--slots"], "/m"),
                                 ["--model", f"/m/{model}", "--threads", "1", "--port", "1", "--slots"])

    def test_a_named_model_stays(self):
        self.assertEqual(adapted(["--model", "x.gguf"], "/m"), ["--threads", "1", "--model", "x.gguf"])


class Models(ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.folder = fresh_directory("stand-ins")
        cls.bos = make_models(PROGRAM, cls.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_a_model_without_a_template_puts_bos_before_prompts(self):
        self.assertNotIn("tokenizer.chat_template", Gguf(self.path("stories.gguf")).metadata)
        server = self.server(model_path=self.path("stories.gguf"))
        self.assertEqual(server.tokenize("hello", special=True)[0], self.bos)

    def test_parts_are_one_model(self):
        body = {"prompt": "hello", "max_tokens": 8, "temperature": 0}
        texts = [self.server(model_path=self.path(name)).post("/v1/completions", body)["choices"][0]["text"]
                 for name in ("stories.gguf", "split-00001-of-00003.gguf")]
        self.assertEqual(texts[0], texts[1])

    def test_an_adapter_fits_its_model(self):
        self.server("--lora", self.path("lora.gguf"), model_path=self.path("moe.gguf"))


if __name__ == "__main__":
    main()
