#!/usr/bin/env python3
"""Makes docs/benchmarks.md from the figures that scripts/bench left in a directory.

    bench/write_report.py DIRECTORY > docs/benchmarks.md

DIRECTORY holds, for one architecture of each class of memory, ARCHITECTURE.json (kvkeep bench --json), text.json (check_text.py), compiler.txt, peer.json (peer_costs.py; missing without a peer), load.json
(kvkeep bench --load), share.json (share_engines.py), explain.json (explain_cost.py), and Google Benchmark's output of rooms (store.json,
cache.json, inspect.json, server_run.json) and of prompt_bench (prompt.json); screenshots-ARCHITECTURE.json of models that see.
"""

import json
import pathlib
import re
import sys

INTRODUCTION = """# Benchmarks

Tables without a date are of one run of `make bench` (`scripts/bench`), which writes a report of this form; those with a date of
their own were measured since, with the command that they name. [bench.md](bench.md) says what is measured and how. kvkeep runs
with `--restore always`, a peer with its defaults and the same `-c`; all with small generated models.

Recorded sessions of agents: [agent-sessions.md](agent-sessions.md). On a GPU: [gpu.md](gpu.md).

Counts are exact and the same on every machine. Times were taken on a shared machine on which other programs ran: compare
those of one table with each other, not with other machines'.
"""


MODELS = {"llama": "full attention", "gemma3": "sliding window", "qwen35": "hybrid", "mamba2": "recurrent",
          "deepseek4": "opaque"}


SEEING = ("qwen3vl", "gemma3", "qwen35")


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
    read, saved = "every header read", "with the saved index"
    for files, kind, text, goal in ((10_000, 0, read, "<= 2 s"), (10_000, 1, saved, "<= 0.5 s"),
                                    (100_000, 0, read, ""), (100_000, 1, saved, "<= 3 s")):
        for cold, caches in ((1, "empty"), (0, "warm")):
            name = f"BM_OpenDirectory/files:{files}/saved_index:{kind}/cold:{cold}"
            if f"{name}/real_time" in figures.by_name:  # only root can empty the system's caches
                yield f"opening {files:,} files, {text}, the system's caches {caches}", f"{figures.time_s(name):.2f} s", goal


def tick_rows(figures):
    for family, text in (("BM_TickAlone", "no other server"), ("BM_TickWithNews", "another server stored a segment")):
        entry = figures.by_name[f"{family}/files:100000/manual_time"]
        yield f"what a server does each second, 100,000 files, {text} / longest wait of a request for it", \
            f"{entry['real_time']:.1f} ms / {entry['longest_wait_ms']:.1f} ms", ""


def reading_rows(figures):
    for size in figures.sizes("BM_Get"):
        get, plain = (figures.rate(f"{name}/{size}") for name in ("BM_Get", "BM_PlainReadAndChecksum"))
        yield f"reading a segment of {size} MiB / reading and checksumming the file", \
            f"{get / plain:.2f} ({get / 1e9:.1f} GB/s)", ">= 0.7"


def writing_rows(figures):
    for size in figures.sizes("BM_DurablePut"):
        put, plain = (figures.time_s(f"{name}/{size}") for name in ("BM_DurablePut", "BM_PlainWriteAndSync"))
        yield f"storing a segment of {size} MiB durably / writing and syncing the same bytes", \
            f"{put / plain:.2f} ({put * 1e3:.0f} ms)", "<= 1.3"


def verify_rows(figures):
    yield "`kvkeep cache verify`, 32 files of 32 MiB in page cache, one thread", \
        f"{figures.rate('BM_Verify/1') / 1e9:.1f} GB/s", ">= 1 GB/s"


def prompt_median(report, name="BM_Prompt"):
    return next(entry for entry in report["benchmarks"]
                if entry.get("aggregate_name") == "median" and entry["run_name"].startswith(name))


