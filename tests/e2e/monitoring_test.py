"""Monitors and launchers: GET /metrics, GET /slots, POST /props, and slots that are saved.

Names and shapes are llama-server's. The counters are compared with the replies' own.
"""

import contextlib
import os
import time

from flag_case import FlagCase, covers
from prometheus_text import parse_metrics
from support import fresh_directory, main, model, run_program, serve_command, timings, user, wait_until, words

CHAT = "/v1/chat/completions"
COMPLETION = "/v1/completions"
LONG = 65536  # a context whose half takes many seconds to fill
# llama-server 0.7.0's, of a server without drafts.
LLAMA_COUNTERS = {"prompt_tokens_total", "prompt_tokens_cached_total", "prompt_seconds_total", "tokens_predicted_total",
                  "tokens_predicted_seconds_total", "n_decode_total", "n_tokens_max",
                  "spec_decode_num_draft_tokens_total", "spec_decode_num_accepted_tokens_total",
                  "spec_decode_num_drafts_total"}
LLAMA_GAUGES = {"prompt_tokens_seconds", "predicted_tokens_seconds", "requests_processing", "requests_deferred",
                "n_busy_slots_per_decode"}


def get_text(server, path):
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()


def metrics(server):
    """Values by name with labels, and kinds by name; checks the form of each line."""
    status, headers, text = get_text(server, "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"), (status, headers)
    return parse_metrics(text)


class Metrics(FlagCase):
    @covers("--metrics")
    def test_metrics_are_the_sums_of_the_replies(self):
        server = self.server()
        values, kinds = metrics(server)
        self.assertEqual({name for name in kinds if name.startswith("llamacpp:")},
                         {"llamacpp:" + name for name in LLAMA_COUNTERS | LLAMA_GAUGES})
        for name in LLAMA_COUNTERS | LLAMA_GAUGES:
            self.assertEqual(kinds["llamacpp:" + name], "counter" if name in LLAMA_COUNTERS else "gauge", name)
            self.assertEqual(values["llamacpp:" + name], 0, name)
        self.assertGreater(len([name for name in kinds if name.startswith("kvkeep_")]), 20)
        self.assertTrue(server.get("/props")["endpoint_metrics"])
        replies = [timings(server.post(COMPLETION, {"prompt": words(count, 3), "max_tokens": 8, "temperature": 0}))
                   for count in (120, 240)]
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_processing"] == 0, "all requests have ended")
        values, _ = metrics(server)
        total = {name: sum(reply[name] for reply in replies) for name in ("prompt_n", "cache_n", "predicted_n", "predicted_ms")}
        self.assertGreater(total["cache_n"], 100)
        self.assertEqual(values["llamacpp:prompt_tokens_total"], total["prompt_n"])
        self.assertEqual(values["llamacpp:prompt_tokens_cached_total"], total["cache_n"])
        self.assertEqual(values["llamacpp:tokens_predicted_total"], total["predicted_n"])
        self.assertAlmostEqual(values["llamacpp:tokens_predicted_seconds_total"], total["predicted_ms"] / 1e3, 3)
        self.assertEqual(values["llamacpp:n_tokens_max"], replies[1]["prompt_n"] + replies[1]["cache_n"] + 7)
        self.assertEqual(values["llamacpp:n_busy_slots_per_decode"], 1)
        self.assertGreaterEqual(values["llamacpp:n_decode_total"], 2 * 8)
        self.assertEqual(metrics(server)[0]["llamacpp:prompt_tokens_seconds"], 0, "nothing since the last scrape")
        self.assertEqual(values["kvkeep_requests_total"], 2)
        self.assertGreater(values["kvkeep_cache_tokens"], 100)
        self.assertEqual(values['kvkeep_cache_budget_bytes{tier="ram"}'], 64 << 20)
        self.assertGreater(values['kvkeep_cache_used_bytes{tier="ram"}'], 0)
        self.assertEqual(values['kvkeep_prompt_tokens_total{source="memory"}'], total["cache_n"])
        self.assertEqual(values['kvkeep_prompt_tokens_total{source="prefill"}'], total["prompt_n"])
        self.assertEqual(values["kvkeep_new_tokens_total"], total["prompt_n"])
        self.assertEqual(values["kvkeep_prefilled_per_new_token"], 1)
        self.assertEqual(values["kvkeep_first_token_seconds_count"], 2)
        self.assertEqual(values["kvkeep_token_gap_seconds_count"], total["predicted_n"] - 2)
        self.assertAlmostEqual(values["kvkeep_token_gap_seconds_sum"], total["predicted_ms"] / 1e3, 3)
        self.assertEqual(values['kvkeep_requests_ended_total{end="length"}'], 2)

    def test_without_the_flag_there_are_some_but_not_with_its_opposite(self):
        for flags, environment, served in ((("--metrics",), {}, True), ((), {"LLAMA_ARG_ENDPOINT_METRICS": "0"}, False),
                                           (("--no-metrics",), {"LLAMA_ARG_ENDPOINT_METRICS": "1"}, False)):
            with self.subTest(flags=flags, environment=environment):
                server = self.server(*flags, environment=environment)
                self.assertEqual(server.get("/props")["endpoint_metrics"], served)
                if not served:
                    error = self.assert_refused(501, server.get, "/metrics", contains="Start it with `--metrics`")
                    self.assertEqual(error["type"], "not_supported_error")
                self.assertEqual(get_text(server, "/metrics")[0], 200 if served else 501)

    def test_metrics_need_the_key(self):
        server = self.server("--api-key", "secret")
        for path in ("/metrics", "/slots"):
            self.assert_refused(401, server.get, path)


