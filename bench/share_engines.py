#!/usr/bin/env python3
"""Servers that share state through an engine: counts for each engine and class of memory, rates, and a fleet.

    share_engines.py KVKEEP [--quick] [--only counts,rates,decode,fleet] [--engines valkey,cluster,s3,dir]
                            [--arch llama,gemma3,qwen35,mamba2,deepseek4] [--json FILE]

docs/bench.md says what the figures mean. Every engine runs on this machine: a Valkey server, a cluster of three, the S3
double of the tests, a directory. Without a Valkey server the engines that need one are left out, and that is said.
"""

import argparse
import contextlib
import json
import mmap
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "testing" / "e2e")]

from kvkeep_process import DecodedPrefixes, ServerProcess, reply_text  # noqa: E402
from peer_costs import WORDS, Figures, Side  # noqa: E402
from s3_process import AWS, S3Process  # noqa: E402
from valkey_process import ValkeyCluster, ValkeyProcess, valkey_program  # noqa: E402
from write_report import MODELS  # noqa: E402

CHAT = "/v1/chat/completions"
ENGINES = ("valkey", "cluster", "s3", "dir")
MEASURES = ("counts", "rates", "decode", "fleet")
REPLY_TOKENS = 8
SERVE = ["-t", "1", "--restore", "always", "--no-prefill-ahead", "--no-kv-disk", "--metrics"]

LOADING_THREADS = ("share-reader", "share-helper", "share-engine")

KEY = "the key that these servers share, for figures only\n"

SETTLE_S = 2  # until all is published: asking whether it is would take processor time
LIMIT_S = 1800  # of a request: other programs may have the processors
LEAST_SENT_BYTES = 32 << 20  # over a plain socket: less shows how soon threads begin

# The fleet. Between two turns of a conversation some 16 others speak, of the 21 whose state a third of the room holds.
FLEET_SERVERS = 4
CONVERSATIONS = 64
TURNS = 4
AGENTS = 8  # system prompts
TURNS_APART = 4
SYSTEM_WORDS, OPENING_WORDS, TURN_WORDS = 300, 400, 100


@contextlib.contextmanager
def running_engine(kind, directory, memory="4gb"):
    """An engine that holds nothing yet; yields an object with the `url`."""
    path = tempfile.mkdtemp(prefix=f"{kind}-", dir=directory)
    if kind == "dir":
        yield argparse.Namespace(url=f"dir:{path}")
        return
    made = {"valkey": lambda: ValkeyProcess(path, memory=memory), "cluster": lambda: ValkeyCluster(path, memory=memory),
            "s3": lambda: S3Process(path)}[kind]()
    with made as engine:
        yield engine


def words(count, seed):
    return " ".join(random.Random(seed).choices(WORDS, k=count))


def user(text):
    return {"role": "user", "content": text}


class Setting:
    """The program, its models and a place for files."""

    def __init__(self, options, directory):
        self.program, self.directory, self.quick = options.kvkeep, directory, options.quick
        self.count_shim = str(pathlib.Path(self.program).with_name("count_shim.so"))
        self.size = "tiny" if options.quick else "small"

    def model(self):
        path = f"{self.directory}/{self.size}.gguf"
        if not os.path.exists(path):
            subprocess.run([self.program, "model", "make", "--size", self.size, path], check=True, stdout=subprocess.DEVNULL)
        return path

    def server(self, context, *flags):
        return ServerProcess([self.program, "serve", "-m", self.model(), "-c", str(context), *SERVE, *map(str, flags)],
                             count_shim=self.count_shim, environment=AWS)


def chat(server, messages, max_tokens, **fields):
    return server.post(CHAT, {"messages": messages, "temperature": 0, "max_tokens": max_tokens, **fields}, timeout_s=LIMIT_S)


def metric(server, name):
    return next(float(line.split()[1]) for line in server.get("/metrics").splitlines() if line.startswith(f"{name} "))


def wait_until_published(server, limit_s=60):
    """A reply is captured after it was sent, and published after that."""
    deadline = time.monotonic() + limit_s
    quiet_since, last = time.monotonic(), None
    while time.monotonic() - quiet_since < 0.5:
        now = [metric(server, f"kvkeep_share_{name}") for name in ("published_total", "waiting")]
        if now != last or now[1] > 0:
            quiet_since, last = time.monotonic(), now
        if time.monotonic() > deadline:
            raise RuntimeError(f"not published within {limit_s} s: {now}")
        time.sleep(0.05)


# ---- counts ----