def prompt_rows(report):
    median = prompt_median(report)
    for counter, what, goal in (("new / tokenize", "new", "<= 1.3"), ("extended / tokenize", "all but its last message known", "<= 0.3")):
        yield f"a conversation of {median['tokens'] / 1000:.0f}k tokens to ids, {what} / llama_tokenize of its text", \
            f"{median[counter]:.2f}", goal


def picture_rows(reports, prompts):
    """Ratios and encoder calls of each model, then times."""
    for name, report in reports.items():
        for run in report["runs"]:
            calls = next((part for part in report["parts"] if part["name"] == f"{run['workload']} on {run['server']}: encoder calls / pictures never seen"), None)
            bound = f"<= {run['bound']}" if run.get("bound") else ""
            yield f"{name}, {plain(run['server'])}: prefilled / never computed", ratio_of(run), bound
            if calls:
                yield f"{name}, {plain(run['server'])}: encoder calls / pictures never seen", number(calls), calls["goal"]
        for part in report["parts"]:
            if part["name"].startswith("TTFT"):
                yield f"{name}: {plain(part['name'])}", number(part), part["goal"]
    extra_ms = prompt_median(prompts, "BM_Pictures")["pictures ms"]
    yield "processor time to hash and look up 20 pictures of 1 MB, beside JSON and base64", \
        f"**{extra_ms:.1f} ms**" if extra_ms > 15 else f"{extra_ms:.1f} ms", "<= 15 ms"


def pictures_section(reports, prompts):
    return f"""## Pictures

The workload `screenshots` with models that see: {', '.join(reports)} ([how it is measured](bench.md#pictures)). Started:
{next(iter(reports.values()))['started']}.

{table(["", "measured", "goal"], picture_rows(reports, prompts))}
"""


def table(header, rows):
    return "\n".join([f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1),
                      *(f"| {' | '.join(row)} |" for row in rows)])


def plain(text):
    """Names and flags for a table or list: characters with a meaning in Markdown are escaped."""
    return re.sub(r"([\\`*\[\]|~$]|<(?=[\w/!?]))", r"\\\1", text)


def measured(value):
    """About four digits, for figures of any size."""
    size = abs(value)
    return f"{value:.3g}" if 0 < size < 0.01 else f"{value:.{3 if size < 10 else 2 if size < 100 else 1 if size < 1000 else 0}f}"


def name_of(run):
    return plain(f"{run['server']} ({run['variant']})" if run["variant"] else run["server"])


def failures_of(run):
    return sum(1 for request in run["requests"] if request["error"] or not 200 <= request["status"] <= 299)


def setting(report, compiler):
    machine = report["machine"]
    yield f"- Started: {report['started']}"
    yield f"- Machine: {machine['logical_cpus']} x {machine['processor']}, {machine['memory_bytes'] / 2**30:.0f} GiB of memory, " \
          f"{machine['system']}"
    if report.get("other_work"):
        yield f"- Meanwhile: {plain(report['other_work'])}"
    yield f"- kvkeep: {report['kvkeep_version']}"
    yield f"- libllama: {report['libllama_version']}"
    yield f"- Model: {report['model']}"
    for server in report["servers"]:
        yield f"- Server {plain(server['name'])}: {plain(server['version'])}, flags: {plain(server['flags'])}"
    yield f"- Compiler: {compiler}"


def by_workload(report):
    """Runs of one workload together, in the order played."""
    groups = {}
    for run in report["runs"]:
        groups.setdefault(run["title"], []).append(run)
    return groups


def ratios(report):
    servers = list(dict.fromkeys(name_of(run) for run in report["runs"]))
    rows = []
    for title, runs in by_workload(report).items():
        cells = {name_of(run): ratio_of(run) + (f" ({failures_of(run)} failed)" if failures_of(run) else "") for run in runs}
        rows.append([plain(title), *(cells.get(server, "") for server in servers)])
    return table(["workload", *servers], rows)


