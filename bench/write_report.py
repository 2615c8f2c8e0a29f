#!/usr/bin/env python3
"""Makes docs/benchmarks.md of the figures that scripts/bench left in a directory.

    bench/write_report.py DIRECTORY > docs/benchmarks.md

DIRECTORY holds bench.md (kvkeep bench --markdown), text.json (check_text.py), compiler.txt, and Google Benchmark's output
of rooms (store.json, cache.json).
"""

import json
import pathlib
import sys

INTRODUCTION = """# Benchmarks

Written by `make bench` (`scripts/bench`); do not edit. What is measured and how: [bench.md](bench.md). kvkeep runs with
`--restore always`, a peer with its defaults and the same `-c`; all with the small generated model.

Counts are exact and the same on every machine. Times were taken on a shared machine on which other programs ran: compare
those of one table with each other, not with other machines'.
"""


class Figures:
    """Medians of one benchmark program, in wall time."""

    def __init__(self, report):
        self.by_name = {entry["run_name"]: entry for entry in report["benchmarks"]
                        if entry.get("aggregate_name") == "median"}

    def time_s(self, name):
        entry = self.by_name[f"{name}/real_time"]
        return entry["real_time"] * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[entry["time_unit"]]

    def rate(self, name):
        return self.by_name[f"{name}/real_time"]["bytes_per_second"]

    def sizes(self, family):
        return sorted(int(name.split("/")[1]) for name in self.by_name if name.startswith(family + "/"))


def opening_rows(figures):
    for saved, text, goal in ((0, "every header read", "<= 2 s"), (1, "with the saved index", "<= 0.5 s")):
        for cold, caches in ((1, "empty"), (0, "warm")):
            name = f"BM_OpenTenThousandFiles/saved_index:{saved}/cold:{cold}"
            if f"{name}/real_time" in figures.by_name:  # only root can empty the system's caches
                yield f"opening, {text}, the system's caches {caches}", f"{figures.time_s(name):.2f} s", goal


def reading_rows(figures):
    for size in figures.sizes("BM_Get"):
        get, plain = (figures.rate(f"{name}/{size}") for name in ("BM_Get", "BM_PlainReadAndChecksum"))
        yield f"reading a segment of {size} MiB / reading and checksumming the file", \
            f"{get / plain:.2f} ({get / 1e9:.1f} GB/s)", ">= 0.7"


def load(directory, name):
    return json.loads((directory / name).read_text())


def main():
    directory = pathlib.Path(sys.argv[1])
    lines = (directory / "bench.md").read_text().splitlines()[1:]  # without its title
    last_fact = max(i for i, line in enumerate(lines) if line.startswith("- Server "))
    lines.insert(last_fact + 1, f"- Compiler: {(directory / 'compiler.txt').read_text().strip()}")
    text = load(directory, "text.json")
    rows = [*opening_rows(Figures(load(directory, "cache.json"))), *reading_rows(Figures(load(directory, "store.json")))]
    table = "\n".join(f"| {name} | {measured} | {goal} |" for name, measured, goal in rows)
    print(f"""{INTRODUCTION}
{chr(10).join(lines).strip()}

## Disk

A directory of 10,000 segment files (5M tokens), opened until prompts can be matched; and single files.

| | measured | goal |
|---|---:|---:|
{table}

## Text

{sum(text.values())} greedy replies of these workloads (q8_0 KV, tiny model) were computed again without a cache: {text['same']} are the
same to the letter, {text['noise']} chose a token that is as likely up to the noise of the order in which rows lie in memory,
{text['different']} differ.""")


if __name__ == "__main__":
    main()
