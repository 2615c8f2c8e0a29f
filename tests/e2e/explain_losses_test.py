"""State that was computed once and cannot be used: why, made on purpose through each dialect and named right.
explain_test.py and explain_news_test.py make the other kinds."""

import os
import time

from explain_case import ALL, EXPLAIN, ExplainCase, Talk, says
from flag_case import PARAM_SHIM
from gguf_writer import LAYERS, WIDTH, make_lora
from support import fresh_directory, fresh_path, main, segments, wait_until, words

HOUR_S = 3600


class ExplainLosses(ExplainCase):
    def talks(self):
        """A prompt for each dialect."""
        return {dialect: Talk(words(200, self.seed()), turns=[says("hello")]) for dialect in ALL}

    def ask_all(self, server, talks):
        for dialect, talk in talks.items():
            self.ask(server, dialect, talk)

    def assert_all(self, server, talks, kind, cause=None):
        """Each prompt is told this kind, and this cause of a loss."""
        for dialect, talk in talks.items():
            with self.subTest(dialect=dialect):
                found = self.break_of(server, dialect, talk)
                self.assertIsNotNone(found, "all of it was reused")
                self.assertEqual((found["kind"], found.get("lost", {}).get("cause")), (kind, cause), found)
                self.assertGreater(found["lost_tokens"], 100)
                self.assertTrue(found["advice"])
                if cause:
                    self.assertLess(abs(found["lost"]["t"] - time.time()), HOUR_S)

    def test_a_model_whose_state_cannot_be_kept(self):
        server = self.server(count_shim=PARAM_SHIM, environment={"KVKEEP_FORGETFUL_CLONE": "1"})
        talks = self.talks()
        self.ask_all(server, talks)
        self.assert_all(server, talks, "not-cacheable")

    def test_a_disk_that_does_not_read(self):
        directory, failing = fresh_directory(), fresh_path("failing")
        server = self.server("--kv-disk-dir", directory, "--cache-ram", 0, count_shim=PARAM_SHIM,
                             environment={"KVKEEP_FAIL_READS_WHILE": failing})
        talks = self.talks()
        self.ask_all(server, talks)
        server.stop()
        server.start()
        with open(failing, "w"):
            self.assert_all(server, talks, "load-failed")

    def test_state_that_the_model_refuses(self):
        refusing = fresh_path("refusing")
        server = self.server("--kv-disk-dir", fresh_directory(), count_shim=PARAM_SHIM,
                             environment={"KVKEEP_REFUSE_STATE_WHILE": refusing})
        talks = self.talks()
        self.ask_all(server, talks)
        server.stop()
        server.start()
        with open(refusing, "w"):
            self.assert_all(server, talks, "damaged", "refused")
        advice = server.get(f"{EXPLAIN}?last=1")["requests"][0]["cache_break"]["advice"]
        self.assertIn("no disk is at fault", advice)

    def test_other_adapters_of_the_same_session(self):
        server = self.server("--lora", make_lora(fresh_path("lora.gguf"), WIDTH, LAYERS, 1))
        for dialect, talk in self.talks().items():
            session = {"X-Session-Id": f"s-{dialect}"}
            with self.subTest(dialect=dialect):
                self.ask(server, dialect, talk, headers=session, lora=[{"id": 0, "scale": 1}])
                found = self.break_of(server, dialect, talk, headers=session, lora=[{"id": 0, "scale": 0.5}])
                self.assertEqual(found["kind"], "other-settings", found)
                self.assertGreater(found["lost_tokens"], 100)
                self.assertTrue(found["advice"])
                other = self.break_of(server, dialect, talk, headers={"X-Session-Id": "another"},
                                      lora=[{"id": 0, "scale": 0.25}])
                self.assertEqual(other["kind"], "nothing-known", "another session must not learn of it")

    def test_state_at_the_end_of_its_time(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory, "--kv-cache-ttl-hours", 1)
        talks = self.talks()
        self.ask_all(server, talks)
        server.stop()
        for path in segments(directory):  # when they were used
            os.utime(path, (time.time() - 2 * HOUR_S,) * 2)
        server.start()
        wait_until(lambda: not segments(directory), "nothing is left on disk")
        self.assert_all(server, talks, "evicted", "expired")

    def test_state_that_left_a_full_disk(self):
        directory = fresh_directory()
        flags = ["--kv-disk-dir", directory, "--cache-ram", 0, "-c", 512, "-np", 1]
        server = self.server(*flags)
        talks = self.talks()
        self.ask_all(server, talks)
        server.stop()
        server = self.server(*flags, "--kv-disk-space-mb", 1)
        for number in range(24):
            self.ask(server, "chat", Talk(words(200, self.seed() + number), turns=[says("hello")]))
        self.assert_all(server, talks, "evicted", "disk-budget")

    def test_state_that_another_server_removed(self):
        directory = fresh_directory()
        keeper = self.server("--kv-disk-dir", directory)
        talks = self.talks()
        self.ask_all(keeper, talks)
        wait_until(lambda: len(segments(directory)) >= len(ALL), "a segment of each prompt")
        member = self.server("--kv-disk-dir", directory)
        wait_until(lambda: member.get("/cache")["segments"] >= len(ALL), "the other server knows them")
        keeper.post("/cache/clear", {"all": True})
        wait_until(lambda: member.get("/cache")["segments"] == 0, "the other server looks again")
        self.assert_all(member, talks, "evicted", "removed-elsewhere")


if __name__ == "__main__":
    main()
