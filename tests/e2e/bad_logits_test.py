"""A model with one damaged token: whoever sends it gets an error, and nobody else notices.

The scale of a block of the token's embedding is NaN, so that its hidden state is, and every row that looks at its row.
"""

import concurrent.futures
import os
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "compatibility"))

from stand_in_models import Gguf  # noqa: E402
from support import HttpError, ServerCase, fresh_path, main, model  # noqa: E402

POISON = 333
BLOCK_BYTES = 34  # of Q8_0: a scale in f16, and 32 weights
BATCH = ["-ub", "128", "-b", "128"]
QUANTIZED = ["-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"]


def poisoned_model():
    path = fresh_path("poisoned.gguf")
    gguf = Gguf(model())
    for at, (name, shape, kind, data) in enumerate(gguf.tensors):
        if name == "token_embd.weight":
            begin = POISON * (shape[0] // 32) * BLOCK_BYTES
            changed = bytearray(data)
            struct.pack_into("<H", changed, begin, 0x7E00)
            gguf.tensors[at] = (name, shape, kind, bytes(changed))
    gguf.write(path)
    return path


def prompt(seed, tokens):
    return [400 + (seed * 7919 + at * 31 + at * at % 97) % 2500 for at in range(tokens)]


class BadLogits(ServerCase):
    def ask(self, server, ids, tokens=12):
        return server.post("/completion", {"prompt": ids, "n_predict": tokens, "temperature": 0, "return_tokens": True})

    def check(self, *flags, texts_are_equal=True):
        server = self.server("-c", "16384", "-np", "4", *BATCH, *flags, model_path=poisoned_model(), base=False)
        others = [prompt(seed, tokens) for seed, tokens in ((1, 900), (2, 400), (3, 30))]
        expected = [self.ask(server, ids)["tokens"] for ids in others]
        server.post("/cache/clear", {"all": True})
        bad = prompt(9, 2000)
        bad[100] = POISON
        with concurrent.futures.ThreadPoolExecutor() as pool:
            failed = pool.submit(self.ask, server, bad)
            time.sleep(0.05)
            asked = [pool.submit(self.ask, server, ids) for ids in others]
            replies = [each.result()["tokens"] for each in asked]
            with self.assertRaises(HttpError) as refused:
                failed.result()
        self.assertEqual(refused.exception.status, 500)
        self.assertIn("NaN or infinite", str(refused.exception))
        with self.assertRaises(HttpError):
            self.ask(server, bad)  # nothing of it was kept, so that it fails again
        self.assertEqual([len(reply) for reply in replies], [len(reply) for reply in expected])
        if texts_are_equal:
            self.assertEqual(replies, expected)

    def test_nobody_else_notices(self):
        self.check(*QUANTIZED)

    def test_nobody_else_notices_with_cells_of_their_own(self):
        self.check("-no-kvu", *QUANTIZED)

    # Rows in f16 lie elsewhere the second time, so that near ties may end in other texts.
    def test_nobody_else_fails_without_flash_attention(self):
        self.check("-fa", "off", texts_are_equal=False)


if __name__ == "__main__":
    main()
