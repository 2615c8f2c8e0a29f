#!/usr/bin/env python3
"""Prints the versions behind a benchmark run as JSON: bench/versions.py BUILD_DIRECTORY [LLAMA_SERVER]."""

import json
import pathlib
import re
import subprocess
import sys


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return done.stdout


def first_line(text):
    return text.strip().splitlines()[0]


def cache_entry(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (pathlib.Path(build) / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found.group(1) if found else ""


def linked_llama(program):
    """The file behind the shared library, whose name has the version; none: linked statically."""
    found = re.search(r"libllama\S* => (\S+)", output("ldd", program))
    return pathlib.Path(found.group(1)).resolve().name if found else "linked statically"


def main():
    build, peer = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    program = f"{build}/kvkeep"
    compiler = first_line(output(cache_entry(build, "CMAKE_CXX_COMPILER"), "--version"))
    versions = {"kvkeep": first_line(output(program, "--version")).removeprefix("kvkeep "),
                "libllama": linked_llama(program),
                "Compiler": f"{compiler}, {cache_entry(build, 'CMAKE_BUILD_TYPE')}"}
    if peer:
        versions["llama-server"] = first_line(output(peer, "--version")).removeprefix("version: ")
    print(json.dumps(versions, indent=1))


if __name__ == "__main__":
    main()
