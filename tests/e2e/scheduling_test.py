"""Requests next to each other: which comes first, how long slices of prefill are, and that no text depends on it."""

import contextlib
import json
import re
import signal
import threading
import time

from flag_case import COMPLETION, FlagCase, covers
from monitoring_test import metrics
from support import HttpError, main, run_program, serve_command, timings, wait_until, words

CONTEXT = 8192


class Scheduling(FlagCase):
    def endless(self, server):
        """A reply that is being written; it ends when the caller closes it."""
        stream = server.stream(COMPLETION, {"prompt": words(20, 1), "max_tokens": CONTEXT, "ignore_eos": True, "stream": True})
        next(stream)
        return stream

    def slices(self, server, count, seed):
        """How many slices a prompt of `count` words was prefilled in, by its progress."""
        body = {"prompt": words(count, seed), "n_predict": 1, "stream": True, "return_progress": True}
        events = [event for _, event in server.stream("/completion", body)]
        return sum(1 for event in events if event != "[DONE]" and "prompt_progress" in event) - 1

    @covers("--prefill-slice-ms")
    def test_slices_are_short_while_others_decode(self):
        for flags, least, most in ((["--prefill-slice-ms", "0.01"], 10, 20), (["--prefill-slice-ms", "0"], 1, 2)):
            with self.subTest(flags=flags):
                server = self.server("-c", 2 * CONTEXT, "-np", 2, "-b", 2048, *flags)
                stream = self.endless(server)
                self.assertIn(self.slices(server, 700, 2), range(least, most + 1))
                stream.close()

    @covers("--decode-with-prefill")
    def test_replies_share_calls_with_slices_as_the_flag_says(self):
        for flags, shared in (("together", True), ("apart", False)):
            with self.subTest(flags=flags):
                server = self.server("-c", 2 * CONTEXT, "-np", 2, "--prefill-slice-ms", "0.01", "--metrics",
                                     "--decode-with-prefill", flags)
                stream = self.endless(server)
                slices = self.slices(server, 700, 2)
                stream.close()
                joint = metrics(server)[0]["kvkeep_joint_calls_total"]
                self.assertEqual(joint >= slices - 1, shared)
                self.assertEqual(joint > 0, shared)

    def test_the_faster_way_is_measured(self):
        server = self.server("-c", 2 * CONTEXT, "-np", 2, "--prefill-slice-ms", "0.01", "--metrics", "-lv", 4)
        stream = self.endless(server)
        self.slices(server, 4000, 2)
        stream.close()
        self.assertRegex(server.log(), r"slices of prefill (do not )?share a call of the model with 1 running replies")
        self.assertGreater(metrics(server)[0]["kvkeep_joint_calls_total"], 0)

    def test_a_short_prompt_passes_a_long_one_which_loses_nothing(self):
        server = self.server("-c", 2 * CONTEXT, "-np", 2, "--prefill-slice-ms", 1, "--metrics")
        replies = {}

        def ask(name, count):
            replies[name] = server.post("/completion", {"prompt": words(count, count), "n_predict": 4, "temperature": 0})
            ended.append(name)

        ended = []
        giant = threading.Thread(target=ask, args=("giant", 3000))
        giant.start()
        wait_until(lambda: server.get("/slots")[0]["is_processing"], "the giant runs")
        ask("small", 40)
        giant.join()
        self.assertEqual(ended, ["small", "giant"])
        self.assertEqual(timings(replies["giant"])["prompt_n"], replies["giant"]["tokens_evaluated"])
        alone = self.server("-c", 2 * CONTEXT, "-np", 2)
        for name, count in (("giant", 3000), ("small", 40)):
            expected = alone.post("/completion", {"prompt": words(count, count), "n_predict": 4, "temperature": 0})
            self.assertEqual(replies[name]["content"], expected["content"], name)

    def test_the_lowest_priority_starts_first(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--metrics")
        stream = self.endless(server)
        ended = []

        def ask(priority):
            server.post("/completion", {"prompt": words(30, priority + 50), "n_predict": 2, "priority": priority})
            ended.append(priority)

        threads = []
        for count, priority in enumerate((5, 0, -5), start=1):
            threads.append(threading.Thread(target=ask, args=(priority,)))
            threads[-1].start()
            wait_until(lambda count=count: metrics(server)[0]["llamacpp:requests_deferred"] == count, "it waits")
        stream.close()
        for thread in threads:
            thread.join()
        self.assertEqual(ended, [-5, 0, 5])
        self.assert_refused(400, server.post, "/completion", {"prompt": "x", "priority": "high"}, contains="priority")

    @covers("--queue-limit")
    def test_a_reply_that_finds_the_queue_full_is_refused_in_its_dialect(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--queue-limit", 1, "--metrics")
        stream = self.endless(server)
        body = {"prompt": words(30, 1), "max_tokens": 2}
        waits = threading.Thread(target=server.post, args=(COMPLETION, body))
        waits.start()
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_deferred"] == 1, "it waits")
        self.assert_refused(503, server.post, COMPLETION, body, contains="too many requests")
        message = {"model": "any", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}
        with self.assertRaises(HttpError) as caught:
            server.post("/v1/messages", message)
        self.assertEqual(caught.exception.status, 529)
        self.assertEqual(caught.exception.body["error"]["type"], "overloaded_error")
        time.sleep(1.1)  # none of the two that are open was served for so long
        with contextlib.closing(server.connection()) as refused:
            refused.request("POST", COMPLETION, json.dumps(body))
            self.assertIn(int(refused.getresponse().headers["Retry-After"]), range(2, 61))
        self.assert_refused(400, server.post, COMPLETION, {**body, "n": 3}, contains="--queue-limit")
        stream.close()
        waits.join()
        self.assertEqual(server.post(COMPLETION, body)["usage"]["completion_tokens"], 2)


    @covers("--queue-tokens")
    def test_prompts_that_are_too_long_together_are_refused(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--queue-tokens", 100, "--metrics")
        stream = self.endless(server)
        long = {"prompt": list(range(300, 420)), "max_tokens": 2}
        short = {"prompt": list(range(300, 320)), "max_tokens": 2}
        waits = threading.Thread(target=server.post, args=(COMPLETION, long))
        waits.start()  # is taken, since none waits
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_deferred"] == 1, "it waits")
        self.assertGreater(metrics(server)[0]["kvkeep_open_prompt_tokens"], 120)
        self.assert_refused(503, server.post, COMPLETION, short, contains="tokens")
        stream.close()
        waits.join()
        self.assertEqual(server.post(COMPLETION, short)["usage"]["completion_tokens"], 2)
        wait_until(lambda: metrics(server)[0]["kvkeep_open_prompt_tokens"] == 0, "all prompts are gone")


class Deadlines(FlagCase):
    def test_a_request_that_waits_too_long_is_refused(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--metrics")
        stream = self.endless(server)
        body = {"prompt": words(30, 1), "max_tokens": 4, "t_max_total_ms": 300}
        self.assert_refused(503, server.post, COMPLETION, body, contains="t_max_total_ms")
        message = {"model": "any", "max_tokens": 2, "t_max_total_ms": 300, "messages": [{"role": "user", "content": "Hello"}]}
        with self.assertRaises(HttpError) as caught:
            server.post("/v1/messages", message)
        self.assertEqual(caught.exception.status, 529)
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_deferred"] == 0, "nobody waits")
        next(stream)  # the other one was not disturbed
        stream.close()
        self.assertEqual(server.post(COMPLETION, {**body, "t_max_total_ms": 60_000})["usage"]["completion_tokens"], 4)

    def test_a_reply_ends_with_what_it_has(self):
        server = self.server("-c", 2 * CONTEXT, "-np", 1)
        reply = server.post("/completion", {"prompt": words(30, 1), "n_predict": 2 * CONTEXT - 100, "ignore_eos": True,
                                            "t_max_total_ms": 500})
        self.assertEqual(reply["stop_type"], "limit")
        self.assertIn(reply["tokens_predicted"], range(1, 2 * CONTEXT - 100))

    endless = Scheduling.endless


class Keys(FlagCase):
    @covers("--key-limit")
    def test_a_key_has_a_limit_of_its_own(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--api-key", "first,second", "--key-limit", 2, "--metrics")
        body = json.dumps({"prompt": words(30, 1), "max_tokens": 2})

        def ask(key):
            connection = self.enterContext(contextlib.closing(server.connection()))
            connection.request("POST", COMPLETION, body, {"Authorization": f"Bearer {key}"})
            return connection

        endless = json.dumps({"prompt": words(20, 2), "max_tokens": CONTEXT // 2, "ignore_eos": True, "stream": True})
        runs = self.enterContext(contextlib.closing(server.connection()))
        runs.request("POST", COMPLETION, endless, {"Authorization": "Bearer first"})
        runs.getresponse().readline()
        waits = ask("first")
        deferred = lambda: self.metrics_of(server, "second")["llamacpp:requests_deferred"]  # noqa: E731
        wait_until(lambda: deferred() == 1, "it waits")
        refused = ask("first").getresponse()
        self.assertEqual(refused.status, 503)
        self.assertIn(int(refused.headers["Retry-After"]), range(1, 61))
        self.assertIn("API key", refused.read().decode())
        other = ask("second")
        wait_until(lambda: deferred() == 2, "the other key's request waits")
        runs.close()
        for connection in (waits, other):
            self.assertEqual(connection.getresponse().status, 200)

    def test_a_limit_of_keys_needs_keys(self):
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "--key-limit", "2")[1:])
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("--key-limit needs keys", run.stderr)

    @staticmethod
    def metrics_of(server, key):
        text = server.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})
        return {name: float(value) for name, value in re.findall(r"^([a-z_:]+) (\S+)$", text, re.MULTILINE)}


class Waits(FlagCase):
    def test_the_time_that_a_request_waits_is_counted_by_cause(self):
        server = self.server("-c", 2 * CONTEXT, "-np", 2, "--metrics", "--prefill-slice-ms", 1)
        giant = {"prompt": words(4000, 1), "n_predict": 1}
        shares = {"prompt": words(3900, 1) + " and more", "n_predict": 1}
        threads = [threading.Thread(target=server.post, args=("/completion", giant))]
        threads[0].start()
        wait_until(lambda: server.get("/slots")[0]["is_processing"], "the giant runs")
        threads.append(threading.Thread(target=server.post, args=("/completion", shares)))
        threads[1].start()
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_deferred"] == 1, "one waits for its prefix")
        threads.append(threading.Thread(target=server.post, args=("/completion", {"prompt": words(600, 2), "n_predict": 1})))
        threads[2].start()
        seen = {}
        wait_until(lambda: seen.update({slot.get("state"): slot for slot in server.get("/slots")}) or "prefilling" in seen,
                   "a prefill is seen")
        for thread in threads:
            thread.join()
        self.assertEqual(set(seen["prefilling"]["waited_ms"]), {"place", "prefix", "cells", "disk", "turn", "encoder"})
        wait_until(lambda: metrics(server)[0]["llamacpp:requests_processing"] == 0, "all have ended")
        values, _ = metrics(server)
        waited = {cause: values[f'kvkeep_wait_seconds_total{{cause="{cause}"}}'] for cause in seen["prefilling"]["waited_ms"]}
        self.assertGreater(waited["prefix"], 0)
        self.assertGreater(waited["turn"], 0)
        self.assertEqual(waited["disk"], 0)
        self.assertGreater(values["kvkeep_cells_used"], 4000)
        self.assertEqual(values["kvkeep_cells"], 2 * CONTEXT)
        wait_until(lambda: metrics(server)[0]["kvkeep_cells_shared"] > 3000, "both prompts stay in the model's memory")
        self.assertRegex(server.log(), r"waited=\((place [0-9.]+s, )?prefix [0-9.]+s")


class Shutdown(FlagCase):
    BODY = {"prompt": words(30, 1), "n_predict": 200, "ignore_eos": True, "stream": True}

    @covers("--shutdown-timeout")
    def test_replies_may_end_and_new_requests_are_refused(self):
        server = self.server("-c", CONTEXT, "-np", 1, "--shutdown-timeout", 30)
        stream = server.stream("/completion", self.BODY)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "may go on for 30 s" in server.log(), "it shuts down")
        self.assert_refused(503, server.post, "/completion", {"prompt": "x", "n_predict": 1}, contains="shutting down")
        for path in ("/health", "/v1/health"):  # balancers send requests elsewhere
            error = self.assert_refused(503, server.get, path, contains="shutting down")
            self.assertEqual(error["type"], "unavailable_error")
        events = [event for _, event in stream if event != "[DONE]"]
        self.assertEqual(events[-1]["tokens_predicted"], 200)
        self.assertEqual(server.process.wait(20), 0)

    def test_one_that_goes_on_too_long_is_ended(self):
        server = self.server("-c", 2 * CONTEXT, "-np", 1, "--shutdown-timeout", 0.3)
        stream = server.stream("/completion", {**self.BODY, "n_predict": 2 * CONTEXT})
        next(stream)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(20), 0)
        self.assertGreater(time.monotonic() - began, 0.3)
        stream.close()


if __name__ == "__main__":
    main()
