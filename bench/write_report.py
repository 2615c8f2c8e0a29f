#!/usr/bin/env python3
"""Makes docs/benchmarks.md of the figures that scripts/bench left in a directory.

    bench/write_report.py DIRECTORY > docs/benchmarks.md

DIRECTORY holds workloads.json, text.json, parity.json, versions.json and Google Benchmark's output of the rooms
(index.json, store.json, policy.json, engine_llama.json). A part without figures is left out.
"""

import json
import os
import pathlib
import re
import sys

import run_workloads

INTRODUCTION = """# Benchmarks

Written by `make bench` (`scripts/bench`); do not edit. What is measured, and how to repeat one part of it:
[bench/README.md](../bench/README.md).

Counts are exact and the same on every machine. Times were taken on a shared machine on which other programs ran: compare
those of one table with each other, not with other machines'. Each is the median of several runs; work of one thread is
given in CPU time, disk and whole operations in wall time.
"""


def load(directory, name):
    path = pathlib.Path(directory) / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


# --- the machine ---

def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory_kib = int(re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1))
    system = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    return f"{os.cpu_count()} x {cpu.group(1) if cpu else os.uname().machine}, {memory_kib / 2**20:.0f} GiB of memory, " \
           f"{system.group(1) if system else os.uname().sysname}"


def machine_part(directory):
    versions = load(directory, "versions") or {}
    lines = [f"- Machine: {machine()}"] + [f"- {name}: {text}" for name, text in versions.items()]
    return "\n".join(lines) + "\n"


# --- workloads ---

def column_title(label):
    return {"kvkeep": "kvkeep", "small -c": "`-c` too small", "no RAM": "`--cache-ram 0`", "auto": "`--restore auto`",
            run_workloads.PEER: "llama-server"}[label]


def workloads_part(directory):
    report = load(directory, "workloads")
    if report is None:
        return ""
    first = next(iter(report.values()))
    labels = list(first["columns"])
    rows = [[entry["title"], *(f"{entry['columns'][label]['ratio']:.3f}" for label in labels)] for entry in report.values()]
    counts = []
    for entry in report.values():
        column = entry["columns"]["kvkeep"]
        peer = entry["columns"].get(run_workloads.PEER)
        source = column["from"]
        counts.append([entry["title"], column["requests"], column["prompt"], column["new"], column["prefilled"],
                       source["memory"], source["ram"], source["disk"], peer["prefilled"] if peer else ""])
    return f"""## Prefilled tokens / tokens never computed before

Counted at the engine, over HTTP, with the small generated model. 1.00 is perfect; the bound of the first column is
{run_workloads.RATIO_BOUND}, the others are reported. kvkeep runs with `--restore always` unless a column says otherwise;
llama-server with its defaults and the same `-c`.

{table(["workload", *map(column_title, labels)], rows)}
The same in tokens (first column of the above; "from" says which tier kvkeep had the rest from):

{table(["workload", "requests", "in prompts", "never computed", "prefilled", "from memory", "from RAM", "from disk",
        "llama-server prefilled"], counts)}
{text_part(directory)}{writes_part(first)}"""


def text_part(directory):
    report = load(directory, "text")
    if report is None:
        return ""
    texts = [entry["text"] for entry in report.values()]
    same, noise, different = (sum(text[verdict] for text in texts) for verdict in ("same", "noise", "different"))
    return (f"Text: {same + noise + different} replies of these workloads (greedy, q8_0 KV, tiny model) were computed again "
            f"without a cache: {same} are the same to the letter, {noise} chose a token that is as likely up to the noise "
            f"of the order in which rows lie in memory, {different} differ.\n\n")


def writes_part(entry):
    writes = entry["columns"]["kvkeep"]["writes"]
    rows = writes["new_row_bytes"]
    return f"""## Bytes written

{entry['title']}: {rows} bytes of new rows. Payload on disk / bytes of new rows: **{writes['payload_bytes'] / rows:.3f}**
(goal: at most {run_workloads.WRITTEN_BOUND}). All bytes that the writing thread passed to the system, headers, token ids and
files' second versions included: {writes['written_bytes'] / rows:.3f}.
"""


# --- parity ---

