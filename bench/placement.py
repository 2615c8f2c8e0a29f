#!/usr/bin/env python3
"""Where points are captured, measured: ratio against points per request, for the default cuts and others.

    bench/placement.py --kvkeep build/kvkeep [--arch mamba2] [--session a.jsonl[.xz][,b.jsonl[.xz]...] ...] > table.md

Plays the workloads (tiny model) and recorded sessions (joined by commas: one after the other on one server) once for each
set of flags and prints a Markdown table: prefilled tokens / tokens never computed before, and in brackets points on disk
per request; of sessions also windows, and the bytes of both. After a kill, files that were being written are written
again, so workloads with kills have only a ratio. Counts are the same on each machine.
"""

import argparse
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile

VARIANTS = {
    "default": [],
    **{f"`--kv-cache-continued-interval-tokens {n}`": ["--kv-cache-continued-interval-tokens", str(n)]
       for n in (512, 1024, 2048, 4096, 10000, 0)},
    **{f"`--checkpoint-min-step {n}`": ["--checkpoint-min-step", str(n)] for n in (1, 256, 1024, 8192)},
    "`--no-kv-cache-anchor-user`": ["--no-kv-cache-anchor-user"],
    "`--kv-cache-cold-max-tokens 0`": ["--kv-cache-cold-max-tokens", "0"],
    **{f"`--ctx-checkpoints {n}`": ["--ctx-checkpoints", str(n)] for n in (1, 2, 4, 8)},
    "`--ctx-checkpoints 32 --checkpoint-min-step 8192`": ["--ctx-checkpoints", "32", "--checkpoint-min-step", "8192"],
}
WORKLOADS = ["1-growing", "2-growing-kill", "3-sessions", "4-branch", "5-requests", "6-side-requests", "7-over-context",
             "8-kills"]
SESSION_CONTEXT = "65536"
SESSION_REPLY_TOKENS = "24"


class Placement:
    def __init__(self, options, directory):
        self.options = options
        self.directory = pathlib.Path(directory)
        self.model = self.directory / "model.gguf"
        self.run("model", "make", "--arch", options.arch, "--size", "tiny", self.model)

    def run(self, *arguments):
        done = subprocess.run([self.options.kvkeep, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True)
        if done.returncode not in (0, 1):  # 1: a bound that is exceeded is a figure here
            sys.exit(done.stdout)

    def workload(self, name, flags):
        """Ratio, points per request and their bytes (None if not measured)."""
        report = self.directory / "report.json"
        self.run("bench", "--quick", "--arch", self.options.arch, name, "--json", report,
                 *(f"--flag={flag}" for flag in flags))
        read = json.loads(report.read_text())
        points = [part["median"] for part in read["parts"] if part["unit"] == "points"]
        return read["runs"][0]["totals"]["ratio"], points[0] if points else None, None

    def session(self, paths, flags):
        plain = self.directory / "session.jsonl"
        plain.write_bytes(b"".join(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
                                   for path in map(pathlib.Path, paths.split(","))))
        report = self.directory / "report.json"
        with tempfile.TemporaryDirectory(dir=self.directory) as tier:
            server = f"{self.options.kvkeep} serve -m {self.model} -c {SESSION_CONTEXT} -t 1 --kv-disk-dir {tier} " + \
                "--restore always " + " ".join(flags)
            self.run("replay", "--server", server, "--fast", "--reply-tokens", SESSION_REPLY_TOKENS, "--json", report, plain)
            points = [path.stat().st_size for kind in ("point", "whole", "window")
                      for path in pathlib.Path(tier).rglob(f"*.{kind}.kvs")]
        runs = json.loads(report.read_text())["runs"]
        prefilled, ideal = (sum(run["totals"][f"{kind}_tokens"] for run in runs) for kind in ("prefilled", "ideal"))
        requests = sum(len(run["requests"]) for run in runs)
        return prefilled / ideal, len(points) / requests, sum(points) / requests


def cell(figures):
    ratio, points, size = figures
    text = "-" if ratio is None else f"{ratio:.3f}"
    if points is None:
        return text
    return f"{text} ({points:.2f})" if size is None else f"{text} ({points:.2f}, {size / 1e6:.2f} MB)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvkeep", required=True)
    parser.add_argument("--arch", default="mamba2")
    parser.add_argument("--session", action="append", default=[])
    parser.add_argument("--only", action="append", help="sets of flags by their names in the table; all otherwise")
    options = parser.parse_args()
    columns = WORKLOADS + [f"session {i + 1}" for i in range(len(options.session))]
    print("| flags | " + " | ".join(columns) + " |\n|---|" + "---:|" * len(columns))
    with tempfile.TemporaryDirectory(prefix="kvkeep-placement-") as directory:
        placement = Placement(options, directory)
        for name, flags in VARIANTS.items():
            if options.only and name.strip("`") not in options.only:
                continue
            figures = [placement.workload(workload, flags) for workload in WORKLOADS]
            figures += [placement.session(path, flags) for path in options.session]
            print(f"| {name} | " + " | ".join(map(cell, figures)) + " |", flush=True)


if __name__ == "__main__":
    main()
