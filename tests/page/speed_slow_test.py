"""How fast the page is there, and what it costs the server while it is open. Nothing else should run next to it."""

import statistics
import unittest

from page_case import Browser, PageCase, support

LOADS = 20
FIRST_PAINT_MS = 100
PAIRS = 12
TOKENS = 500
MOST_SLOWER = 1.05

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


class FirstPaint(PageCase):
    def test_it_takes_at_most_a_tenth_of_a_second(self):
        tab = self.open(self.server())
        times = []
        for _ in range(LOADS):
            tab.load_anew()
            times.append(tab.wait(PAINTED))
        print(f"first paint after {statistics.median(times):.0f} ms, {min(times):.0f} to {max(times):.0f}")
        self.assertLessEqual(statistics.median(times), FIRST_PAINT_MS)


class Cost(PageCase):
    @classmethod
    def start_class_servers(cls):
        # A browser is on another machine, or at least on another processor: what counts is what it asks the server for.
        cls.browser = cls._class_stack.enter_context(Browser(niceness=19))

    def reply_cost(self, server):
        """Time per token of a reply by the clock, and processor time of the server for all of it."""
        before = server.cpu_seconds()
        reply = server.post("/v1/completions", {"prompt": support.words(100, 7), "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0})
        times = support.timings(reply)
        self.assertEqual(times["predicted_n"], TOKENS)
        return times["predicted_ms"] / TOKENS, server.cpu_seconds() - before

    def test_serving_is_not_slower_while_the_page_is_open(self):
        server = self.server("-t", 1)
        self.reply_cost(server)  # warms up
        ratios = []
        for pair in range(PAIRS):
            taken = {}
            for is_open in ((False, True) if pair % 2 == 0 else (True, False)):
                tab = self.open(server) if is_open else None
                taken[is_open] = self.reply_cost(server)
                if tab:
                    self.assertGreater(len(tab.asked("/cache")), 0, "the page looks")
                    tab.close()
            ratios.append([with_page / without for with_page, without in zip(taken[True], taken[False])])
        for what, of_pairs in zip(("time per token", "processor time"), zip(*ratios)):
            with self.subTest(what):
                print(f"{what} with the page open / without: {statistics.median(of_pairs):.3f}, {min(of_pairs):.3f} to {max(of_pairs):.3f}")
                self.assertLessEqual(statistics.median(of_pairs), MOST_SLOWER)


if __name__ == "__main__":
    unittest.main()