def bench_counts(setting, engine, url, architecture):
    """The figures of kvkeep bench --share. It counts at the engines of both servers."""
    path = f"{setting.directory}/counts.json"
    pathlib.Path(path).unlink(missing_ok=True)
    ran = subprocess.run([setting.program, "bench", "--no-workloads", "--share", url, "--arch", architecture, "--size",
                          setting.size, *(["--quick"] if setting.quick else []), "--json", path],
                         env={**os.environ, **AWS}, capture_output=True, text=True, check=False)
    if not os.path.exists(path):
        raise RuntimeError(f"{engine}, {architecture}: {ran.stdout}{ran.stderr}")
    report = json.loads(pathlib.Path(path).read_text())
    for part in report["parts"]:
        if part["unit"] != "ms":
            print(f"{engine}, {architecture}: {part['name']}: {part['median']:g} {part['unit']}"
                  f"{' MISSED' if part['holds'] is False else ''}", flush=True)
    for problem in report["problems"]:
        print(f"{engine}, {architecture}: {problem}", flush=True)
    return {"engine": engine, "architecture": architecture, **{key: report[key] for key in
                                                               ("started", "other_work", "parts", "problems")}}


def measure_counts(setting, options):
    for kind in options.engines:
        with running_engine(kind, setting.directory) as engine:
            for architecture in options.arch:
                yield bench_counts(setting, kind, engine.url, architecture)


# ---- the rate of loading, next to a plain socket ----

def plain_socket(size, keeps):
    """Bytes per second of one TCP connection on loopback out of memory that is used again, and the seconds of processor
    time that the reader took for a GB: into new memory if it `keeps` what it reads, as a cache does, else into one buffer."""
    chunk = bytearray(256 << 10)
    size = max(size, LEAST_SENT_BYTES)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def send():
            with listener.accept()[0] as connection:
                for _ in range(0, size, len(chunk)):
                    connection.sendall(chunk)
        sender = threading.Thread(target=send)
        sender.start()
        with socket.create_connection(listener.getsockname()) as connection:
            into = memoryview(mmap.mmap(-1, size + len(chunk))) if keeps else bytearray(len(chunk))
            got, begin, used = 0, time.monotonic(), time.thread_time()
            while count := connection.recv_into(into[got:got + len(chunk)] if keeps else into):
                got += count
            seconds, used = time.monotonic() - begin, time.thread_time() - used
        sender.join()
    return got / seconds, used / got * 1e9


def loading_seconds(pid):
    """Processor seconds of each thread of a server that loads from the shared tier, by its number."""
    used = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() in LOADING_THREADS:
            used[task.name] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return used


def load_once(writer, reader, messages):
    """What one server's load of state that the other published took, by name with its unit; None if it prefilled."""
    chat(writer, messages, 1)
    wait_until_published(writer)
    before = [metric(reader, f"kvkeep_share_{name}_total") for name in ("loaded_bytes", "load_seconds")]
    used_before = loading_seconds(reader.process.pid)
    chat(reader, messages, 1)
    time.sleep(0.2)  # the time counts once the request has ended
    size, seconds = (metric(reader, f"kvkeep_share_{name}_total") - old
                     for name, old in zip(("loaded_bytes", "load_seconds"), before))
    if size == 0 or seconds == 0:
        return None  # it was cheaper to prefill, or the engine missed its deadline
    rate, socket_used = plain_socket(int(size), keeps=False)
    keeping_rate, keeping_used = plain_socket(int(size), keeps=True)
    used = [(after - used_before.get(thread, 0)) / size * 1e9 for thread, after in loading_seconds(reader.process.pid).items()]
    return {"loaded at once": ("MB", size / 1e6),
            "loading, all of verifying included": ("GB/s", size / seconds / 1e9),
            "the same / a plain socket": ("ratio", size / seconds / rate),
            "the same / a plain socket that keeps the bytes": ("ratio", size / seconds / keeping_rate),
            "processor time of all threads that load": ("s/GB", sum(used)),
            "processor time of the busiest of them": ("s/GB", max(used)),
            "a plain socket's processor time / the busiest's": ("ratio", socket_used / max(used)),
            "the same for one that keeps the bytes": ("ratio", keeping_used / max(used))}


def measure_rates(setting, options, figures):
    tokens = 512 if setting.quick else 2048
    key = pathlib.Path(setting.directory) / "share-key"
    key.touch(mode=0o600)  # a key that others can read is refused
    key.write_text(KEY)
    ways = [(kind, ()) for kind in options.engines]
    if "valkey" in options.engines:
        ways.append(("valkey", ("--share-key-file", str(key))))
    for kind, flags in ways:
        with running_engine(kind, setting.directory) as engine, \
                setting.server(2 * tokens, "--share", engine.url, "--share-mode", "write", *flags) as writer, \
                setting.server(2 * tokens, "--share", engine.url, "--share-mode", "read", *flags) as reader:
            loads = [load_once(writer, reader, [user(words(tokens, f"rate {number}"))])
                     for number in range(3 if setting.quick else 5)]
            loads = [load for load in loads if load]
            way = kind + (" with a share key" if flags else "")
            for name, (unit, _) in loads[0].items() if loads else ():
                figures.add(f"{way}: {name}", unit, [load[name][1] for load in loads])
            if not loads:
                figures.problems.append(f"{way}: nothing was loaded")


