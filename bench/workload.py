"""Workload files (bench/README.md) and the text they are played with.

A file fixes how many tokens every message has, not which words: those are made from a seed, so that a workload is the
same for every model and contains nobody's text.
"""

import dataclasses
import pathlib
import random

DIRECTORY = pathlib.Path(__file__).parent / "workloads"

# Number of arguments of each statement.
_SETTINGS = {"context": 1, "small-context": 1, "reply": 1}
_STEPS = {"system": 2, "open": 2, "turn": 2, "branch": 3, "quote": 4, "kill": 1}
_REQUESTS = ("turn", "quote")


class WorkloadError(Exception):
    """A workload file that cannot be understood: file, line and reason."""


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str            # of the file
    title: str           # its first line
    context: int         # -c, in tokens
    small_context: int   # -c that holds any one session, but not all
    reply: int           # tokens per reply
    steps: tuple         # (statement, arguments...), numbers as int or float

    @property
    def requests(self):
        return sum(step[0] in _REQUESTS for step in self.steps)

    @property
    def kills(self):
        return sum(step[0] == "kill" for step in self.steps)


def all_workloads():
    return [load(path) for path in sorted(DIRECTORY.glob("*.txt"))]


def load(path):
    lines = path.read_text().splitlines()
    if not lines or not lines[0].startswith("# "):
        raise WorkloadError(f"{path}:1: the first line is '# ' and the title")
    settings, steps = {}, []
    for number, line in enumerate(lines, 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            _read_statement(words, settings, steps)
        except ValueError as error:
            raise WorkloadError(f"{path}:{number}: {error}") from None
    missing = [name for name in _SETTINGS if name not in settings]
    if missing:
        raise WorkloadError(f"{path}: {', '.join(missing)} missing")
    return Workload(path.stem, lines[0][2:], settings["context"], settings["small-context"], settings["reply"],
                    tuple(steps))


def _read_statement(words, settings, steps):
    name, arguments = words[0], words[1:]
    wanted = _SETTINGS.get(name, _STEPS.get(name))
    if wanted is None:
        raise ValueError(f"unknown statement '{name}'")
    if len(arguments) != wanted:
        raise ValueError(f"'{name}' takes {wanted} arguments")
    if name in _SETTINGS:
        settings[name] = int(arguments[0])
    elif name == "kill":
        steps.append((name, float(arguments[0])))
    elif name == "open":
        steps.append((name, *arguments))
    else:
        steps.append((name, *arguments[:-1], int(arguments[-1])))


# --- text ---

_SUBJECTS = ("the parser", "a worker", "the scheduler", "our client", "the index", "this module", "a test", "the writer",
             "the old loop", "the new reader", "each request", "the build", "the server", "a thread", "the table")
_VERBS = ("reads", "writes", "checks", "returns", "keeps", "drops", "counts", "moves", "opens", "closes", "holds",
          "sends", "finds", "waits for", "depends on", "replaces", "ignores", "updates", "prints", "needs")
_OBJECTS = ("the first line", "every file", "an empty list", "the last value", "two numbers", "the error message",
            "the wrong path", "a small buffer", "the config", "another copy", "the whole page", "its own state",
            "the result", "a short name", "the next step", "some old data", "the time limit", "the main branch")
_ENDINGS = ("before the call", "after a restart", "when the queue is full", "in most cases", "without a lock",
            "as the comment says", "on every platform", "if the flag is set", "until it fails", "once per run",
            "for the second time", "with the default options", "during the night", "at the end of the loop")


def words(label):
    """An endless stream of words that `label` alone decides."""
    chance = random.Random(label)
    while True:
        clause = [chance.choice(part) for part in (_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS)]
        if chance.random() < 0.2:
            clause.append(f"(see line {chance.randrange(1000)})")
        sentence = " ".join(clause).split()
        sentence[0] = sentence[0].capitalize()
        sentence[-1] += "."
        yield from sentence


def text_of_tokens(label, tokens, pieces_of):
    """The longest beginning of label's words that has at most `tokens` tokens; `pieces_of(text)` gives their spellings."""
    stream = words(label)
    text = " ".join(next(stream) for _ in range(tokens))  # a word has at least one token
    pieces = pieces_of(text)
    end = len("".join(pieces[:tokens]))
    return text if end == len(text) else text[:text.rindex(" ", 0, end + 1)]
