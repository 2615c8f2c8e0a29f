"""Plays a workload against a server over HTTP and counts, at the engine, what the server computed for it."""

import dataclasses
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "testing" / "e2e"))
from kvkeep_process import DecodedPrefixes, reply_text  # noqa: E402

import workload  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Reply:
    prompt: list  # ids
    tokens: list  # ids


@dataclasses.dataclass
class Outcome:
    """What playing one workload cost."""
    requests: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0        # prompt positions whose id prefix was never decoded before
    prefilled_tokens: int = 0  # ids given to the engine, without sampled ids that were fed back
    decoded_prefixes: int = 0  # different prefixes decoded: rows that a cache has to keep
    tokens_from: dict = dataclasses.field(default_factory=lambda: {"memory": 0, "ram": 0, "disk": 0})
    errors: list = dataclasses.field(default_factory=list)
    replies: list = dataclasses.field(default_factory=list)

    @property
    def ratio(self):
        return self.prefilled_tokens / self.new_tokens


class Player:
    """`progress(requests done)` is called after each request; `kill_wait_s` replaces the waits of the file."""

    def __init__(self, server, load, *, progress=lambda done: None, kill_wait_s=None):
        self._server = server
        self._load = load
        self._progress = progress
        self._kill_wait_s = kill_wait_s
        self._systems = {}        # name -> text
        self._conversations = {}  # name -> messages
        self._prefixes = DecodedPrefixes()
        self.outcome = Outcome()

    def play(self):
        for number, step in enumerate(self._load.steps):
            getattr(self, "_" + step[0])(*step[1:], label=f"{number} {step}")
        return self.outcome

    # --- statements ---

    def _system(self, name, tokens, label):
        self._systems[name] = self._text(f"system {name}", tokens)

    def _open(self, name, system, label):
        self._conversations[name] = [{"role": "system", "content": self._systems[system]}]

    def _branch(self, name, origin, turns, label):
        self._conversations[name] = list(self._conversations[origin][:1 + 2 * turns])

    def _turn(self, name, tokens, label):
        messages = self._conversations[name]
        messages.append({"role": "user", "content": self._text(label, tokens)})
        messages.append({"role": "assistant", "content": self._ask(messages)})

    def _quote(self, name, system, origin, turns, label):
        self._open(name, system, label)
        quoted = self._conversations[origin][-2 * turns:]
        transcript = "\n\n".join(f"{message['role']}: {message['content']}" for message in quoted)
        self._conversations[name].append({"role": "user", "content": transcript})
        self._ask(self._conversations[name])

    def _kill(self, wait_s, label):
        time.sleep(wait_s if self._kill_wait_s is None else self._kill_wait_s)
        self._server.restart_after_kill()

    # --- a request ---

    def _text(self, label, tokens):
        def pieces_of(text):
            reply = self._server.post("/tokenize", {"content": text, "add_special": False, "with_pieces": True})
            return [token["piece"] for token in reply["tokens"]]

        return workload.text_of_tokens(label, tokens, pieces_of)

    def _ask(self, messages):
        prompt = self._server.prompt_ids(messages)
        decoded_before = self._server.decoded_ids()
        reply = self._server.chat(messages, max_tokens=self._load.reply)
        decoded = self._server.decoded_ids() - decoded_before

        # The last sampled id is never fed back: nothing is computed behind it.
        prefilled = decoded - (reply["usage"]["completion_tokens"] - 1)
        text = reply_text(reply)
        sampled = self._server.tokenize(text)
        self._check_claims(reply, prompt, prefilled, sampled)
        self._count(reply, prompt, prefilled)
        self._prefixes.add(prompt + sampled[:-1])
        self.outcome.decoded_prefixes += max(0, len(sampled) - 1)
        self.outcome.replies.append(Reply(prompt, sampled))
        self._progress(self.outcome.requests)
        return text

    def _count(self, reply, prompt, prefilled):
        outcome = self.outcome
        new = self._prefixes.never_decoded(prompt)
        outcome.requests += 1
        outcome.prompt_tokens += len(prompt)
        outcome.new_tokens += new
        outcome.decoded_prefixes += new
        outcome.prefilled_tokens += prefilled
        for tier, tokens in reply["timings"].get("cache_tokens", {}).items():
            outcome.tokens_from[tier] += tokens

    def _check_claims(self, reply, prompt, prefilled, sampled):
        """The reply must say what the engine saw."""
        timings, usage = reply["timings"], reply["usage"]
        for what, claimed, counted in (
                ("prompt_tokens", usage["prompt_tokens"], len(prompt)),
                ("cache_n + prompt_n", timings["cache_n"] + timings["prompt_n"], len(prompt)),
                ("prompt_n", timings["prompt_n"], prefilled),
                ("completion_tokens", usage["completion_tokens"], len(sampled))):
            if claimed != counted:
                self.outcome.errors.append(
                    f"request {self.outcome.requests + 1}: the reply says {what} {claimed}, the engine saw {counted}")