# ---- decoding while state is published ----

def decode_rate(server, prompts, reply_tokens):
    """Tokens per second of streams that run together, and the engine's processor time meanwhile in nanoseconds; their prompts
    were computed right before and are being published."""
    for messages in prompts:
        chat(server, messages, 1)
    arrivals = [[] for _ in prompts]

    def listen(number):
        body = {"messages": prompts[number], "max_tokens": reply_tokens, "temperature": 0, "stream": True, "ignore_eos": True}
        for _, event in server.stream(CHAT, body, timeout_s=LIMIT_S):
            if event != "[DONE]" and event["choices"] and event["choices"][0]["delta"].get("content"):
                arrivals[number].append(time.monotonic())
    side = Side("kvkeep", server)
    engine_ns = side.cpu_ns(outside=True) - side.cpu_ns()
    listeners = [threading.Thread(target=listen, args=(number,)) for number in range(len(prompts))]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join()
    engine_ns += side.cpu_ns() - side.cpu_ns(outside=True)
    begin, end = max(times[0] for times in arrivals), min(times[-1] for times in arrivals)
    if begin >= end:
        raise RuntimeError("the streams did not run at the same time")
    return sum(1 for times in arrivals for at in times if begin < at <= end) / (end - begin), engine_ns


def measure_decode(setting, options, figures):
    streams, tokens, reply_tokens = 4, 512 if setting.quick else 1024, 64 if setting.quick else 192
    kind = "valkey" if "valkey" in options.engines else options.engines[0]
    context = 2 * streams * (tokens + reply_tokens + 64)
    with running_engine(kind, setting.directory) as engine, \
            setting.server(context, "-np", streams, "--share", engine.url, "--share-mode", "write") as publishing, \
            setting.server(context, "-np", streams) as alone:
        rates = {publishing: [], alone: []}
        published, costs = [], []
        for pair in range(3 if setting.quick else 9):
            prompts = [[user(words(tokens, f"decode {pair} {stream}"))] for stream in range(streams)]
            before = metric(publishing, "kvkeep_share_published_bytes_total")
            outside = {}
            for server in (publishing, alone)[::1 if pair % 2 else -1]:
                side = Side("kvkeep", server)
                outside[server] = -side.cpu_ns(outside=True)
                rate, decode_ns = decode_rate(server, prompts, reply_tokens)
                rates[server].append(rate)
                time.sleep(SETTLE_S)
                outside[server] += side.cpu_ns(outside=True)
            wait_until_published(publishing)
            published.append((metric(publishing, "kvkeep_share_published_bytes_total") - before) / 1e6)
            costs.append((outside[publishing] - outside[alone]) / decode_ns)
    name = f"{streams} streams of {reply_tokens} tokens, {kind}"
    figures.add(f"{name}: publishing / without a shared tier", "ratio", [a / b for a, b in zip(rates[publishing], rates[alone])])
    figures.add(f"{name}: publishing", "tokens/s", rates[publishing])
    figures.add(f"{name}: without a shared tier", "tokens/s", rates[alone])
    figures.add(f"{name}: processor time of publishing / of decoding", "ratio", costs)
    figures.add(f"{name}: published meanwhile", "MB", published)


# ---- a fleet ----

def fleet_schedule():
    """The conversations' turns in order: each conversation begins after the one before, and speaks again after a while."""
    at = random.Random(64)
    turns = [(number + TURNS_APART * (turn + at.random()), number, turn)
             for number in range(CONVERSATIONS) for turn in range(TURNS)]
    order = {}
    for _, number, _ in sorted(turns):
        order.setdefault(number, 0)
        yield number, order[number]
        order[number] += 1


class Fleet:
    """Servers that take a conversation's turns by turns, and the prefixes that any of them decoded."""

    def __init__(self, servers):
        self.servers, self.decoded = servers, DecodedPrefixes()
        self.talks = [[{"role": "system", "content": words(SYSTEM_WORDS, f"system {number % AGENTS}")}]
                      for number in range(CONVERSATIONS)]
        self.prefilled = self.never_computed = self.shared = self.troubles = 0

    def speak(self, number, turn):
        server, messages = self.servers[(number + turn) % len(self.servers)], self.talks[number]
        messages.append(user(words(TURN_WORDS if turn else OPENING_WORDS, f"turn {number} {turn}")))
        ids = server.prompt_ids(messages)
        before = server.decoded_ids()
        reply = chat(server, messages, REPLY_TOKENS, ignore_eos=True)
        self.prefilled += server.decoded_ids() - before - (reply["usage"]["completion_tokens"] - 1)
        self.never_computed += self.decoded.never_decoded(ids)
        self.shared += reply["timings"]["cache_tokens"]["shared"]
        self.decoded.add(ids + server.tokenize(reply_text(reply))[:-1])
        messages.append({"role": "assistant", "content": reply_text(reply)})


