"""Requests next to each other: which comes first, how long slices of prefill are, and that no text depends on it."""

import signal
import threading
import time

from flag_case import COMPLETION, FlagCase, covers
from monitoring_test import metrics
from support import HttpError, main, timings, wait_until, words

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
        self.assert_refused(400, server.post, COMPLETION, {**body, "n": 3}, contains="--queue-limit")
        stream.close()
        waits.join()
        self.assertEqual(server.post(COMPLETION, body)["usage"]["completion_tokens"], 2)


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
