"""Vectors and scores beside llama-server's, of the same files: equal up to rounding, and in the same shapes."""

import os

from embeddings_test import EMBEDDINGS, RERANK, TEXTS, bert, cosine
from support import ServerCase, ServerProcess, fresh_path, main, model, words

LLAMA_SERVER = os.environ["KVKEEP_LLAMA_SERVER"]


class BesideLlamaServer(ServerCase):
    """The same vectors and scores, up to rounding, from the same file."""

    def pair(self, path, *flags):
        ours = self.server(*flags, "-t", "1", base=False, model_path=path)
        theirs = self.enterContext(ServerProcess([LLAMA_SERVER, "-m", path, *flags, "-t", "1", "--no-warmup"],
                                                 log_path=fresh_path("llama-server.log")))
        return ours, theirs

    def test_vectors(self):
        for path, flags in ((model(), ("--pooling", "mean")), (model(), ("--pooling", "last")), (bert(), ()),
                            (bert(), ("--pooling", "cls")), (model("--arch", "gemma3"), ("--pooling", "mean"))):
            with self.subTest(path=path, flags=flags):
                ours, theirs = self.pair(path, "--embeddings", "-c", "1024", *flags)
                one, other = (server.post(EMBEDDINGS, {"input": [*TEXTS, words(60), "Été [SEP] <|im_end|>"]})
                              for server in (ours, theirs))
                self.assertEqual(one["usage"], other["usage"])
                for a, b in zip(one["data"], other["data"], strict=True):
                    self.assertEqual({**a, "embedding": 0}, {**b, "embedding": 0})
                    self.assertGreater(cosine(a["embedding"], b["embedding"]), 0.9999)
                native = [server.post("/embeddings", {"input": TEXTS, "embd_normalize": -1}) for server in (ours, theirs)]
                for a, b in zip(*native, strict=True):
                    self.assertEqual([a["index"], len(a["embedding"])], [b["index"], len(b["embedding"])])
                    for x, y in zip(a["embedding"][0], b["embedding"][0], strict=True):
                        self.assertAlmostEqual(x, y, delta=1e-2)

    def test_scores(self):
        ours, theirs = self.pair(bert("--rerank"), "--rerank")
        one, other = (server.post(RERANK, {"query": "Which city?", "documents": TEXTS}) for server in (ours, theirs))
        self.assertEqual(one["usage"], other["usage"])
        self.assertEqual([result["index"] for result in one["results"]], [result["index"] for result in other["results"]])
        for a, b in zip(one["results"], other["results"], strict=True):
            self.assertAlmostEqual(a["relevance_score"], b["relevance_score"], places=3)


if __name__ == "__main__":
    main()
