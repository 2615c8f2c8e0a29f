"""Many clients at once, in short; many_clients_slow_test.py has the long version: none is refused, broken off or mixed up
with another; those that find the queue full are told when to come again; the order is fair."""

import statistics

from many_clients_case import ManyClientsCase, fates
from support import main

PLACES = 16


class ManyClients(ManyClientsCase):
    def test_streams_in_a_loop(self):
        answers = self.loop_for(self.cached, 48, 3)
        self.assert_all_served(answers)
        self.assert_own_texts(answers)
        counts = [sum(1 for answer in answers if answer.number == number) for number in range(48)]
        self.assertGreaterEqual(min(counts) * 2, statistics.median(counts), "some are served less often than others")

    def test_a_thousand_wait_for_their_turn(self):
        self.loop_for(self.cached, PLACES, 0)  # memory that the first requests of a process take
        before = self.memory_of(self.cached)
        answers = self.ask_in_order(self.cached, 1000)
        self.assert_all_served(answers)
        self.assertLess(self.memory_of(self.cached) - before, 64 << 20)
        served = [answer.number for answer in sorted(answers, key=lambda answer: answer.first_s)]
        # Several threads read requests, so that neighbours may change places; so may those that run together.
        out_of_turn = max(abs(place - number) for place, number in enumerate(served))
        self.assertLess(out_of_turn, 8 * PLACES)

    def test_those_that_find_the_queue_full_are_told_to_come_again(self):
        server = self.server("-np", PLACES, "--queue-limit", 16, "--metrics", model_path=self.model_path)
        answers = self.loop_for(server, 100, 2)
        self.assert_told_to_come_again(answers)
        self.assertGreater(fates(answers)["refused"], 0)
        served = [answer for answer in answers if answer.fate() == "served"]
        self.assertGreater(len(served), 2 * PLACES)
        self.assert_own_texts(served)


if __name__ == "__main__":
    main()
