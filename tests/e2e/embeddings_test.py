"""Embeddings and reranking by the real server: next to running chats, and of models that only embed."""

import base64
import contextlib
import math
import struct
import threading

import support
from flag_case import FlagCase, covers
from support import main, model, run_program, serve_command, timings, user, words

EMBEDDINGS = "/v1/embeddings"
RERANK = "/v1/rerank"
TEXTS = ["Machine learning is a field of study.", "winter garden", "Paris is a city", "x"]


def bert(*flags):
    return model("--arch", "bert", *flags)


def vectors(server, texts, **fields):
    return [one["embedding"] for one in server.post(EMBEDDINGS, {"input": texts, **fields})["data"]]


def cosine(one, other):
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


class Decoder(FlagCase):
    """A model that chats, with embeddings next to it."""

    @classmethod
    def start_class_servers(cls):
        cls.shared = cls.class_server("--embeddings", "--pooling", "mean", "-ub", "64", "-a", "local")

    @covers("--embeddings")
    def test_shapes(self):
        reply = self.shared.post(EMBEDDINGS, {"input": TEXTS[:2], "model": "local", "user": "u"})
        self.assertEqual((reply["object"], reply["model"], len(reply["data"])), ("list", "local", 2))
        self.assertEqual([(one["object"], one["index"], len(one["embedding"])) for one in reply["data"]],
                         [("embedding", 0, 128), ("embedding", 1, 128)])
        tokens = sum(len(self.shared.tokenize(text)) for text in TEXTS[:2])
        self.assertEqual(reply["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        for path in ("/embeddings", "/embedding"):
            native = self.shared.post(path, {"input": TEXTS[0]})
            self.assertEqual([one["index"] for one in native], [0])
            self.assertEqual(native[0]["embedding"], [reply["data"][0]["embedding"]])
            self.assertEqual(self.shared.post(path, {"content": TEXTS[0]}), native)
        self.assertRegex(self.shared.log(), r"embeddings done end=stop inputs=2 tokens=\d+ .*computed in .* id=embeddings-")

    def test_every_form_of_an_input_is_the_same(self):
        ids = self.shared.tokenize("winter garden")
        forms = ["winter garden", ids, {"prompt_string": "winter garden"}, {"content": [{"type": "text", "text": "winter garden"}]}]
        together = vectors(self.shared, forms)
        for form, vector in zip(forms, together, strict=True):
            self.assertEqual(vector, together[0], form)
            self.assertEqual(vectors(self.shared, form), [vector], form)
        self.assertEqual(vectors(self.shared, [ids[0], "garden"]), vectors(self.shared, [[ids[0], "garden"]]))

    def test_base64_dimensions_and_norms(self):
        plain = vectors(self.shared, "winter garden")[0]
        self.assertAlmostEqual(sum(x * x for x in plain), 1, places=5)
        encoded = self.shared.post(EMBEDDINGS, {"input": "winter garden", "encoding_format": "base64"})["data"][0]["embedding"]
        # The digits of a number in JSON are as many as tell a 32-bit float from its neighbours.
        self.assertEqual(base64.b64decode(encoded), struct.pack(f"<{len(plain)}f", *plain))
        short = vectors(self.shared, "winter garden", dimensions=16)[0]
        self.assertEqual(len(short), 16)
        self.assertAlmostEqual(sum(x * x for x in short), 1, places=5)
        self.assertGreater(cosine(short, plain[:16]), 0.99999)
        raw = vectors(self.shared, "winter garden", embd_normalize=-1)[0]
        self.assertGreater(abs(sum(x * x for x in raw) - 1), 0.01)
        self.assertAlmostEqual(max(abs(x) for x in vectors(self.shared, "winter garden", embd_normalize=0)[0]), 32760, delta=1)

    def test_mistakes(self):
        refused = lambda status, contains, path=EMBEDDINGS, **body: self.assert_refused(
            status, self.shared.post, path, body, contains=contains)
        refused(400, "'input' or 'content' is required")
        refused(400, "input 1 is empty", input=["a", ""])
        refused(400, "must not be empty", input=[])
        refused(400, "'dimensions' must be between 1 and 128", input="a", dimensions=129)
        refused(400, "'encoding_format'", input="a", encoding_format="hex")
        error = refused(400, "is too large to process", input=["a", words(100)])
        self.assertRegex(error["message"], r"input 1 \(1\d\d tokens\)")
        self.assertIn("at most 64; shorten it, or start the server with a larger --ubatch-size", error["message"])
        refused(400, "at least", input="word " * 200_000)
        refused(400, "at most 2048", input=["a"] * 2049)
        self.assert_refused(501, self.shared.post, RERANK, {"query": "a", "documents": ["b"]}, contains="--rerank")

    def test_the_server_needs_the_flag(self):
        server = self.server()
        self.assert_refused(501, server.post, EMBEDDINGS, {"input": "a"}, contains="--embeddings")
        self.assert_refused(501, server.post, RERANK, {"query": "a", "documents": ["b"]}, contains="--rerank")

    @covers("--pooling")
    def test_poolings(self):
        by_pooling = {}
        for pooling in ("cls", "last"):
            server = self.server("--embeddings", "--pooling", pooling)
            by_pooling[pooling] = vectors(server, TEXTS[0])[0]
            if pooling == "last":  # computed in slices, as long as the context
                longer = self.server("--embeddings", "--pooling", pooling, "-ub", "64")
                text = words(600)
                self.assertGreater(cosine(vectors(longer, text)[0], vectors(server, text)[0]), 0.999)
                error = self.assert_refused(400, longer.post, EMBEDDINGS, {"input": words(4200)})
                self.assertEqual((error["type"], error["n_ctx"]), ("exceed_context_size_error", 4096))
        self.assertLess(cosine(by_pooling["cls"], by_pooling["last"]), 0.9)
        none = self.server("--embeddings")  # a llama has no pooling of its own
        self.assertIn("start with --pooling mean or last", none.log())
        self.assert_refused(400, none.post, EMBEDDINGS, {"input": "a"}, contains="--pooling mean")
        ids = none.tokenize(TEXTS[0])
        raw = none.post("/embeddings", {"input": TEXTS[0]})[0]["embedding"]
        self.assertEqual([len(raw), len(raw[0])], [len(ids), 128])
        self.assertGreater(cosine(raw[-1], by_pooling["last"]), 0.9999)
        self.assertGreater(abs(sum(x * x for x in raw[0]) - 1), 0.01)

    @covers("--embd-normalize")
    def test_embd_normalize(self):
        server = self.server("--embeddings", "--pooling", "mean", "--embd-normalize", "1")
        self.assertAlmostEqual(sum(abs(x) for x in vectors(server, "winter garden")[0]), 1, places=4)
        self.assertAlmostEqual(sum(x * x for x in vectors(server, "winter garden", embd_normalize=2)[0]), 1, places=5)

    def test_running_chats_keep_their_state(self):
        """Chats go on while texts are embedded: each token is prefilled once, and no more than that."""
        server = self.server("--embeddings", "--pooling", "mean", "-np", "2", "--restore", "always")
        stop = threading.Event()
        embedded = []

        def embed():
            while not stop.is_set():
                embedded.append(len(vectors(server, [words(50, len(embedded) + i) for i in range(8)])))

        with self.background(embed, stop):
            prefilled = known = 0
            messages = [user(words(300, 7))]
            for turn in range(4):
                reply = server.chat(messages, max_tokens=12, temperature=0)
                ids = len(server.prompt_ids(messages))
                prefilled += timings(reply)["prompt_n"]
                # All of the last prompt and its reply, but for the last sampled token, is in memory.
                never = ids if turn == 0 else ids - (known - 1)
                self.assertEqual(timings(reply)["prompt_n"], never, f"turn {turn}")
                known = ids + timings(reply)["predicted_n"]
                messages += [reply["choices"][0]["message"], user(words(30, turn))]
        self.assertGreater(len(embedded), 0)
        self.assertIn("embeddings done", server.log())

    @contextlib.contextmanager
    def background(self, work, stop):
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def test_a_reply_is_not_held_up_by_many_inputs(self):
        server = self.server("--embeddings", "--pooling", "mean")
        many = threading.Thread(target=lambda: vectors(server, [words(60, i) for i in range(600)]))
        many.start()
        support.wait_until(lambda: vectors(server, "x"), "a short job has its turn")
        server.chat([user("hello")], max_tokens=5)
        self.assertNotIn("inputs=600", server.log(), "both came before the 600 were done")
        many.join()
        self.assertIn("inputs=600", server.log())

    def test_a_context_that_does_not_fit(self):
        done = run_program(*serve_command("--embeddings", "--pooling", "last", "-c", "200000000", "-ctk", "f32", "-ctv", "f32",
                                          base=False)[1:], "--no-kv-disk", limit_s=60)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "a context of .* tokens needs .* GiB")


class OnlyEmbeds(FlagCase):
    """A model that generates no text."""

    @classmethod
    def start_class_servers(cls):
        cls.shared = cls.class_server("--embeddings", "-t", "1", base=False, model_path=bert())

    def test_it_embeds(self):
        got = vectors(self.shared, TEXTS)
        self.assertEqual([len(vector) for vector in got], [128] * 4)
        self.assertLess(cosine(got[0], got[1]), 0.999)
        self.assertEqual(self.shared.post("/tokenize", {"content": "the winter", "add_special": True})["tokens"][0], 2)

    def test_it_refuses_to_generate(self):
        for path, body in (("/v1/chat/completions", {"messages": [user("x")]}), ("/v1/completions", {"prompt": "x"}),
                           ("/completion", {"prompt": "x"})):
            self.assert_refused(501, self.shared.post, path, body, contains="generates no text")
        self.assertEqual(self.shared.get("/health"), {"status": "ok"})
        self.assertEqual(self.shared.get("/v1/models")["data"][0]["meta"]["n_embd"], 128)
        self.shared.get("/props")
        self.shared.post("/cache/lookup", {"prompt": "hello there"})

    def test_inputs_end_with_the_trained_context(self):
        server = self.server("--embeddings", "-ub", "1024", "-t", "1", base=False, model_path=bert())
        error = self.assert_refused(400, server.post, EMBEDDINGS, {"input": "x " * 600})
        self.assertIn("(602 tokens) is too large to process: at most 512", error["message"])
        self.assertEqual(len(vectors(server, "x " * 510)[0]), 128)

    def test_it_needs_the_flag(self):
        done = run_program(*serve_command(base=False, model_path=bert())[1:], "--no-kv-disk")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a text generator: serve it with --embeddings", done.stderr)


class Rerank(FlagCase):
    @classmethod
    def start_class_servers(cls):
        cls.shared = cls.class_server("--rerank", "-t", "1", base=False, model_path=bert("--rerank"))

    @covers("--rerank")
    def test_ranking(self):
        replies = [self.shared.post(path, {"query": "machine learning", "documents": TEXTS})
                   for path in (RERANK, "/v1/reranking", "/rerank", "/reranking")]
        self.assertEqual(replies, [replies[0]] * 4)
        results = replies[0]["results"]
        self.assertEqual(sorted(one["index"] for one in results), [0, 1, 2, 3])
        scores = [one["relevance_score"] for one in results]
        self.assertEqual(scores, sorted(scores, reverse=True))
        self.assertEqual(len(set(scores)), 4)
        self.assertGreater(replies[0]["usage"]["total_tokens"], 4 * 4)
        self.assertEqual(replies[0]["usage"]["total_tokens"], replies[0]["usage"]["prompt_tokens"])
        two = self.shared.post(RERANK, {"query": "machine learning", "documents": TEXTS, "top_n": 2, "return_documents": True})
        self.assertEqual([one["index"] for one in two["results"]], [one["index"] for one in results[:2]])
        self.assertEqual(two["results"][0]["document"], {"text": TEXTS[results[0]["index"]]})
        tei = self.shared.post("/rerank", {"query": "machine learning", "texts": TEXTS})
        self.assertEqual([(one["index"], one["score"]) for one in tei], [(one["index"], one["relevance_score"]) for one in results])
        self.assertIn("rerank done end=stop inputs=4", self.shared.log())

    def test_mistakes(self):
        for documents in ([], None, 123, [1, 2, 3]):
            self.assert_refused(400, self.shared.post, RERANK, {"query": "a", "documents": documents}, contains="'documents'")
        self.assert_refused(400, self.shared.post, RERANK, {"documents": ["a"]}, contains="'query' is required")
        self.assert_refused(400, self.shared.post, RERANK, {"query": "a", "documents": ["x " * 600]}, contains="too large")
        self.assert_refused(400, self.shared.post, EMBEDDINGS, {"input": "a"}, contains="/v1/rerank")

    def test_a_model_without_a_classifier(self):
        done = run_program(*serve_command("--rerank", base=False, model_path=bert())[1:], "--no-kv-disk")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot rank: it has no classifier", done.stderr)


if __name__ == "__main__":
    main()