def token_cells(run):
    def cached_from(tier):
        return sum(request["cached_tokens"] for request in run["requests"]
                   if request["cache_source"].split("-")[0] == tier)

    totals, ttft, cpu_s = run["totals"], run["totals"]["ttft_ms"], run["server_cpu_seconds"]
    answered = failures_of(run) < len(run["requests"])
    counts = [totals["prompt_tokens"], totals["ideal_tokens"], totals["prefilled_tokens"],
              sum(request["cached_tokens"] for request in run["requests"]), *map(cached_from, ("memory", "ram", "disk"))]
    counted_by = "reply, in all the engine" if run["sum_was_counted"] else run["counted_by"]
    return [str(len(run["requests"])), *(str(count) if answered else "-" for count in counts),
            f"{ttft['median']:.1f} ({ttft['low_quartile']:.1f}-{ttft['high_quartile']:.1f})" if ttft else "-",
            "-" if cpu_s is None else measured(cpu_s), counted_by]


def tokens(report):
    rows = [[plain(title), name_of(run), *token_cells(run)] for title, runs in by_workload(report).items() for run in runs]
    return table(["workload", "server", "requests", "in prompts", "never computed", "prefilled", "cached", "from memory",
                  "from RAM", "from disk", "wall TTFT", "CPU", "counted by"], rows)


def parts(report):
    rows = []
    for part in report["parts"]:
        unit = "" if part["unit"] == "ratio" else f" {plain(part['unit'])}"
        verdict = " (**missed**)" if part["holds"] is False else " (not measurable here)" if part.get("unmeasurable") else ""
        rows.append([plain(part["name"]), measured(part["median"]) + unit,
                     f"{measured(part['low_quartile'])} to {measured(part['high_quartile'])}", str(part["samples"]),
                     part["goal"] + verdict])
    return table(["", "median", "quartiles", "samples", "goal"], rows)


def problems(report):
    """Problems of runs and of the whole; ratios and goals are bold in their tables."""
    found = [f"- {plain(run['workload'])} on {name_of(run)}: {plain(problem)}" for run in report["runs"] for problem in run["problems"]]
    found += [f"- {plain(problem)}" for problem in report["problems"]]
    return "\n## Problems\n\n" + "\n".join(found) + "\n" if found else ""


def ratio_of(run):
    ratio = run["totals"]["ratio"]
    if ratio is None:
        return "-"
    bound = run.get("bound")
    return f"**{ratio:.3f}**" if bound is not None and ratio > bound else f"{ratio:.3f}"


def ratios_by_class(reports):
    """One row for each workload, one column for each model and server, without variants."""
    servers = {name: list(dict.fromkeys(run["server"] for run in report["runs"] if not run["variant"]))
               for name, report in reports.items()}
    columns = [(name, server) for name, of_model in servers.items() for server in of_model]
    runs = {(name, run["server"], run["title"]): run
            for name, report in reports.items() for run in report["runs"] if not run["variant"]}
    titles = dict.fromkeys(run["title"] for report in reports.values() for run in report["runs"])
    rows = [[title, *(ratio_of(runs[name, server, title]) if (name, server, title) in runs else "-"
                      for name, server in columns)] for title in titles]
    return table(["workload", *(f"{name}, {server}" for name, server in columns)], rows)


def number(part):
    unit = "" if part["unit"] == "ratio" else f" {part['unit']}"
    median = part["median"]
    value = f"{median:.3f}" if median < 1 else f"{median:.2f}" if median < 10 else f"{median:.1f}" if median < 100 \
        else f"{median:.0f}"
    missed = part.get("holds") is False
    return f"**{value}{unit}**" if missed else f"{value}{unit}"


