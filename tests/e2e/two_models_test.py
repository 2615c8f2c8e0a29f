"""Two models take turns on one cache directory that is too small for both: what the one loses to the other leaves from
the ends of its oldest conversations, so that what is left of it can be restored."""

import json

from support import ServerCase, fresh_directory, main, model, run_program, segments, timings, words

COMPLETION = "/v1/completions"
FLAGS = ["--restore", "always", "--replay", "canonical", "--no-prefill-ahead", "--kv-disk-space-mb", "2"]


def prompt_of(number):
    """Conversations part after so many words of the same, which is in the middle of what was stored of others."""
    return words(150 + 7 * (number % 5)) + " " + words(200, number + 1)


class TwoModels(ServerCase):
    def ask(self, server, prompt):
        return timings(server.post(COMPLETION, {"prompt": prompt, "max_tokens": 1, "temperature": 0}))

    def part_of(self, directory, fingerprint):
        run = run_program("cache", "stat", "--kv-disk-dir", directory, "--json")
        self.assertEqual(run.returncode, 0, run.stderr)
        [part] = [part for part in json.loads(run.stdout)["models"] if part["fingerprint"] == fingerprint]
        return part

    def test_the_remaining_state_can_be_restored(self):
        directory = fresh_directory()
        first = self.server(*FLAGS, "--kv-disk-dir", directory)
        count = 12
        for number in range(count):
            self.ask(first, prompt_of(number))
        first.stop()
        [fingerprint] = {path.split("/")[-2] for path in segments(directory)}
        files = len(segments(directory))
        second = self.server(*FLAGS, "--kv-disk-dir", directory, model_path=model("--seed", "9"))
        partly = 0
        for number in range(30):
            self.ask(second, words(200, 100 + number))
            part = self.part_of(directory, fingerprint)
            self.assertEqual(part["orphans"], 0, f"after {number + 1} prompts of the other model")
            partly += 0 < part["rows"]["files"] < files
        second.stop()
        self.assertIn("of other models or settings", second.log())
        self.assertGreater(partly, 10, "a part was left, of which each time all hung together")
        first.start()
        self.assertGreater(self.ask(first, prompt_of(count - 1))["cache_n"], 300, "the newest is there")


if __name__ == "__main__":
    main()
