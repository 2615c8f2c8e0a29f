"""256 streaming clients for two minutes, 1,000 that are held, and 1,000 where 256 may wait, with the small model and one
thread; MANY_CLIENTS_S shortens the two minutes."""

import os
import statistics

from many_clients_case import ManyClientsCase
from support import main, model

SECONDS = float(os.environ.get("MANY_CLIENTS_S", 120))
PLACES = 16


def served(answers):
    return [answer for answer in answers if answer.status == 200]


def median_ttft_s(answers):
    return statistics.median(answer.ttft_s() for answer in served(answers))


class ManyClients(ManyClientsCase):
    model_flags = ("--size", "small")
    # Without a cache, this model's logits differ by up to 1.2 between a call of one token and a call of 16 (f16 keys and
    # values, as by default). The first token of another prompt's reply is 8 less likely than the best, in the median of 40,
    # and one of them was less than 2.
    noise = 2.0
    REPLY = 16

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, model_path=cls.model_path)

    def serve(self, *flags):
        """Default flags but for the number of places; one thread, because other programs may run next to the test."""
        return self.server("-np", PLACES, *flags, base=False, model_path=self.model_path)

    def share_without_cache(self):
        """Returns the share of replies whose text differs under the same load without a cache."""
        server = self.serve("--cache-ram", 0)
        answers = self.loop_for(server, 256, SECONDS / 4)
        differing = self.assert_own_texts(answers) / len(answers)
        server.stop()
        return differing

    def test_256_clients_for_two_minutes(self):
        server = self.serve()
        answers = self.loop_for(server, 256, SECONDS)
        self.assert_all_served(answers)
        differing = self.assert_own_texts(answers) / len(answers)
        server.stop()
        by_noise = self.share_without_cache()
        counts = [sum(1 for answer in answers if answer.number == number) for number in range(256)]
        print(f"{len(answers)} replies, {min(counts)} to {max(counts)} of a client, TTFT {median_ttft_s(answers):.2f} s; "
              f"other texts, all within the noise: {differing:.1%}; without a cache: {by_noise:.1%}")
        self.assertLess(differing, 1.2 * by_noise + 0.02)
        self.assertGreaterEqual(min(counts) * 2, statistics.median(counts), "some are served less often than others")

    def test_a_thousand_are_held(self):
        server = self.serve()
        self.loop_for(server, PLACES, 0)
        before = self.memory_of(server)
        answers = self.ask_in_order(server, 1000)
        self.assert_all_served(answers)
        grown = self.memory_of(server) - before
        order = [answer.number for answer in sorted(answers, key=lambda answer: answer.first_s)]
        out_of_turn = max(abs(place - number) for place, number in enumerate(order))
        print(f"{grown / 2**20:.0f} MiB more after 1,000 clients; the one most out of turn by {out_of_turn} places")
        self.assertLess(out_of_turn, 8 * PLACES)
        # The RAM tier keeps their prompts; what is held for a client that waits is small.
        self.assertLess(grown, 256 << 20)

    def test_a_full_queue_serves_the_others_no_slower(self):
        ttft = {}
        for clients in (256, 1000):
            server = self.serve("--queue-limit", 256)
            answers = self.loop_for(server, clients, SECONDS / 2)
            refused = [answer for answer in answers if answer.status != 200]
            self.assertLessEqual({answer.status for answer in refused}, {503})
            self.assertTrue(all(int(answer.headers["retry-after"]) >= 1 for answer in refused))
            self.assertEqual(bool(refused), clients > 256 + PLACES)
            self.assertEqual([answer for answer in served(answers) if not answer.is_whole], [])
            ttft[clients] = median_ttft_s(answers)
            print(f"{clients} clients: {len(served(answers))} served, {len(refused)} refused, TTFT {ttft[clients]:.2f} s")
            server.stop()
        # 272 are open instead of 256, and refusing has a cost.
        self.assertLess(ttft[1000], 1.25 * ttft[256])


if __name__ == "__main__":
    main()