def parts_by_class(reports):
    """Parts that every model has, side by side; then those of one model."""
    by_name = {name: {part["name"]: part for part in report["parts"]} for name, report in reports.items()}
    shared = [part for part in next(iter(by_name.values())) if all(part in parts for parts in by_name.values())]
    # The index is the same for all.
    shared = [part for part in shared if "index memory" not in part and "lookup of" not in part]
    goals = {part: ", ".join(dict.fromkeys(parts[part].get("goal") or "" for parts in by_name.values())) for part in shared}
    side_by_side = table(["", *reports, "goal"],
                         [[part, *(number(parts[part]) for parts in by_name.values()), goals[part]] for part in shared])
    own = [[f"{name}: {part}", number(figures), figures.get("goal") or ""]
           for name, parts in by_name.items() if name != "llama"
           for part, figures in parts.items() if not all(part in other for other in by_name.values())]
    return side_by_side, table(["", "measured", "goal"], own)


def peer_costs(parts):
    """One row per comparison; a figure of kvkeep only is a row of its own."""
    medians = {part["name"]: f"{measured(part['median'])} {part['unit']}" for part in parts}
    rows = []
    for part in parts:
        name, _, side = part["name"].rpartition(": ")
        if not part["goal"]:
            continue
        verdict = " (**missed**)" if part["holds"] is False else " (not measurable)" if part["unmeasurable"] else ""
        spread = f"{measured(part['median'])} ({measured(part['low_quartile'])} to {measured(part['high_quartile'])})"
        is_ratio = part["unit"] == "ratio"
        rows.append([plain(name), medians[f"{name}: kvkeep"] if is_ratio else f"{spread} {part['unit']}",
                     medians.get(f"{name}: llama-server", "") if is_ratio else "", spread if is_ratio else "",
                     part["goal"].replace("1.05263", "1.053") + verdict])
    return table(["processor time", "kvkeep", "llama-server", "ratio (quartiles)", "goal"], rows)


def peer_section(parts):
    return f"""## Requests and held replies next to llama-server

Processor time; both servers run at once and are asked in turn ([how it is measured](bench.md#next-to-a-peer-processor-time)):
`bench/peer_costs.py build/kvkeep llama-server`. Quartiles of {parts[0]['samples']} pairs.

{peer_costs(parts)}
"""


def with_spread(part):
    value = measured(part["median"])
    if part["samples"] > 1:
        value += f" ({measured(part['low_quartile'])} to {measured(part['high_quartile'])})"
    return f"**{value}**" if part["holds"] is False else value


def load_row(name, row):
    ratio = row.get("ratio")
    goals = [row["kvkeep"]["goal"], f"{ratio['goal']} of the best peer" if ratio and ratio["goal"] else ""]
    sides = [with_spread(row[side]) if side in row else ""
             for side in ("kvkeep", "llama-server", "llama-server -kvu", "ratio")]
    other = next((flag for flag in ("-kvu", "-no-kvu") if f"kvkeep {flag}" in row), None)
    sides.insert(1, f"{with_spread(row[f'kvkeep {other}'])} {other}" if other else "")
    return [f"{plain(name)} ({row['kvkeep']['unit']})", *sides, ", ".join(goal for goal in goals if goal)]


def load_section(report):
    """A row per figure: kvkeep's, the peer's in each of its layouts, and the ratio of kvkeep's and the best peer's."""
    rows = {}
    for part in report["parts"]:
        name, _, side = part["name"].rpartition(": ")
        rows.setdefault(name, {})["ratio" if " / " in side else side] = part
    runs = max(part["samples"] for part in report["parts"])
    return f"""## Many at once

Started: {report['started']}. The small model, one thread, {"one run" if runs == 1 else f"{runs} runs"} of each
server ([what each load is](bench.md#many-at-once)). Wall time; a figure that misses its goal is bold.

{table(["", "kvkeep", "kvkeep, other layout", "llama-server", "llama-server -kvu", "kvkeep / best peer", "goal"],
       [load_row(name, row) for name, row in rows.items()])}
"""


