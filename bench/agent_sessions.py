#!/usr/bin/env python3
"""Recorded sessions of agents against kvkeep and a peer: the table of docs/agent-sessions.md.

    bench/agent_sessions.py --kvkeep build/kvkeep [--peer llama-server] [--arch llama --arch qwen35]
        [--template FILE] [--into docs/agent-sessions.md] ROW...

ROW is one recording or several joined by commas (JSONL as `kvkeep replay` reads it, packed with xz or not): they are played
one after the other on one server that starts with nothing. Prints Markdown; --into puts it in the place of the part
"Figures" of that file. Models are generated (tiny). Counts are the same on each machine; exit status 1: kvkeep prefilled
more of requests that go on than the bound of its model's class, or of a session's first one than 8 % or 32 tokens too many.
"""

import argparse
import datetime
import json
import lzma
import pathlib
import re
import subprocess
import sys
import tempfile

CONTEXT = "131072"
REPLY_TOKENS = "24"
# If only points can be restored, tokens from the last point to where a prompt leaves the known ones are computed again.
BOUNDS = {"llama": 1.02, "gemma3": 1.02}
BOUND_OF_POINTS = 1.05
HEADING = "## Figures"


def title_of(run):
    return run["workload"]


def counts(requests):
    return [sum(one[f"{kind}_tokens"] for one in requests) for kind in ("prefilled", "ideal")]


def within(run):
    """Returns by how many tokens the ideal may be off."""
    found = re.search(r"ideal within (\d+) tokens", run["title"])
    return int(found[1]) if found else 0


def is_over(arch, run, requests):
    prefilled, ideal = counts(requests)
    return prefilled > BOUNDS.get(arch, BOUND_OF_POINTS) * (ideal + within(run)) + len(requests)


def plain_messages(line):
    """A recorded request's messages without the marks that clients move, each as text."""
    messages = (json.loads(line).get("body") or {}).get("messages") or []
    for message in messages:
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        for block in blocks:
            block.pop("cache_control", None)
    return [json.dumps(message, sort_keys=True) for message in messages]


def mark_those_that_go_on(runs, recordings, earlier):
    """Marks requests whose messages begin with all those of an earlier one as "goes_on"."""
    for run, recording in zip(runs, recordings):
        lines = sorted(recording.read_text(encoding="utf-8").splitlines(), key=lambda line: json.loads(line)["t"])
        for request, line in zip(run["requests"], lines):
            messages = plain_messages(line)
            request["goes_on"] = any(0 < len(old) < len(messages) and messages[:len(old)] == old for old in earlier)
            earlier.append(messages)
    return runs