def play_fleet(setting, flags, count=FLEET_SERVERS):
    with contextlib.ExitStack() as stack:
        fleet = Fleet([stack.enter_context(setting.server(4096, *flags)) for _ in range(count)])
        for number, turn in fleet_schedule():
            fleet.speak(number, turn)
        return settled(fleet) if "--share" in flags else fleet


def settled(fleet):
    for server in fleet.servers:
        wait_until_published(server)
        for name in ("failures", "refused"):
            fleet.troubles += metric(server, f"kvkeep_share_{name}_total")
    return fleet


def measure_fleet(setting, options, figures):
    """One server that forgets nothing; then several with an engine that has room for all, whose size tells how much a third
    of it is, and with a third, where Valkey looks for what was used least lately among 10 keys, and among 5."""
    if "valkey" not in options.engines:
        return
    alone = play_fleet(setting, ("--cache-ram", 4096), count=1)
    name = f"{CONVERSATIONS} conversations of {TURNS} turns at one server with all memory"
    add_fleet(figures, name, alone)
    most = None
    for share, samples in ((1, 10), (3, 10), (3, 5)):
        with running_engine("valkey", setting.directory) as engine:
            empty = engine.number("memory", "used_memory")
            engine.ask("CONFIG", "SET", "maxmemory-samples", samples)
            if share > 1:
                engine.ask("CONFIG", "SET", "maxmemory", empty + most // share)
            fleet = play_fleet(setting, ("--cache-ram", 64, "--share", engine.url))
            most = most or engine.number("memory", "used_memory") - empty
            evicted = engine.number("stats", "evicted_keys")
        text = "room for all" if share == 1 else f"a third of the room, {samples} samples"
        name = f"{CONVERSATIONS} conversations of {TURNS} turns at {FLEET_SERVERS} servers, {text}"
        add_fleet(figures, name, fleet)
        for what, unit, count in (("from the shared tier", "tokens", fleet.shared),
                                  ("calls that failed, offers that were refused", "count", fleet.troubles), ("evicted", "keys", evicted)):
            figures.add(f"{name}: {what}", unit, [count])
    figures.add(f"{CONVERSATIONS} conversations: room for all", "MB", [most / 1e6])


def add_fleet(figures, name, fleet):
    figures.add(f"{name}: prefilled / never computed", "ratio", [fleet.prefilled / fleet.never_computed])
    figures.add(f"{name}: prefilled", "tokens", [fleet.prefilled])
    figures.add(f"{name}: never computed", "tokens", [fleet.never_computed])


# ---- all of it ----

def choice(known):
    def parse(text):
        chosen = text.split(",")
        if unknown := [word for word in chosen if word not in known]:
            raise argparse.ArgumentTypeError(f"there is no {unknown[0]}, only {', '.join(known)}")
        return chosen
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("kvkeep")
    parser.add_argument("--quick", action="store_true", help="tiny models and few rounds: counts are right, times mean nothing")
    parser.add_argument("--only", type=choice(MEASURES), default=list(MEASURES))
    parser.add_argument("--engines", type=choice(ENGINES), default=list(ENGINES))
    parser.add_argument("--arch", type=choice(MODELS), default=list(MODELS))
    parser.add_argument("--json", metavar="FILE")
    return parser.parse_args()


def measure(options, directory):
    setting, figures = Setting(options, directory), Figures()
    figures.problems = []
    if valkey_program() is None:
        options.engines = [kind for kind in options.engines if kind not in ("valkey", "cluster")]
        figures.problems.append("there is no valkey-server: neither it nor a cluster was measured")
    report = {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "size": setting.size, "counts": []}
    if "counts" in options.only:
        report["counts"] = list(measure_counts(setting, options))
    for name, measured in (("rates", measure_rates), ("decode", measure_decode), ("fleet", measure_fleet)):
        if name in options.only:
            measured(setting, options, figures)
    report.update(parts=figures.parts, problems=figures.problems, load=os.getloadavg())
    return report


def main():
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="kvkeep-share-engines-") as directory:
        report = measure(options, directory)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    problems = report["problems"] + [problem for counts in report["counts"] for problem in counts["problems"]]
    missed = [part["name"] for counts in report["counts"] for part in counts["parts"] if part["holds"] is False]
    for line in problems:
        print(f"PROBLEM: {line}")
    return 1 if problems or missed else 0


if __name__ == "__main__":
    sys.exit(main())
