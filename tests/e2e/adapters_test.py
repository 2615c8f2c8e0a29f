"""LoRA adapters whose scales requests choose: never one text computed with another's state."""

import os
import subprocess
import threading

from flag_case import COMPLETION, FlagCase, covers
from gguf_writer import LAYERS, WIDTH, make_lora
from support import fresh_directory, fresh_path, main, segments, wait_until, words

FORGE = os.environ["KVKEEP_FORGE_SEGMENT"]


class Adapters(FlagCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.loras = [make_lora(fresh_path(f"lora{seed}.gguf"), WIDTH, LAYERS, seed) for seed in (1, 2)]

    def scaled(self, *scales):
        return [{"id": id, "scale": scale} for id, scale in enumerate(scales)]

    def ask(self, server, count=100, **fields):
        return server.post(COMPLETION, {"prompt": words(count, 5), "max_tokens": 24, "temperature": 0, **fields})

    def text_of(self, reply):
        return reply["choices"][0]["text"]

    @covers("--lora-init-without-apply")
    def test_each_request_has_its_own(self):
        scales = [(1, 0), (0, 1), (0.5, 0.5), (0, 0)]
        expected = []
        for a, b in scales:
            with self._make(self._logs, ["--lora-scaled", f"{self.loras[0]}:{a},{self.loras[1]}:{b}"], {}) as server:
                expected.append(self.text(server))
        self.assertEqual(len(set(expected)), len(scales))
        directory = fresh_directory()
        flags = ["--lora", ",".join(self.loras), "--lora-init-without-apply", "--kv-disk-dir", directory]
        for start in range(2):
            server = self.server(*flags)
            for turn in range(2):
                for asked, text in zip(scales, expected):
                    reply = self.ask(server, lora=self.scaled(*asked))
                    self.assertEqual(self.text_of(reply), text)
                    cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
                    self.assertEqual(cached > 90, start + turn > 0, (asked, cached))
            self.assertEqual(self.text_of(self.ask(server)), expected[3])
            server.stop()

    def test_a_lookup_asks_for_the_same_state(self):
        server = self.server("--lora", ",".join(self.loras))
        self.ask(server, lora=self.scaled(0.5, 0))
        known = {"prompt": words(100, 5), "lora": self.scaled(0.5, 0)}
        self.assertGreater(server.post("/cache/lookup", known)["cached_tokens"], 90)
        for other in ({**known, "lora": self.scaled(0.25, 0)}, {"prompt": known["prompt"]}):
            self.assertEqual(server.post("/cache/lookup", other)["cached_tokens"], 0)
        self.assert_refused(400, server.post, "/cache/lookup", {**known, "lora": [{"id": 7, "scale": 1}]}, contains="adapter 7")

    def test_orders_reach_the_state_of_other_scales(self):
        server = self.server("--lora", ",".join(self.loras), "--kv-disk-dir", fresh_directory())
        half = {"lora": self.scaled(0.5, 0)}
        prompt = {"prompt": words(100, 5)}
        def known(**fields):
            return server.post("/cache/lookup", {**prompt, **fields})["cached_tokens"] > 90
        def ask_all():
            for fields in ({}, half, {"cache_salt": "a", **half}):
                self.ask(server, **fields)
        ask_all()
        tree = wait_until(lambda: (now := server.get("/cache/tree")["prefixes"]) and len({one["id"] for one in now}) >= 2
                          and all(one["disk_bytes"] for one in now) and now, "both are on disk")
        self.assertEqual([one["salted"] for one in server.get("/cache")["tenants"]], [True, False, False])
        self.assertEqual([one["own"] for one in server.get("/cache")["tenants"]], [False, True, True])
        pinned = server.post("/cache/pin", {**prompt, **half})
        self.assertTrue(pinned["pinned"])
        self.assertIn(pinned["id"], [one["id"] for one in tree])
        self.assertNotEqual(pinned["id"], server.post("/cache/pin", prompt)["id"])
        self.assertFalse(server.post("/cache/unpin", {"id": pinned["id"]})["pinned"])
        server.post("/cache/clear", {**prompt, **half})
        self.assertEqual((known(), known(**half)), (True, False))
        ask_all()
        self.assertTrue(known(**half))
        server.post("/cache/clear", {"all": True})
        self.assertEqual((known(), known(**half), known(cache_salt="a", **half)), (False, False, True))
        server.post("/cache/clear", {"all": True, "cache_salt": "a"})
        self.assertFalse(known(cache_salt="a", **half))

    def test_state_of_a_former_version_is_set_aside_and_told(self):
        directory = fresh_directory()
        flags = ["--lora", ",".join(self.loras), "--kv-disk-dir", directory]
        half = {"lora": self.scaled(0.5, 0)}
        server = self.server(*flags)
        for fields in ({}, half):
            self.ask(server, **fields)
        self.assertEqual(server.stop(), 0)
        former = [path for path in segments(directory) if subprocess.run([FORGE, path]).returncode == 0]
        self.assertGreater(len(former), 0)
        self.assertLess(len(former), len(segments(directory)))
        server = self.server(*flags)
        told = [line for line in server.log().splitlines() if "set aside state that an earlier version stored" in line]
        self.assertEqual(len(told), 1, server.log())
        self.assertIn(f"({len(former)} files)" if len(former) > 1 else "(one file)", told[0])
        self.assertLessEqual(set(former), set(segments(directory)), "they stay until their room is needed")
        cached = [self.ask(server, **fields)["usage"]["prompt_tokens_details"]["cached_tokens"] for fields in ({}, half)]
        self.assertGreater(cached[0], 90)
        self.assertEqual(cached[1], 0)

    def test_side_by_side(self):
        server = self.server("--lora", ",".join(self.loras), "-np", 4)
        scales = [(1, 0), (0, 1), (0.5, 0.5), (0, 0)]
        alone = [self.text_of(self.ask(server, lora=self.scaled(*each))) for each in scales]
        together = [None] * len(scales)

        def run(at):
            together[at] = self.text_of(self.ask(server, lora=self.scaled(*scales[at])))
        threads = [threading.Thread(target=run, args=(at,)) for at in range(len(scales))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_several_replies_share_them(self):
        server = self.server("--lora", ",".join(self.loras))
        lora = self.scaled(0.5, 0)
        alone = self.text_of(self.ask(server, lora=lora))
        texts = [choice["text"] for choice in self.ask(server, lora=lora, n=3)["choices"]]
        self.assertEqual(texts, [alone] * 3)

    def test_scales_for_all_requests(self):
        server = self.server("--lora", ",".join(self.loras))
        listed = server.get("/lora-adapters")
        self.assertEqual([(each["id"], each["path"], each["scale"]) for each in listed],
                         [(0, self.loras[0], 1.0), (1, self.loras[1], 1.0)])
        both = self.text_of(self.ask(server))
        self.assertEqual(server.post("/lora-adapters", self.scaled(1)), {"success": True})
        self.assertEqual([each["scale"] for each in server.get("/lora-adapters")], [1.0, 0.0])
        first = self.text_of(self.ask(server))
        self.assertNotEqual(first, both)
        self.assertEqual(first, self.text_of(self.ask(server, lora=self.scaled(1, 0))))
        self.assertEqual(both, self.text_of(self.ask(server, lora=self.scaled(1, 1))))


if __name__ == "__main__":
    main()
