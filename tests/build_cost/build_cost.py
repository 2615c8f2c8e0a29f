#!/usr/bin/env python3
"""Holds the processor time that the program costs to compile below a limit, so that a first build stays a matter of minutes.

  build_cost.py build FOLDER JOBS               builds the program in a configured folder; if that is the folder's first
                                                build, its processor time is written to FOLDER/first_build.json
  build_cost.py check SOURCES FOLDER COMPILER   compares that time with limits.json; where the folder's first build was
                                                not recorded, the program is built again beside it, without ccache

Processor time is counted in compilations of reference.cc, as many at a time as there are processors: a slower or a busy
machine takes longer for both. Lower the limit when the build becomes cheaper.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
JOBS = os.cpu_count() or 2
OPTIONS = ['-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release', '-DKVKEEP_BUILD_TESTS=OFF', '-DKVKEEP_BUILD_BENCH=OFF']


def processor_seconds():
    times = os.times()
    return times.children_user + times.children_system


def record_of(folder):
    return os.path.join(folder, 'first_build.json')


def build(folder, jobs):
    """Builds the program; returns the processor seconds that took."""
    before = processor_seconds()
    done = subprocess.run(['cmake', '--build', folder, '--target', 'kvkeep', '-j', str(jobs)], check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return processor_seconds() - before


def build_and_record(folder, jobs):
    first = not any(pathlib.Path(folder, 'src').glob('**/*.o'))
    seconds = build(folder, jobs)
    if first:
        with open(record_of(folder), 'w', encoding='utf-8') as file:
            json.dump({'processor_seconds': round(seconds, 1)}, file)


def build_again(sources, folder, compiler):
    """The processor seconds of a build of the program in a new folder, which is removed afterwards."""
    fresh = os.path.join(folder, 'build_cost')
    shutil.rmtree(fresh, ignore_errors=True)
    os.environ['CCACHE_DISABLE'] = '1'
    subprocess.run(['cmake', '-S', sources, '-B', fresh, f'-DCMAKE_CXX_COMPILER={compiler}', *OPTIONS], check=True,
                   stdout=subprocess.DEVNULL)
    seconds = build(fresh, JOBS)
    shutil.rmtree(fresh)
    return seconds


def reference_seconds(compiler, folder):
    """The processor seconds of one compilation of reference.cc: the least of three rounds, each the mean of its jobs."""
    command = [compiler, '-std=c++23', '-O3', '-c', os.path.join(HERE, 'reference.cc'), '-o']
    rounds = []
    for _ in range(3):
        before = processor_seconds()
        running = [subprocess.Popen([*command, os.path.join(folder, f'reference{job}.o')]) for job in range(JOBS)]
        if any([process.wait() for process in running]):
            sys.exit('reference.cc does not compile')
        rounds.append((processor_seconds() - before) / JOBS)
    return min(rounds)


def check(sources, folder, compiler):
    try:
        with open(record_of(folder), encoding='utf-8') as file:
            seconds = json.load(file)['processor_seconds']
    except FileNotFoundError:
        seconds = build_again(sources, folder, compiler)
    reference = reference_seconds(compiler, folder)
    cost = seconds / reference
    with open(os.path.join(HERE, 'limits.json'), encoding='utf-8') as file:
        most = json.load(file)['kvkeep']
    print(f'the program costs {seconds:.0f} s of processor time to build, {cost:.0f} times reference.cc '
          f'({reference:.2f} s); {most} is the limit')
    if cost > most:
        sys.exit('too much (tests/build_cost/limits.json): look for a header that many units read (docs/building.md)')


if __name__ == '__main__':
    {'build': build_and_record, 'check': check}[sys.argv[1]](*sys.argv[2:])
