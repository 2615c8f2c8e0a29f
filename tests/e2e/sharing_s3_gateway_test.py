"""Servers without a common disk share state through an S3 service that is not of our making, OpenStack Swift with its S3
interface: it checks signatures by rules that its authors read from Amazon's pages, as those of the S3 double were by us.

    KVKEEP_SWIFT_PYTHON=/usr/bin/python3 sharing_s3_gateway_test.py      after scripts/setup-s3-gateway
"""

import time

import share_command_test
from exactness_case import ExactnessCase
from s3_process import AWS
from sharing_test import BATCH, FLAGS, metric, settled
from support import assistant, fresh_directory, main, model, reply_text, system, timings, user, wait_until, words
from swift_process import BUCKET, SwiftProcess

TRIES = 5  # a look-up that a busy machine answers late is a miss


class GatewayCase(ExactnessCase):
    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)

    def setUp(self):
        super().setUp()
        self.gateway = self.enterContext(SwiftProcess(fresh_directory("swift")))

    def sharing(self, *flags, **keys):
        return self.server("--share", self.gateway.url, *FLAGS, *flags, model_path=self.model_path,
                           environment={**AWS, **keys})

    def ask(self, server, messages):
        return self.same_chat(server, messages, max_tokens=8)

    def goes_on(self, first, second, seed):
        """One turn at the first server, the next one at the second, which begins with it: later on it knows that this small
        model prefills faster than S3 answers. Returns true if it prefilled new tokens only."""
        messages = [system(words(500, seed)), user(words(100, seed + 1))]
        said = self.ask(first, messages)
        computed = said["usage"]["prompt_tokens"] + said["usage"]["completion_tokens"] - 1  # the last one was no input
        settled(first)
        before = second.decoded_ids()
        reply = self.ask(second, [*messages, assistant(reply_text(said)), user("And then?")])
        fresh = reply["usage"]["prompt_tokens"] - computed
        self.assertGreater(fresh, 0)
        if timings(reply)["prompt_n"] > fresh + self.lost:
            return False
        self.assertLessEqual(second.decoded_ids() - before, fresh + self.lost + reply["usage"]["completion_tokens"])
        self.assertGreater(metric(second, "kvkeep_share_loaded_bytes_total"), 0)
        self.assertEqual(metric(second, "kvkeep_share_damaged_total"), 0)
        return True

    def assert_another_server_goes_on(self, first, seed):
        for number in range(TRIES):
            if self.goes_on(first, self.sharing(), seed + 2 * number):
                return
        self.fail(f"servers prefilled known tokens {TRIES} times")


class EveryClass(GatewayCase):
    """Run for each class below."""
    lost = 0  # as in sharing_test.py

    def test_another_server_goes_on_where_the_first_one_was(self):
        self.assert_another_server_goes_on(self.sharing(), 1)


class Sliceable(EveryClass):
    def test_the_gateway_checks_signatures(self):
        for secret, status in (("another", 403), (AWS["AWS_SECRET_ACCESS_KEY"], 200)):
            self.assertEqual(self.gateway.ask("GET", f"/{BUCKET}", secret)[0], status, secret)

    def test_a_wrong_secret_shares_nothing_and_fails_nothing(self):
        stranger = self.sharing(AWS_SECRET_ACCESS_KEY="another")
        self.ask(stranger, [user(words(500, 50))])
        wait_until(lambda: "HTTP status 403" in stranger.log(), "the log tells of the refusal")
        self.assertEqual(metric(stranger, "kvkeep_share_published_total"), 0)
        self.assertNotIn(b"<Key>", self.gateway.ask("GET", f"/{BUCKET}", AWS["AWS_SECRET_ACCESS_KEY"])[1])

    def test_no_request_fails_while_the_gateway_is_dead_and_servers_share_again_after_that(self):
        first, second = self.sharing(), self.sharing()
        self.gateway.kill()
        for number in range(3):
            for server in (first, second):
                self.ask(server, [user(words(500, 80 + number))])
        servers = (first, second)
        wait_until(lambda: all("it is not asked for some time" in server.log() for server in servers), "its death is noticed")
        self.gateway.start()
        wait_until(lambda: all("is asked again" in server.log() for server in servers), "its return is noticed", limit_s=60)
        self.assert_another_server_goes_on(first, 90)


class Hybrid(EveryClass):
    model_flags = ("--arch", "qwen35")
    lost = 16


class Command(share_command_test.FilledCase):
    """`kvkeep share` with the same gateway."""
    lost = 0

    def test_a_fleet_is_warmed_through_the_gateway(self):
        with SwiftProcess(fresh_directory("swift")) as gateway:
            self.check_pull(gateway.url, self.fill(gateway.url))


del ExactnessCase, GatewayCase, EveryClass  # only the classes of models are tests

if __name__ == "__main__":
    main()