class Slots(FlagCase):
    @covers("--slots")
    def test_a_running_request_is_shown_without_its_text(self):
        server = self.server("-np", 2, "-c", LONG)
        idle = server.get("/slots")
        self.assertEqual(idle, [{"id": number, "n_ctx": LONG, "speculative": False, "is_processing": False}
                                for number in range(2)])
        body = {"prompt": words(200, 4) + " confidential", "max_tokens": LONG // 2, "temperature": 0, "top_k": 7, "stream": True,
                "stop": ["neverwritten"], "ignore_eos": True}
        stream = server.stream(COMPLETION, body)
        next(stream)
        first = wait_until(lambda: [slot for slot in server.get("/slots")
                                    if slot["is_processing"] and slot["next_token"][0]["n_decoded"]], "a request runs")
        self.assertEqual(len(first), 1)
        [slot] = first
        self.assertEqual((slot["id"], slot["n_ctx"], slot["id_task"] > 0), (0, LONG, True))
        self.assertGreater(slot["n_prompt_tokens"], 200)
        self.assertEqual(slot["n_prompt_tokens_processed"] + slot["n_prompt_tokens_cache"], slot["n_prompt_tokens"])
        self.assertEqual((slot["params"]["top_k"], slot["params"]["n_predict"]), (7, LONG // 2))
        [token] = slot["next_token"]
        self.assertTrue(token["has_next_token"])
        self.assertEqual(token["n_decoded"] + token["n_remain"], LONG // 2)
        wait_until(lambda: server.get("/slots")[0]["next_token"][0]["n_decoded"] > token["n_decoded"], "it goes on")
        text = get_text(server, "/slots?fail_on_no_slot=1")[2]
        for private in ("confidential", "neverwritten", "river"):
            self.assertNotIn(private, text)
        stream.close()
        wait_until(lambda: not server.get("/slots")[0]["is_processing"], "it ends when its client leaves")
        self.assertGreater(server.get("/slots")[0]["next_token"][0]["n_decoded"], 0)

    def test_no_slot_is_a_failure_if_asked(self):
        server = self.server("-np", 1, "-c", LONG)
        self.assertEqual(len(server.get("/slots?fail_on_no_slot=1")), 1)
        stream = server.stream(COMPLETION, {"prompt": words(30), "max_tokens": LONG // 2, "stream": True, "ignore_eos": True})
        next(stream)
        with contextlib.closing(server.connection()) as waiting:
            waiting.request("POST", COMPLETION, '{"prompt": "x", "max_tokens": 1}')
            wait_until(lambda: metrics(server)[0]["llamacpp:requests_deferred"] == 1, "the second request waits")
            self.assertEqual(metrics(server)[0]["llamacpp:requests_processing"], 1)
            error = self.assert_refused(503, server.get, "/slots?fail_on_no_slot=1", contains="no slot available")
            self.assertEqual(error["type"], "unavailable_error")
            self.assertEqual(len(server.get("/slots")), 1)
            stream.close()
            self.assertEqual(waiting.getresponse().status, 200)

    def test_slots_can_be_hidden(self):
        for flags, environment in ((("--no-slots",), {}), ((), {"LLAMA_ARG_ENDPOINT_SLOTS": "0"})):
            server = self.server(*flags, environment=environment)
            self.assert_refused(501, server.get, "/slots", contains="Start it with `--slots`")
            self.assertFalse(server.get("/props")["endpoint_slots"])
        self.assertTrue(self.server("--slots", environment={"LLAMA_ARG_ENDPOINT_SLOTS": "0"}).get("/props")["endpoint_slots"])

    def test_slots_are_saved_only_where_the_operator_says(self):
        server = self.server("-np", 2)
        for action in ("save", "restore", "erase"):
            error = self.assert_refused(501, server.post, f"/slots/1?action={action}", {"filename": "x"},
                                        contains="Start it with `--slot-save-path`")
            self.assertEqual(error["type"], "not_supported_error")

    @covers("--slot-save-path")
    def test_a_slot_is_saved_restored_and_erased(self):
        saved = fresh_directory()
        flags = ("-np", 2, "--kv-disk-dir", fresh_directory(), "--slot-save-path", saved)
        server = self.server(*flags)
        prompt = words(100, 7)

        def complete(slot, server=server):
            reply = server.post("/completion", {"prompt": prompt, "id_slot": slot, "n_predict": 8, "temperature": 0})
            self.assertEqual((reply["id_slot"], reply["timings"]["id_slot"]), (slot % 2, slot % 2))
            return reply["timings"]["prompt_n"], reply["timings"]["cache_n"]

        def act(slot, action, server=server, **body):
            return server.post(f"/slots/{slot}?action={action}", body)

        self.assertEqual(act(1, "save", filename="nothing")["n_saved"], 0)
        length, _ = complete(1)
        kept = act(1, "save", filename="x.bin")
        self.assertEqual((kept["id_slot"], kept["n_saved"]), (1, length + 7))
        self.assertEqual(kept["n_written"], os.path.getsize(os.path.join(saved, "x.bin")))
        self.assertEqual(act(0, "restore", filename="x.bin")["n_restored"], length + 7)
        self.assertEqual(act(0, "erase")["n_erased"], length + 7, "also where it was restored to")
        self.assertEqual(complete(1), (length, 0), "nothing of it is left")
        self.assertEqual(act(1, "erase")["n_erased"], length + 7)
        self.assertEqual(complete(3), (length, 0))
        self.assertEqual(act(3, "erase"), {"id_slot": 1, "n_erased": length + 7}, "as llama-server: 3 modulo 2")
        server.stop()
        after = self.server(*flags)
        self.assertEqual(act(0, "restore", server=after, filename="x.bin")["n_restored"], length + 7)
        self.assertEqual(complete(0, after)[0], 1, "all of it was computed again, but the last token")
        self.assert_refused(400, act, 0, "restore", after, filename="missing", contains="missing")
        self.assert_refused(400, act, 0, "save", after, filename="../x", contains="Invalid filename")
        self.assert_refused(400, act, "x", "save", after, filename="x", contains="Invalid slot ID")
        other = self.server("--slot-save-path", saved, model_path=model("--seed", "2"))
        self.assert_refused(400, act, 0, "restore", other, filename="x.bin", contains="another model")

    # A program that erases the slot which a reply names erases that conversation, and no other one.
    def test_a_reply_names_the_slot_that_it_ran_in(self):
        server = self.server("-np", 2, "--slot-save-path", fresh_directory())
        prompts = {slot: words(60, slot) for slot in (1, 0)}
        for slot, prompt in prompts.items():
            body = {"prompt": prompt, "id_slot": slot, "n_predict": 4, "temperature": 0, "stream": True, "return_progress": True}
            self.assertEqual({event["id_slot"] for _, event in server.stream("/completion", body)}, {slot})
        again = {"prompt": prompts[1], "id_slot": 1, "n_predict": 4, "temperature": 0}
        named = server.post("/completion", again)["id_slot"]
        server.post(f"/slots/{named}?action=erase", {})
        cached = {slot: server.post("/completion", {"prompt": prompt, "n_predict": 1})["timings"]["cache_n"]
                  for slot, prompt in prompts.items()}
        self.assertEqual(cached[1], 0)
        self.assertGreater(cached[0], 40)

    def test_a_path_that_is_not_there_is_an_error(self):
        run = run_program(*serve_command("--slot-save-path", "/nowhere/slots")[1:])
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--slot-save-path", run.stderr)


class Props(FlagCase):
    @covers("--props")
    def test_no_property_can_be_changed(self):
        server = self.server("--props")
        self.assertTrue(server.get("/props")["endpoint_props"])
        before = server.get("/props")
        for path in ("/props", "/v1/props"):
            self.assertEqual(server.post(path, {}), {"success": True})
            self.assert_refused(400, server.post, path, {"total_slots": 7}, contains="'total_slots' cannot be changed")
        self.assertEqual(server.get("/props"), before)
        server = self.server()
        self.assertFalse(server.get("/props")["endpoint_props"])
        self.assert_refused(501, server.post, "/props", {}, contains="Start it with `--props`")


class Counting(FlagCase):
    def test_a_chat_is_counted_as_it_would_be_computed(self):
        server = self.server()
        body = {"messages": [user("Count me.")], "tools": [{"type": "function", "function": {"name": "f"}}]}
        usage = server.post(CHAT, {**body, "max_tokens": 1})["usage"]
        for path in (CHAT, "/chat/completions"):
            self.assertEqual(server.post(path + "/input_tokens", body),
                             {"object": "response.input_tokens", "input_tokens": usage["prompt_tokens"]})
        self.assert_refused(400, server.post, CHAT + "/input_tokens", {"messages": "x"}, contains="messages")


class Pings(FlagCase):
    @covers("--sse-ping-interval")
    def test_a_silent_stream_gets_pings_as_often_as_asked(self):
        for seconds, pinged in ((1, True), (-1, False)):
            server = self.server("-np", 1, "-c", LONG, "--sse-ping-interval", seconds)
            first = server.stream(COMPLETION, {"prompt": "x", "max_tokens": LONG // 2, "stream": True, "ignore_eos": True})
            next(first)
            with contextlib.closing(server.connection()) as waiting:  # until the first one has ended
                waiting.request("POST", COMPLETION, '{"prompt": "y", "max_tokens": 1, "stream": true}')
                time.sleep(2.5)
                first.close()
                self.assertEqual(": keep-alive" in waiting.getresponse().read().decode(), pinged, seconds)


class NeutralFlags(FlagCase):
    @covers("--cache-reuse", "--spec-type", "--spec-draft-n-max", "--spec-draft-n-min", "--pooling", "--n-cpu-ffn",
            "--moe-cache-mib", "--sleep-idle-seconds")
    def test_values_that_ask_for_what_is_so_anyway_change_nothing(self):
        neutral = {"--cache-reuse": 0, "--spec-type": "none", "--spec-draft-n-max": 0, "--spec-draft-n-min": 0,
                   "--pooling": "none", "--n-cpu-ffn": 0, "--moe-cache-mib": 0,
                   "--sleep-idle-seconds": -1}
        flags = [part for pair in neutral.items() for part in pair]
        self.assertEqual(self.params(*flags), self.params())
        self.assertEqual(self.text_with(*flags), self.text_with())
        del neutral["--pooling"]  # obeyed where something embeds (embeddings_test.py)
        for name in neutral:
            with self.subTest(name=name):
                run = run_program(*serve_command("--no-kv-disk", "--port", "0", name, "7")[1:])
                self.assertNotEqual(run.returncode, 0)
                self.assertIn(f"{name} 7 is not supported: ", run.stderr)


if __name__ == "__main__":
    main()