def count_cell(counts, what):
    """The median ratio, and the counts that it is made of."""
    parts = {kind: next((part for part in counts["parts"] if part["name"].endswith(f": {kind}") and what in part["name"]), None)
             for kind in ("prefilled / never computed", "prefilled", "never computed")}
    ratio, prefilled, fresh = parts.values()
    if ratio is None:
        return "-"
    text = f"{ratio['median']:.3f} ({prefilled['median']:.0f} / {fresh['median']:.0f})"
    return f"**{text}**" if ratio["holds"] is False else text


def share_section(report):
    """Counts by engine and class; then figures of single engines."""
    engines = list(dict.fromkeys(counts["engine"] for counts in report["counts"]))
    classes = list(dict.fromkeys(counts["architecture"] for counts in report["counts"]))
    found = {(counts["engine"], counts["architecture"]): counts for counts in report["counts"]}

    def by_class(what):
        return table(["", *(f"{name} ({MODELS[name]})" for name in classes)],
                     [[engine, *(count_cell(found[engine, name], what) if (engine, name) in found else "-" for name in classes)]
                      for engine in engines])
    rows = [[plain(part["name"]), f"{measured(part['median'])} {part['unit']}".removesuffix(" ratio"),
             f"{measured(part['low_quartile'])} to {measured(part['high_quartile'])}" if part["samples"] > 1 else "",
             str(part["samples"])] for part in report["parts"]]
    figures = f"""Rates, and a fleet. Calls fail where an engine misses its deadline, as it does on a busy machine; each costs a prefill.

{table(["", "median", "quartiles", "samples"], rows)}
""" if rows else ""
    problems = "".join(f"\n- {plain(problem)}" for problem in report["problems"])
    return f"""## Sharing between servers

Started: {report['started']}. The {report['size']} models, one thread each; every engine on the same machine: a Valkey server, a
cluster of three, the S3 double of the tests, a directory ([what is measured](bench.md#sharing)): `scripts/bench share`.
Other programs kept {report['load'][2]:.0f} threads at work (the load of the last 15 minutes). A figure that misses its goal is bold.

A turn after 4,096 tokens that the other server computed, prefilled / never computed (tokens, medians of three):

{by_class("that the other server computed")}

Eight turns that wander between two servers, likewise:

{by_class("turns that wander")}

{figures}{problems}"""


def explain_rows(figures):
    places = {"BM_Explain/8/1": "one change at token 8", "BM_Explain/8/100": "100 changes from token 8 on",
              "BM_Explain/50000/1": "one change at token 50,000", "BM_Explain/99900/1": "one change at token 99,900",
              "BM_ExplainOtherText": "no token is the same",
              "BM_ExplainLoss/losses:0/newest_shares_most:0": "all state of which was lost 21 times",
              "BM_ExplainLoss/losses:1/newest_shares_most:0": "the same, and that of 20 prompts with other beginnings",
              "BM_ExplainLoss/losses:2/newest_shares_most:0": "with 16,000 lost prompts that begin like it"}
    for name, what in places.items():
        entry = figures.by_name[name]
        yield f"explaining a prompt of 100,000 tokens, {what}", f"{entry['cpu_time'] / 1e3:.3f} ms", "<= 0.5 ms"


def with_interval(part):
    value = f"{part['median']:.4f} ({part['median_low']:.4f} to {part['median_high']:.4f})"
    return f"**{value}**" if part["holds"] is False else f"{value}, not measurable" if part["unmeasurable"] else value


def explain_costs(report):
    """A row per figure: the ratio with what explanations add, the measured one, that of two equal servers, and both values."""
    by_name = {}
    for part in report["parts"]:
        name, _, side = part["name"].rpartition(": ")
        by_name.setdefault(name, {})[side] = part
    ratios = ["without + added / without", "with / without", "without, again / without"]
    return [[plain(name), *(with_interval(sides[ratio]) for ratio in ratios), f"{measured(sides['added']['median'])} ms",
             f"{measured(sides['without']['median'])} ms", sides[ratios[0]]["goal"]] for name, sides in by_name.items()]


