"""Turns sent back in each client's words cost no more than is new; bench/echoed_turns.py makes a table of the same."""

import os
import sys

from support import COUNT_SHIM, ServerCase, main, serve_command

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))

import echoed_turns  # noqa: E402

FLAGS = ("--no-kv-disk", "--restore", "always", "-c", 8192)


class EchoedTurns(ServerCase):
    def conversations(self, *flags, **keywords):
        command = [str(word) for word in serve_command(*FLAGS, *flags)]
        return list(echoed_turns.measure(command, COUNT_SHIM, **keywords))

    def test_a_turn_costs_only_its_new_tokens(self):
        for template, thinks, dialect, client, turns in self.conversations():
            with self.subTest(template=template, dialect=dialect, client=client.__name__):
                self.assertEqual(len(turns), 3 * echoed_turns.ROUNDS - 1)
                self.assertLessEqual(max(beyond for _, beyond, _ in turns), echoed_turns.LIMIT, turns)
                if not thinks:
                    self.assertEqual(sum(ahead for *_, ahead in turns), 0, "and nothing was done for it while idle")

    def test_thoughts_are_given_back_however_many_questions_were_asked(self):
        [row] = self.conversations(models=[one for one in echoed_turns.MODELS if one[0] == "qwen3.jinja"], rounds=9,
                                   clients=[echoed_turns.thinking_dropped], dialects=[echoed_turns.Chat])
        calls = [beyond for kind, beyond, _ in row[-1] if kind.endswith("call")]
        self.assertLessEqual(max(calls), echoed_turns.LIMIT, row)

    def test_without_replay_each_call_is_computed_again(self):
        rows = self.conversations("--replay", "canonical", "--no-prefill-ahead", models=echoed_turns.MODELS[:1],
                                  clients=[echoed_turns.parsed])
        calls = [beyond for kind, beyond, _ in rows[0][-1] if kind == "call"]
        self.assertGreater(min(calls), echoed_turns.LIMIT, rows)


if __name__ == "__main__":
    main()
