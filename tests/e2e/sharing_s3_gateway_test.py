"""Servers share state through a real S3 service, Ceph's gateway, which checks every signature: what the S3 double of the other
tests says of itself is not asked here.

    KVKEEP_S3_GATEWAY=FOLDER sharing_s3_gateway_test.py      FOLDER: made by scripts/setup-s3-gateway
"""

import os
import time

import own_mounts
import share_command_test
from exactness_case import ExactnessCase
from radosgw_process import ACCESS_KEY, SECRET_KEY, RadosgwProcess
from sharing_test import BATCH, FLAGS, metric, settled
from support import assistant, main, model, reply_text, system, timings, user, words

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
TRIES = 8  # on a busy machine a look-up may be late, which is a miss


class GatewayCase(ExactnessCase):
    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *BATCH, model_path=cls.model_path)

    def setUp(self):
        super().setUp()
        self.gateway = self.enterContext(RadosgwProcess(os.environ["KVKEEP_S3_GATEWAY"]))

    def sharing(self, *flags, **keys):
        return self.server("--share", self.gateway.url, *FLAGS, *flags, model_path=self.model_path,
                           environment={**KEYS, **keys})

    def ask(self, server, messages):
        return self.same_chat(server, messages, max_tokens=8)


class EveryClass(GatewayCase):
    """Run for each class below."""
    lost = 0  # as in sharing_test.py

    def test_another_server_goes_on_where_the_first_one_was(self):
        first, second = self.sharing(), self.sharing()
        for number in range(TRIES):
            messages = [system(words(500, 2 * number)), user(words(100, 2 * number + 1))]
            said = self.ask(first, messages)
            settled(first)
            known = len(second.prompt_ids(messages))
            messages += [assistant(reply_text(said)), user("And then?")]
            shared = timings(self.ask(second, messages))["cache_tokens"]["shared"]
            if shared >= known - self.lost:
                break
            time.sleep(2)  # the gateway is asked again when a probe was answered
        self.assertGreaterEqual(shared, known - self.lost)
        self.assertGreater(metric(second, "kvkeep_share_loaded_bytes_total"), 0)
        self.assertEqual(metric(second, "kvkeep_share_damaged_total"), 0)


class Sliceable(EveryClass):
    def test_a_wrong_secret_shares_nothing_and_fails_nothing(self):
        stranger = self.sharing("--share-mode", "both", AWS_SECRET_ACCESS_KEY="wrong")
        messages = [user(words(500, 50))]
        self.ask(stranger, messages)
        time.sleep(2)
        self.assertEqual(metric(stranger, "kvkeep_share_published_total"), 0)
        self.assertIn("shared tier: s3", stranger.log())
        self.assertIn("403", stranger.log())

    def test_the_gateway_is_killed_and_comes_back(self):
        first, second = self.sharing(), self.sharing()
        self.gateway.kill()
        self.ask(first, [user(words(500, 60))])
        self.gateway.start()
        for number in range(TRIES):
            time.sleep(3)
            messages = [user(words(500, 61 + number))]
            self.ask(first, messages)
            time.sleep(1)
            if timings(self.ask(second, messages))["cache_tokens"]["shared"] > 480:
                return
        self.fail("the servers do not share again")


class Hybrid(EveryClass):
    model_flags = ("--arch", "qwen35")
    lost = 16


class Command(share_command_test.FilledCase):
    lost = 0

    def test_a_fleet_is_warmed_through_the_gateway(self):
        with RadosgwProcess(os.environ["KVKEEP_S3_GATEWAY"]) as gateway:
            self.check_pull(gateway.url, self.fill(gateway.url))


del ExactnessCase, GatewayCase, EveryClass  # only the classes of models are tests

if __name__ == "__main__":
    own_mounts.enter()
    main()
