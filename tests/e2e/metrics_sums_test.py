"""The metrics of a mixed run, with kills, are the sums of the trace's lines: two accounts of the same requests, made in
different places."""

import collections
import concurrent.futures
import contextlib
import json
import re

from monitoring_test import metrics
from support import (HttpError, ServerCase, assistant, fresh_directory, fresh_path, main, make_random, reply_text, system, user,
                     wait_until, words)

COMPLETION = "/v1/completions"
LIVES = 2  # of the server, with kills between them
STEPS = 6


class MetricsAndTrace(ServerCase):
    def converse(self, server, choose, number):
        """Turns of a conversation, side requests, and clients that leave."""
        talk = [system(words(120, number % 2)), user(words(60, 10 + number))]
        for _ in range(STEPS):
            kind = choose.choice(("turn", "turn", "side", "off", "leave", "choices"))
            if kind == "turn":
                talk += [assistant(reply_text(server.chat(talk, max_tokens=choose.choice((1, 6, 20))))),
                         user(words(choose.choice((5, 40)), choose.randrange(1000)))]
            elif kind == "side":
                server.post(COMPLETION, {"prompt": words(choose.randrange(1, 150), choose.randrange(4)), "max_tokens": 3})
            elif kind == "off":
                server.post(COMPLETION, {"prompt": words(30, 1), "max_tokens": 2, "cache_prompt": False})
            elif kind == "choices":
                server.post(COMPLETION, {"prompt": [words(40, 5), words(50, 6)], "max_tokens": 2})
            else:
                stream = server.stream(COMPLETION, {"prompt": words(80, choose.randrange(9)), "max_tokens": 200,
                                                    "stream": True, "ignore_eos": True})
                next(stream)
                stream.close()

    @staticmethod
    def lines_after(path, first):
        with open(path) as file:
            return [json.loads(line) for line in file.read().splitlines()[first:]]

    def settled(self, server, path, first):
        """The trace's lines of this life of the server, once all requests have one, and the metrics then."""
        def look():
            values = metrics(server)[0]
            ended = sum(value for name, value in values.items() if name.startswith("kvkeep_requests_ended_total"))
            lines = [line for line in self.lines_after(path, first) if line["route"] != "audit"]
            idle = values["llamacpp:requests_processing"] == values["llamacpp:requests_deferred"] == 0
            return (lines, values) if idle and len(lines) == ended == values["kvkeep_requests_total"] else None

        return wait_until(look, "each request has its line")

    def compare(self, lines, values):
        started = [line for line in lines if line["cache_miss_reason"] is not None]

        def total(field, of=lines):
            return sum(line[field] for line in of)

        def value(name, **labels):
            text = ",".join(f'{label}="{one}"' for label, one in labels.items())
            return values[f"{name}{{{text}}}" if text else name]

        for source in ("memory", "ram", "disk", "shared"):
            self.assertEqual(value("kvkeep_prompt_tokens_total", source=source),
                             sum(line["cache_tokens"][source] for line in started), source)
        missed = collections.Counter()
        for line in started:
            missed[line["cache_miss_reason"]] += line["prefilled_tokens"]
        self.assertEqual(value("kvkeep_prompt_tokens_total", source="prefill"), missed.total())
        for name in [name for name in values if name.startswith("kvkeep_missed_tokens_total")]:
            reason = re.search(r'reason="([^"]+)"', name)[1]
            self.assertEqual(values[name], missed[reason], reason)
            self.assertEqual(value("kvkeep_prompts_total", reason=reason),
                             sum(line["cache_miss_reason"] == reason for line in started), reason)
        broken = [line["cache_break"] for line in lines if line.get("cache_break")]
        for name in [name for name in values if name.startswith("kvkeep_lost_tokens_total")]:
            kind = re.search(r'kind="([^"]+)"', name)[1]
            own = [one for one in broken if one["kind"] == kind]
            self.assertEqual(values[name], sum(one["lost_tokens"] for one in own), kind)
            if kind != "none":
                self.assertEqual(value("kvkeep_breaks_total", kind=kind), len(own), kind)
        self.assertEqual(value("llamacpp:prompt_tokens_cached_total"), total("cached_tokens", started))
        self.assertEqual(value("llamacpp:prompt_tokens_total"), total("prefilled_tokens"))
        self.assertEqual(value("llamacpp:tokens_predicted_total"), total("predicted_tokens"))
        for end in ("stop", "length", "client-left", "error"):
            self.assertEqual(value("kvkeep_requests_ended_total", end=end), sum(line["finish"] == end for line in lines), end)
        for name, field in (("read", "read"), ("restored", "restored")):
            self.assertEqual(value(f"kvkeep_{name}_bytes_total"), total(f"{field}_bytes"))
            self.assertAlmostEqual(value(f"kvkeep_{name}_seconds_total"), total(f"{field}_ms") / 1e3, delta=0.001 * len(lines))
        for cause in ("place", "prefix", "cells", "disk", "turn", "encoder"):
            self.assertAlmostEqual(value("kvkeep_wait_seconds_total", cause=cause),
                                   sum(line["waited_ms"][cause] for line in lines) / 1e3, delta=0.001 * len(lines))
        self.assertEqual(value("kvkeep_captured_bytes_total"), sum(cut["bytes"] for line in lines for cut in line["cuts"]))
        self.assertEqual(total("cuts_left_out"), 0)
        self.assertEqual(value("kvkeep_queue_seconds_count"), len(started))
        self.assertAlmostEqual(value("kvkeep_queue_seconds_sum"), total("queue_ms", started) / 1e3, delta=0.001 * len(lines))
        replying = [line for line in lines if line["predicted_tokens"] > 0]
        self.assertEqual(value("kvkeep_first_token_seconds_count"), len(replying))
        self.assertEqual(value("kvkeep_token_gap_seconds_count"), total("predicted_tokens") - len(replying))

    def test_they_agree_after_a_mixed_run_with_kills(self):
        choose = make_random()
        path = fresh_path("trace.jsonl")
        server = self.server("--kv-disk-dir", fresh_directory(), "--trace", path, "-np", 2, "--restore", "always",
                             "--kv-cache-audit-minutes", 0, "-b", 128, "-ub", 128)
        from_disk, first = 0, 0
        for life in range(LIVES):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                clients = [pool.submit(self.converse, server, type(choose)(choose.randrange(1 << 32)), number)
                           for number in range(3)]
                for client in clients:
                    client.result(timeout=200)
            server.post(COMPLETION, {"prompt": "the last one", "max_tokens": 1, "cache_prompt": False})
            lines, values = self.settled(server, path, first)
            self.compare(lines, values)
            from_disk += values['kvkeep_prompt_tokens_total{source="disk"}']
            with contextlib.suppress(HttpError, OSError):  # something is under way when the server dies
                stream = server.stream(COMPLETION, {"prompt": words(200, 77 + life), "max_tokens": 50, "stream": True})
                next(stream)
            server.restart_after_kill()
            with open(path) as file:
                first = len(file.read().splitlines())
        self.assertGreater(from_disk, 0, "later lives were to read what earlier ones wrote")


if __name__ == "__main__":
    main()