def explain_section(report, figures):
    return f"""## Explanations

Ended: {report['ended']}. The {report['size']} model; replies of {report['reply_tokens']} tokens with explanations, the trace and metrics, and with none
of them ([how it is measured](bench.md#the-price-of-explanations)). Medians of {report['parts'][0]['samples']} rounds, four times as many of the tiny model, and where the
median lies with a probability of 95 %. Other programs kept {report['load'][1]:.0f} threads at work (the load of the last 5
minutes).

{table(["", "1 + added / without", "with / without", "without / without", "added", "without", "goal"], explain_costs(report))}

Processor time of one explanation (`server_run_bench --benchmark_filter=Explain`):

{table(["", "measured", "goal"], explain_rows(figures))}
"""


def load(directory, name):
    return json.loads((directory / name).read_text())


def main():
    directory = pathlib.Path(sys.argv[1])
    text = load(directory, "text.json")
    cache = Figures(load(directory, "cache.json"))
    store = Figures(load(directory, "store.json"))
    rows = [*opening_rows(cache), *tick_rows(cache), *writing_rows(store), *reading_rows(store),
            *verify_rows(Figures(load(directory, "inspect.json")))]
    reports = {name: load(directory, f"{name}.json") for name in MODELS}
    side_by_side, own = parts_by_class(reports)
    peer = peer_section(load(directory, "peer.json")) + "\n" if (directory / "peer.json").exists() else ""
    many = load_section(load(directory, "load.json")) + "\n" if (directory / "load.json").exists() else ""
    sharing = share_section(load(directory, "share.json")) + "\n" if (directory / "share.json").exists() else ""
    explanations = explain_section(load(directory, "explain.json"), Figures(load(directory, "server_run.json"))) + "\n" \
        if (directory / "explain.json").exists() else ""
    pictured = {name: load(directory, f"screenshots-{name}.json") for name in SEEING
                if (directory / f"screenshots-{name}.json").exists()}
    pictures = pictures_section(pictured, load(directory, "prompt.json")) + "\n" if pictured else ""
    llama, compiler = reports["llama"], (directory / "compiler.txt").read_text().strip()
    print(f"""{INTRODUCTION}
{chr(10).join(setting(llama, compiler))}

## Prefilled tokens / tokens never computed before

1.00 is perfect. A ratio above its bound is bold.

{ratios(llama)}

The same runs in tokens. "From memory", "from RAM" and "from disk" are the tiers of the cached tokens, as far as the server
reports them; TTFT is the median (and quartiles) in milliseconds of wall time; CPU is the user and system time of the
server's process in seconds; "counted by" names the source of the counts: the engine, or the server's own replies.

{tokens(llama)}

## Parts

{parts(llama)}
{problems(llama)}
## Each class of memory

{", ".join(f"{name}: {kind}" for name, kind in MODELS.items())}. Prefilled tokens / tokens never computed before; a ratio above its bound is bold.

{ratios_by_class(reports)}

The time that the cache saves ([how it is measured](bench.md#speed)); a figure that misses its goal is bold.

{side_by_side}

Capturing and restoring, and the bytes written:

{own}

## From messages to ids

Rendering the template, tokenizing its text and putting {prompt_median(load(directory, "prompt.json"))["turns"]:.0f} sampled turns in their places, compared with only tokenizing the text, measured in turn.

{table(["", "measured", "goal"], prompt_rows(load(directory, "prompt.json")))}

{pictures}{peer}{many}{sharing}{explanations}## Disk

Directories of 10,000 and 100,000 segment files (5M and 51M tokens), opened until prompts can be matched; and single files.

{table(["", "measured", "goal"], rows)}

## Text

{sum(text.values())} greedy replies of these workloads (q8_0 KV, tiny model) were computed again without a cache: {text['same']} are the
same to the letter, {text['noise']} chose a token that is as likely up to the noise of the order in which rows lie in memory,
{text['different']} differ.""")


if __name__ == "__main__":
    main()