def parity_part(directory):
    report = load(directory, "parity")
    if report is None:
        return ""
    rows = [[kind, f"{figure['ratio']:.3f}", " to ".join(f"{quartile:.3f}" for quartile in figure["quartiles"]),
             figure["pairs"], f"{figure['kvkeep_us_per_token']:.0f} us", f"{figure['peer_us_per_token']:.0f} us"]
            for kind, figure in report["figures"].items()]
    return f"""## Where the cache finds nothing

CPU time per token against llama-server, small model, `{' '.join(report['flags'])}`, one request at a time, every prompt
new. kvkeep's writing to disk is included. Median ratio of neighbouring runs; goal: at most {report['goal']}.

{table(["", "kvkeep / llama-server", "quartiles", "pairs", "kvkeep", "llama-server"], rows)}"""


# --- parts of the program ---

class Figures:
    """Medians of one benchmark program."""

    def __init__(self, report):
        self.by_name = {entry["run_name"]: entry for entry in report["benchmarks"]
                        if entry.get("aggregate_name") == "median"}

    def __getitem__(self, name):
        return self.by_name[name]

    def time_ms(self, name):
        entry = self[name]
        kind = "real_time" if name.endswith("/real_time") else "cpu_time"
        return entry[kind] * {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[entry["time_unit"]]

    def rate(self, name):
        return self[name]["bytes_per_second"]

    def arguments(self, family):
        """The first argument of each benchmark of a family, ascending."""
        return sorted(int(name.split("/")[1]) for name in self.by_name if name.startswith(family + "/"))


def gigabytes(rate):
    return f"{rate / 1e9:.1f} GB/s"


def index_rows(figures):
    yield "lookup of a 100k-token prompt among 10k segments", f"{figures.time_ms('BM_Match100k/100'):.2f} ms", "<= 2 ms"
    for size in figures.arguments("BM_Memory"):
        entry = figures.by_name[next(name for name in figures.by_name if name.startswith(f"BM_Memory/{size}/"))]
        yield (f"index memory per token beyond its id, segments of {size} tokens",
               f"{entry['bytes_per_token_beyond_ids']:.1f} bytes", "<= 16 bytes")


def cache_rows(figures):
    for saved, text, goal in ((0, "every header read", "<= 2 s"), (1, "with the saved index", "<= 0.5 s")):
        for cold, caches in ((1, "the system's caches empty"), (0, "the system's caches warm")):
            name = f"BM_OpenTenThousandFiles/saved_index:{saved}/cold:{cold}/real_time"
            if name in figures.by_name:  # only root can measure cold
                yield (f"opening a directory of 10k segment files (5M tokens), {text}, {caches}",
                       f"{figures.time_ms(name) / 1e3:.2f} s", goal)


def store_rows(figures):
    for size in figures.arguments("BM_Get"):
        get, plain = (figures.rate(f"{name}/{size}/real_time") for name in ("BM_Get", "BM_PlainReadAndChecksum"))
        yield f"reading a segment of {size} MiB, against reading and checksumming the file", \
            f"{get / plain:.2f} ({gigabytes(get)})", ">= 0.7"


def engine_rows(figures):
    bare = figures.rate("BM_BareSet/real_time")
    for size in figures.arguments("BM_Restore"):
        rate = figures.rate(f"BM_Restore/{size}/real_time")
        yield (f"restoring 8,192 tokens in segments of {size}, against bare `state_seq_set_data`",
               f"{rate / bare:.2f} ({gigabytes(rate)})", ">= 0.7")
    for size in figures.arguments("BM_Save"):
        name = f"BM_Save/{size}"
        time_ms = figures.time_ms(name)
        mebibytes = figures.rate(name) * time_ms / 1e3 / 2**20
        goal = ">= 4 GB/s" if mebibytes >= 1 else "<= 0.5 ms"
        yield (f"engine thread blocked to capture {size} tokens ({mebibytes:.1f} MiB)",
               f"{time_ms:.2f} ms ({gigabytes(figures.rate(name))})", goal)


def parts_part(directory):
    rows = []
    for room, rows_of in (("index", index_rows), ("store", store_rows), ("cache", cache_rows), ("engine_llama", engine_rows)):
        report = load(directory, room)
        if report is not None:
            rows += rows_of(Figures(report))
    return "## Parts\n\n" + table(["", "measured", "goal"], rows) if rows else ""


def main():
    directory = sys.argv[1]
    parts = (INTRODUCTION, machine_part(directory), workloads_part(directory), parity_part(directory), parts_part(directory))
    print("\n".join(part.strip("\n") + "\n" for part in parts if part), end="")


if __name__ == "__main__":
    main()
