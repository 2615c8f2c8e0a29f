"""Each miss of a recording has the right kind, from `kvkeep doctor` and from a server that the recording was played on.

The recordings are made up, in the shape of those of clients (synthetic_sessions.py, client_shapes.py).

Environment: KVKEEP_PROGRAM, the program under test.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import client_shapes
import synthetic_sessions

PROGRAM = os.environ["KVKEEP_PROGRAM"]
LIMIT_S = 250

# (session, request): (kind, what), of the requests that missed more than 100 tokens. All others only go on from what is
# known: "new-content" that was never computed before.
CLAUDE = {
    ("fresh", "main turn 1"): ("nothing-known", ""),
    ("after a commit", "main turn 1"): ("volatile-text", "git-status"),
    ("after /compact", "main turn 1"): ("message-changed", ""),
    ("sub-agents", "sub turn 1"): ("tools-changed", ""),
}
OPEN = {
    ("fresh", "title turn 0"): ("nothing-known", ""),
    ("fresh", "main turn 1"): ("nothing-known", ""),
}
BEYOND, LEAST_LOST = 100, 32
SHAPES = {
    "another day": ("volatile-text", "date", "message 2 (user)"),
    "git at the end of the system prompt": ("volatile-text", "git-status", "system"),
    "git before a late system prompt": ("volatile-text", "git-status", "message 2 (user)"),
    "commits within the system prompt": ("volatile-text", "git-status", "system"),
    "a resumed conversation without its date": ("message-changed", "", "message 2 (user)"),
    "an answer without its thought": ("thinking-dropped", "", "thinking of message 3"),
    "a call with defaults": ("call-reserialised", "", "calls of message 3"),
    "a call with its arguments the other way round": ("call-reserialised", "", "calls of message 3"),
    "a call with other blanks": ("call-reserialised", "", "calls of message 3"),
    "a tool with its keys in another order": ("tools-changed", "", "tool 1"),
    "another model": ("message-changed", "", "system"),
    "another model each time": ("volatile-text", "text", "system"),
    "a call without its last argument": ("call-reserialised", "", "calls of message 3"),
    "a call with another form of a number": ("call-reserialised", "", "calls of message 3"),
    "a system text without its end": ("message-changed", "", "system"),
    "an answer without its end": ("message-changed", "", "message 3 (assistant)"),
    "an answer without its blank": ("message-changed", "", "message 3 (assistant)"),
    "a thought that ends earlier": ("message-changed", "", "thinking of message 3"),
    "a short result emptied": ("message-changed", "", "message 4 (tool result)"),
    "a result without its reminder": ("message-changed", "", "message 4 (tool result)"),
    "a question without its reminder": ("message-changed", "", "message 2 (user)"),
    "a tool put in before one of the same schema": ("tools-changed", "", "tool 1"),
    "three small tools in another order": ("tools-reordered", "", "tool 1"),
    "another task": ("new-content", "", "message 3 (user)"),
    "a result left out later": ("message-changed", "", "message 5 (tool result)"),
    "tools of a sub-agent": ("tools-changed", "", "tool 2"),
    "tools in another order": ("tools-reordered", "", "tool 2"),
    "a tool described anew": ("tools-changed", "", "tool 2"),
}


def goes_on(miss):
    return miss["kind"] == "new-content" and miss["lost_tokens"] < LEAST_LOST


class KindsTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="kvkeep-kinds-test-")
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def write(self, recordings):
        """{name: path}."""
        paths = {}
        for name, lines in recordings.items():
            paths[name] = self.directory / (name.replace("/", "") + ".jsonl")
            paths[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
        return paths

    def doctor(self, *paths):
        """{title: section}."""
        done = subprocess.run([PROGRAM, "doctor", "--kv-disk-dir", self.directory / "none", "--json", *paths],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return {section["title"]: section for section in json.loads(done.stdout)["sections"]}

    def expect_kinds(self, sessions, expected):
        paths = self.write(sessions)
        sections = self.doctor(*paths.values())
        found, went_on = {}, 0
        for name, path in paths.items():
            section = sections[str(path)]
            misses = [one for one in section["requests"] if one["tokens"] - one["known_tokens"] > BEYOND]
            self.assertEqual(section["misses"]["requests"], len(misses), name)
            self.assertEqual(section["misses"]["of_requests"], len(sessions[name]), name)
            went_on += sum(map(goes_on, misses))
            found |= {(name, miss["label"]): (miss["kind"], miss.get("what", "")) for miss in misses if not goes_on(miss)}
        self.assertEqual(found, expected)
        total = sections[f"All {len(paths)} recordings"]["misses"]
        self.assertEqual(sum(kind["requests"] for kind in total["kinds"]), len(expected) + went_on)
        self.assertEqual({(kind["kind"], kind["what"]) for kind in total["kinds"]}, {*expected.values(), ("new-content", "")})

    def expect_kinds_of_a_server(self, sessions, expected):
        """The kinds in the server's trace, after the sessions were played on it."""
        model, trace = self.directory / "llama.gguf", self.directory / "trace.jsonl"
        subprocess.run([PROGRAM, "model", "make", "--arch", "llama", model], check=True, capture_output=True)
        command = (f"{PROGRAM} serve -m {model} -c 16384 -t 1 --no-kv-disk --restore always --no-prefill-ahead "
                   f"--trace {trace}")
        done = subprocess.run([PROGRAM, "replay", "--server", command, "--fast", "--reply-tokens", "4",
                               *self.write(sessions).values()], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        requests = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(requests), sum(map(len, sessions.values())))
        misses = [one["cache_break"] for one in requests if one["prefilled_tokens"] > BEYOND]
        kinds = [(miss["kind"], miss.get("what", "")) for miss in misses if not goes_on(miss)]
        self.assertEqual(sorted(kinds), sorted(expected))
        counted = self.doctor(trace)[str(trace)]["misses"]
        self.assertEqual([counted["requests"], counted["of_requests"]], [len(misses), len(requests)])
        for kind in counted["kinds"]:
            self.assertEqual(kind["requests"], sum((miss["kind"], miss.get("what", "")) == (kind["kind"], kind["what"]) for miss in misses))

    def test_sessions_like_those_of_claude_code(self):
        self.expect_kinds(synthetic_sessions.claude_sessions(), CLAUDE)

    def test_sessions_like_those_of_opencode(self):
        self.expect_kinds(synthetic_sessions.open_sessions(), OPEN)

    def test_a_server_names_the_same_kinds(self):
        expected = [*CLAUDE.values()]
        # The models' template writes the system prompt before the tools, and that of a sub-agent is another one.
        expected[expected.index(("tools-changed", ""))] = ("new-content", "")
        self.expect_kinds_of_a_server(synthetic_sessions.claude_sessions(), expected)

    def test_what_other_clients_change(self):
        self.assertEqual(set(SHAPES), set(client_shapes.SHAPES))
        for name, expected in SHAPES.items():
            with self.subTest(name):
                path, = self.write({name: client_shapes.lines(name)}).values()
                section = self.doctor(path)[str(path)]
                first, *_, last = section["requests"]
                self.assertEqual(first["kind"], "nothing-known")
                self.assertEqual((last["kind"], last.get("what", ""), last["place"]), expected)
                self.assertGreater(last["tokens"] - last["known_tokens"], BEYOND)
                self.assertEqual(section["misses"]["requests"], len(section["requests"]))

    def test_the_billing_line_is_as_the_server_treats_it(self):
        headers, first, second = client_shapes.SHAPES["another day"]
        second = first[0], json.loads(json.dumps(first[1]).replace("1.2.3.abc", "1.2.3.e1f"))
        lines = [json.dumps({"t": number, "client": "synthetic", "method": "POST", "path": path, "headers": headers, "body": body})
                 for number, (path, body) in enumerate((first, second))]
        path, = self.write({"billing": lines}).values()
        for flags, kinds in (((), [None]), (("--serve", "-m x.gguf"), [None]),
                             (("--serve", "-m x.gguf --stabilize none"), ["volatile-text (billing-line)"])):
            with self.subTest(flags=flags):
                request = self.doctor(*flags, path)[str(path)]["requests"][1]
                kind = f'{request["kind"]} ({request["what"]})' if "kind" in request else None
                self.assertEqual([kind], kinds)


if __name__ == "__main__":
    print(f"program: {PROGRAM}", file=sys.stderr)
    unittest.main()
