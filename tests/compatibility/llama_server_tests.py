#!/usr/bin/env python3
"""Runs llama.cpp's own server tests on llama-server and on kvkeep, and says which pass on which (docs/compatibility.md).

    tests/compatibility/llama_server_tests.py LLAMA_CPP/tools/server/tests --kvkeep build/kvkeep [--tsv FILE] [UNIT...]

Nothing is downloaded: the first argument is a checkout of llama.cpp, and generated models stand in for the models of the
tests. Of what a trained model would say, any text is accepted from both servers. A test that fails on llama-server says
nothing about kvkeep and does not count. Needs pytest and requests.
"""

import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from stand_in_models import make_models

HERE = os.path.dirname(os.path.abspath(__file__))
# Not about the server's API: pictures and sound, several models, the tools of its web page, conversations resumed there.
LEFT_OUT = ("vision_api", "router", "mcp_servers", "tools_builtin", "stream", "systemone")
# What holds only for the tests' own models: counts of tokens, BOS, how long a long text must be, and how many tokens are
# likely.
OWN_VOCABULARY = (
    (r"== n_prompt\b", ">= 1"), (r"== n_token_output\b", ">= n_token_output"), (r"== n_tokens\b", ">= 1"),
    (r"== 2 \* 9\b", ">= 2"), (r"== 109\b", ">= 1"), (r"== 5 # 3 text tokens.*", ">= 3"),
    (r'(aborum\.\n"""\.strip\(\))', r"\1 * 4"), (r'("This is a test") \* 10\b', r"\1 * 30"),
    (r'len\(tok\["top_probs"\]\) == 10', 'len(tok["top_probs"]) >= 2'), (r'"<s> ', '"<|bos|>'), (r"\bbosId = 1\b", "bosId = {bos}"))
UNIT_LIMIT_S = 900
FIRST_PORT = 18080


def copy_of(tests, folder, bos):
    """The tests below a folder of their own: they write next to themselves, and find templates three levels up."""
    copy = os.path.join(folder, "tools", "server", "tests")
    shutil.copytree(tests, copy, ignore=shutil.ignore_patterns("tmp", "__pycache__"))
    os.symlink(os.path.join(tests, "..", "..", "..", "models"), os.path.join(folder, "models"))
    for name in os.listdir(os.path.join(copy, "unit")):
        path = os.path.join(copy, "unit", name)
        if not name.endswith(".py"):
            continue
        with open(path) as file:
            source = file.read()
        for pattern, replacement in OWN_VOCABULARY:
            source = re.sub(pattern, replacement.replace("{bos}", str(bos)), source)
        with open(path, "w") as file:
            file.write(source)
    return copy


def outcomes(report):
    """Per test its outcome, and the first line of what went wrong."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname').split('.')[-1]}::{case.get('name')}"
        wrong = next((part for part in case if part.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        outcome = "pass" if wrong is None and not skipped else "skip" if skipped else "fail"
        found[name] = (outcome, "" if wrong is None else (wrong.get("message") or "").split("\n")[0][:200])
    return found


def run_unit(copy, unit, server, models, port):
    report = os.path.join(models, f"{unit}-{port}.xml")
    environment = dict(os.environ, LLAMA_SERVER_BIN_PATH=os.path.join(HERE, "stand_in_server.py"), PORT=str(port),
                       KVKEEP_COMPATIBILITY_SERVER=server, KVKEEP_COMPATIBILITY_MODELS=models,
                       PYTHONPATH=os.pathsep.join((HERE, copy)), PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "adaptations", "-p", "no:cacheprovider", f"--junitxml={report}",
               "-m", "not slow", f"unit/test_{unit}.py"]
    with open(report + ".log", "w") as log:
        try:
            subprocess.run(command, cwd=copy, env=environment, stdout=log, stderr=log, timeout=UNIT_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            print(f"test_{unit} took more than {UNIT_LIMIT_S} s", file=sys.stderr)
    if os.path.exists(report):
        return outcomes(report)
    with open(report + ".log") as log:
        print(f"test_{unit} has no results:", log.read()[-2000:], file=sys.stderr)
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", help="tools/server/tests of a checkout of llama.cpp")
    parser.add_argument("units", nargs="*", metavar="UNIT", help="such as completion, for unit/test_completion.py")
    parser.add_argument("--kvkeep", default="build/kvkeep")
    parser.add_argument("--llama-server", default="llama-server")
    parser.add_argument("--tsv", help="also write a line per test to this file")
    parser.add_argument("--known", help="take llama-server's outcomes from this earlier --tsv")
    arguments = parser.parse_intermixed_args()
    servers = {"llama-server": shutil.which(arguments.llama_server), "kvkeep": os.path.abspath(arguments.kvkeep)}
    tests = os.path.abspath(arguments.tests)
    units = arguments.units or [name[len("test_"):-len(".py")] for name in sorted(os.listdir(os.path.join(tests, "unit")))
                                if name.startswith("test_")]
    results = {name: {} for name in servers}
    with tempfile.TemporaryDirectory(prefix="kvkeep-compatibility-") as folder:
        models = os.path.join(folder, "stand-ins")
        os.mkdir(models)
        bos = make_models(servers["kvkeep"], models)
        copy = copy_of(tests, folder, bos)
        for unit in (unit for unit in units if unit not in LEFT_OUT):
            for port, (name, server) in zip((FIRST_PORT, FIRST_PORT + 500), servers.items()):
                if name == "kvkeep" or not arguments.known:
                    results[name].update(run_unit(copy, unit, server, models, port))
    if arguments.known:
        with open(arguments.known) as earlier:
            rows = [line.rstrip("\n").split("\t")[:2] for line in earlier][1:]
        ran = {test.split("::")[0] for test in results["kvkeep"]}
        results["llama-server"] = {test: (outcome, "") for test, outcome in rows if test.split("::")[0] in ran}
    show(results, arguments.tsv)


def show(results, tsv):
    theirs, ours = results["llama-server"], results["kvkeep"]
    nothing = ("none", "no result")
    lines = [(test, theirs.get(test, nothing)[0], *ours.get(test, nothing)) for test in sorted({*theirs, *ours})]
    count = collections.Counter((test.split("::")[0], first, second) for test, first, second, _ in lines)
    print(f"{'unit':30} llama-server  kvkeep too")
    for unit in sorted({unit for unit, _, _ in count}):
        both = count[unit, "pass", "pass"]
        print(f"{unit:30} {both + sum(count[unit, 'pass', other] for other in ('fail', 'skip', 'none')):12}  {both:10}")
    counted = [line for line in lines if line[1] == "pass"]
    for test, _, outcome, why in counted:
        if outcome != "pass":
            print(f"{outcome}: {test}: {why}")
    print(f"{len(counted)} tests pass on llama-server; {sum(line[2] == 'pass' for line in counted)} of them on kvkeep")
    if tsv:
        with open(tsv, "w") as file:
            file.write("test\tllama-server\tkvkeep\tfirst line of the failure\n")
            file.writelines("\t".join(line).replace("\n", " ") + "\n" for line in lines)


if __name__ == "__main__":
    main()
