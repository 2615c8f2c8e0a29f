#!/usr/bin/env python3
"""Plays the workloads against kvkeep and compares every greedy reply with one that was computed without a cache.

    bench/check_text.py --kvkeep build/kvkeep --model tiny.gguf [--json FILE]

Exit status: 0; 1 when a reply differs by more than noise.
"""

import argparse
import json
import os
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "testing" / "e2e"))
from kvkeep_process import ServerProcess, reply_text  # noqa: E402

# With these flags results do not depend on which tokens were computed together; only their last bits depend on the order
# of rows in memory. That moves logits (2 root mean square) by less than NOISE; a token that wins when favoured by NOISE
# is as good as the likeliest.
FLAGS = ("-t", "1", "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")
NOISE = 0.2
KILL_WAIT_S = 0.5

_WORDS = ("parser worker scheduler client index module test writer loop reader request build server thread table reads "
          "writes checks returns keeps drops counts moves opens closes holds sends finds waits replaces updates").split()


class Player:
    """Plays one workload file (docs/bench.md says what its statements mean; kvkeep bench checks the files)."""

    def __init__(self, path):
        lines = [line.split("#", 1)[0].split() for line in path.read_text().splitlines()]
        self._steps = [words for words in lines if words]
        self.context = next(words[1] for words in self._steps if words[0] == "context")
        self.replies = []  # (prompt ids, reply ids)

    def play(self, server):
        self._server, self._systems, self._conversations = server, {}, {}
        for number, (statement, *arguments) in enumerate(self._steps):
            self._label = f"{number}"
            getattr(self, "_" + statement.replace("-", "_"))(*arguments)

    def _context(self, _):
        pass

    _small_context = _context
    _point_bound = _context

    def _reply(self, tokens):
        self._reply_tokens = int(tokens)

    def _system(self, name, tokens):
        self._systems[name] = self._text(tokens)

    def _open(self, name, system):
        self._conversations[name] = [{"role": "system", "content": self._systems[system]}]

    def _turn(self, name, tokens):
        messages = self._conversations[name]
        messages.append({"role": "user", "content": self._text(tokens)})
        messages.append({"role": "assistant", "content": self._ask(messages)})

    def _branch(self, name, origin, turns):
        self._conversations[name] = list(self._conversations[origin][:1 + 2 * int(turns)])

    def _quote(self, name, system, origin, turns):
        self._open(name, system)
        quoted = self._conversations[origin][-2 * int(turns):]
        transcript = "\n\n".join(f"{message['role']}: {message['content']}" for message in quoted)
        self._conversations[name].append({"role": "user", "content": transcript})
        self._ask(self._conversations[name])

    def _kill(self, _):
        time.sleep(KILL_WAIT_S)
        self._server.restart_after_kill()

    def _text(self, tokens):
        chance = random.Random(self._label)
        return " ".join(chance.choice(_WORDS) for _ in range(int(tokens) * 2 // 3))

    def _ask(self, messages):
        text = reply_text(self._server.chat(messages, max_tokens=self._reply_tokens))
        self.replies.append((self._server.prompt_ids(messages), self._server.tokenize(text)))
        return text


class Truth:
    """A server that computes every prompt from its first token on."""

    def __init__(self, server):
        self._server = server

    def _tokens(self, prompt, count, **fields):
        reply = self._server.post("/v1/completions", {"prompt": prompt, "max_tokens": count, "temperature": 0,
                                                      "cache_prompt": False, "return_tokens": True, **fields})
        return reply["tokens"]

    def judge(self, prompt, tokens):
        """"same", "noise" (each token is the truth's choice, or as good as that) or "different"."""
        at, verdict = 0, "same"
        while True:
            rest = self._tokens(prompt + tokens[:at], len(tokens) - at)
            at += next((n for n, (a, b) in enumerate(zip(rest, tokens[at:])) if a != b), len(rest))
            if at == len(tokens):
                return verdict
            favour = {str(tokens[at]): NOISE}
            if self._tokens(prompt + tokens[:at], 1, logit_bias=favour) != [tokens[at]]:
                return "different"
            at, verdict = at + 1, "noise"
            if at == len(tokens):
                return verdict


def check(options, path):
    player = Player(path)
    common = [options.kvkeep, "serve", "-m", options.model, "-c", player.context, *FLAGS]
    with tempfile.TemporaryDirectory(prefix="kvkeep-text-") as directory:
        with ServerProcess([*common, "--restore", "always", "--kv-disk-dir", directory]) as server:
            player.play(server)
    verdicts = {"same": 0, "noise": 0, "different": 0}
    with ServerProcess([*common, "--no-cache-prompt", "--no-kv-disk"]) as server:
        for prompt, tokens in player.replies:
            verdicts[Truth(server).judge(prompt, tokens)] += 1
    print(f"{path.stem}: {verdicts}", file=sys.stderr, flush=True)
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvkeep", default="build/kvkeep", help="the program (default: %(default)s)")
    parser.add_argument("--model", required=True, help="GGUF file; a generated one, whose text tokenizes to itself")
    parser.add_argument("--json", metavar="FILE", help="write the verdicts to FILE")
    parser.add_argument("workloads", nargs="*", help="names of workloads (default: all)")
    options = parser.parse_args()
    options.kvkeep = os.path.abspath(options.kvkeep)
    files = sorted((HERE / "workloads").glob("*.txt"))
    found = [check(options, path) for path in files if not options.workloads or path.stem in options.workloads]
    total = {verdict: sum(one[verdict] for one in found) for verdict in ("same", "noise", "different")}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(total) + "\n")
    return 1 if total["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