class Player:
    """Plays rows of recordings against servers with one model."""

    def __init__(self, options, arch, directory):
        self.options, self.directory = options, directory
        self.model = directory / f"{arch}.gguf"
        self.run(options.kvkeep, "model", "make", "--arch", arch, "--size", "tiny", "--force", self.model)

    def run(self, *arguments, allowed=(0,)):
        done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
        if done.returncode not in allowed:
            sys.exit(f"{arguments}: {done.stdout}{done.stderr}")

    def unpacked(self, paths):
        for number, path in enumerate(map(pathlib.Path, paths)):
            plain = self.directory / f"{number}.jsonl"
            plain.write_bytes(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
            yield plain

    def command(self, server, tier):
        flags = ["-m", self.model, "-c", CONTEXT, "-t", "1"]
        if self.options.template:
            flags += ["--chat-template-file", self.options.template]
        if server == "kvkeep":
            return [self.options.kvkeep, "serve", *flags, "--restore", "always", "--no-prefill-ahead", "--kv-disk-dir", tier]
        return [self.options.peer, *flags, "--jinja"]

    def play(self, server, paths):
        """The report's runs, one for each recording."""
        report = self.directory / "report.json"
        recordings = list(self.unpacked(paths))
        with tempfile.TemporaryDirectory(dir=self.directory) as tier:
            command = " ".join(map(str, self.command(server, tier)))
            self.run(self.options.kvkeep, "replay", "--server", command, "--fast", "--reply-tokens", REPLY_TOKENS,
                     "--json", report, *recordings, allowed=(0, 1))  # 1: the report has the reason
        read = json.loads(report.read_text(encoding="utf-8"))
        self.versions = {"kvkeep": read["kvkeep_version"], "libllama": read["libllama_version"]}
        return mark_those_that_go_on(read["runs"], recordings, [])


def answered(run):
    return [request for request in run["requests"] if request["status"] == 200 and request["prompt_tokens"] > 0]


def measure(options):
    """{arch: {server: [[run, ...] of each row]}}, and versions."""
    servers = ["kvkeep"] + (["peer"] if options.peer else [])
    figures = {}
    with tempfile.TemporaryDirectory(prefix="kvkeep-sessions-") as directory:
        for arch in options.arch:
            player = Player(options, arch, pathlib.Path(directory))
            figures[arch] = {server: [player.play(server, row.split(",")) for row in options.rows] for server in servers}
    return figures, player.versions


def table(head, rows):
    """Markdown; the first column is text, the others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def columns(figures, peer):
    return [(arch, server, f"{arch}, {'kvkeep' if server == 'kvkeep' else peer}")
            for arch, servers in figures.items() for server in servers]


def cell(arch, server, run, requests):
    if not requests:
        return "-"
    prefilled, ideal = counts(requests)
    value = f"{prefilled / max(ideal, 1):.3f}"
    return f"**{value}**" if server == "kvkeep" and is_over(arch, run, requests) else value


def going_on(run):
    return [request for request in answered(run) if request["goes_on"]]


def ratio_table(figures, peer, chosen):
    """`chosen`: the requests of a run that count."""
    names = columns(figures, peer)
    rows = []
    first = next(iter(figures.values()))["kvkeep"]
    for row, runs in enumerate(first):
        for number, run in enumerate(runs):
            requests = chosen(run)
            prompts, ideal = (sum(one[f"{kind}_tokens"] for one in requests) for kind in ("prompt", "ideal"))
            cells = [cell(arch, server, other, chosen(other)) for arch, server, _ in names for other in [figures[arch][server][row][number]]]
            rows.append([("" if number == 0 else "then ") + title_of(run), len(requests), f"{prompts:,}", f"{ideal:,}", *cells])
    return table(["recording", "requests", "in prompts", "never computed", *(name for _, _, name in names)], rows)


def first_table(figures, peer):
    """First requests of recordings, except those of the first recording."""
    names = columns(figures, peer)
    rows = []
    for row, runs in enumerate(next(iter(figures.values()))["kvkeep"]):
        for number in range(1, len(runs)):
            request = main_request(runs[number])
            index = runs[number]["requests"].index(request)
            cells = [f"{figures[arch][server][row][number]['requests'][index]['prefilled_tokens']:,}"
                     for arch, server, _ in names]
            rows.append([title_of(runs[number]), f"{request['prompt_tokens']:,}", f"{request['ideal_tokens']:,}", *cells])
    return table(["first request of", "prompt", "never computed", *(name for _, _, name in names)], rows)


def main_request(run):
    requests = answered(run)
    return next((one for one in requests if one["label"].startswith("main")), requests[0])


def notes(figures):
    """How exact ideals are, and the problems that reports name."""
    first = next(iter(figures.values()))["kvkeep"]
    off_by = [f"{title_of(run)} {within(run)}" for runs in first for run in runs if within(run)]
    exceptions = "Ideals are exact, except for these recordings, whose ideals may be off by the given number of tokens: "
    lines = [exceptions + ", ".join(off_by) + "."] if off_by else []
    for arch, servers in figures.items():
        for server, rows in servers.items():
            lines += [f"{arch}, {server}, {title_of(run)}: {problem}" for runs in rows for run in runs for problem in run["problems"]]
    return "\n\n".join(lines)


def is_over_at_first(run):
    """A session that leaves an earlier one inside a message: at most 8 % or 32 tokens are computed twice."""
    prefilled, ideal = counts([main_request(run)])
    return prefilled > max(1.08 * ideal, ideal + 32) + within(run)


def over_bound(figures):
    runs_of = [(arch, runs) for arch, servers in figures.items() for runs in servers["kvkeep"]]
    return (any(is_over(arch, run, going_on(run)) for arch, runs in runs_of for run in runs) or
            any(is_over_at_first(run) for _, runs in runs_of for run in runs[1:]))


def page(figures, versions, options):
    peer = pathlib.Path(options.peer).name if options.peer else ""
    day = datetime.date.today().isoformat()
    template = pathlib.Path(options.template).name if options.template else "the generated models' own"
    return "\n\n".join(part for part in (
        f"Measured on {day} by `bench/agent_sessions.py`; kvkeep {versions['kvkeep']}, libllama {versions['libllama']}; "
        f"chat template: {template}.",
        "Prefilled tokens / tokens never computed before, for requests that go on where an earlier one ended. A recording marked "
        "\"then\" was played on the same server, after the one above it. A bold ratio exceeds the bound by more than the ideal "
        "may be off.",
        ratio_table(figures, peer, going_on),
        "The same for all requests:",
        ratio_table(figures, peer, answered),
        "Prefilled tokens of the first request of each session that follows another one:",
        first_table(figures, peer),
        notes(figures)) if part)


def put_into(path, text):
    head = path.read_text(encoding="utf-8").split(HEADING)[0]
    path.write_text(f"{head}{HEADING}\n\n{text}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvkeep", required=True)
    parser.add_argument("--peer", help="a llama-server to compare with")
    parser.add_argument("--arch", action="append", help="architecture of the generated model; default: llama and qwen35")
    parser.add_argument("--template", help="chat template file for both servers")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("rows", nargs="+", metavar="ROW")
    options = parser.parse_args()
    options.arch = options.arch or ["llama", "qwen35"]
    figures, versions = measure(options)
    text = page(figures, versions, options)
    if options.into:
        put_into(options.into, text)
    else:
        print(text)
    return 1 if over_bound(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
