#!/usr/bin/env python3
"""Mutants: mistakes that a test must catch. Each is a patch in this folder, ROOM/NAME.patch, and is in no program that ships.

  mutants.py --check BUILD         each patch applies to the sources, and each test that it names exists (seconds)
  mutants.py --run BUILD [NAME...] builds the mutants, all or those named (store/two_keepers), and runs their tests

BUILD is the folder of a Ninja build of the tests. For each mutant, only the unit with the patched file is compiled, into a
copy of the room's library, and one test program is linked; nothing in BUILD but BUILD/mutants changes. JOBS mutants are
built at once (default: 1).

A patch begins with the mistake in one sentence and with the tests that must fail, each on a line of its own:

  A server that finds the directory kept keeps it as well.

  Caught-by: store_test Every/SharedFaults.*/the_keeper_meets_faults

A patch of the page's modules (web/) names a test file and the whole name of a test in it, which Node runs; nothing is built:

  Caught-by: web/test/pace_test.mjs the tree is asked for when it changed, and not at once again

Without Node such mutants are left out, as the tests of these modules are.

It is an error if a patch does not apply, if its sources do not compile, or if one of its tests passes. An assertion that ends
a test program catches the mistake as a failed test does.
"""

import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
TIMEOUT_S = 300


class Trouble(Exception):
    """Why a mutant does not prove anything."""


def output_of(command, where, why):
    done = subprocess.run(command, cwd=where, shell=isinstance(command, str), text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise Trouble(f'{why}:\n{done.stdout[-4000:]}')
    return done.stdout


def is_of_page(program):
    return program.startswith('web/test/')


class Mutant:
    def __init__(self, path):
        text = path.read_text(encoding='utf-8')
        self.path = path
        self.name = path.relative_to(FOLDER).with_suffix('').as_posix()
        self.mistake = text.splitlines()[0]
        self.tests = re.findall(r'^Caught-by: (\S+) (\S.*)$', text, re.M)
        self.files = re.findall(r'^\+\+\+ b/(\S+)', text, re.M)
        if not self.mistake or not self.tests or not self.files:
            raise Trouble(f'{self.name}: needs the mistake, "Caught-by: PROGRAM FILTER" and a diff')
        self.is_of_page = all(name.startswith('web/') for name in self.files)
        if any(is_of_page(program) != self.is_of_page for program, _ in self.tests):
            raise Trouble(f'{self.name}: tests of web/test are for patches of web/')
        if not self.is_of_page and any(not name.endswith('.cc') for name in self.files):
            raise Trouble(f'{self.name}: patches a header, which other units have as well')

    def apply(self, where, *flags):
        # One line of context must be as it was, so that a comment can be changed without a change of patches.
        output_of(['git', f'--git-dir={os.devnull}', 'apply', '-C1', *flags, str(self.path)], where, 'the patch does not apply')


class Build:
    def __init__(self, folder):
        self.folder = folder.resolve()
        self.room = self.folder / 'mutants'

    @functools.cached_property
    def units(self):
        """Path of each source below ROOT -> command that compiles it, by itself or with others, and the file it compiles."""
        found = {}
        for entry in json.loads((self.folder / 'compile_commands.json').read_text(encoding='utf-8')):
            unit = pathlib.Path(entry['file'])
            parts = re.findall(r'#include "(.*)"', unit.read_text(encoding='utf-8')) if '/Unity/' in entry['file'] else [unit]
            for source in parts:
                if pathlib.Path(source).is_relative_to(ROOT):
                    found.setdefault(str(pathlib.Path(source).relative_to(ROOT)), (entry['command'], unit))
        return found

    @functools.cache
    def links(self, program):
        """The commands that make the libraries of a program and the program, the program's last."""
        commands = output_of(['ninja', '-t', 'commands', program], self.folder, f'there is no {program}')
        return [line for line in commands.splitlines() if ' qc ' in line or f' -o {program} ' in line]

    def update(self, programs):
        output_of(['cmake', '--build', '.', '--target', *programs], self.folder, 'the tests do not build')

    def names_a_test(self, program, tests):
        if is_of_page(program):
            return f'test({json.dumps(tests)}' in (ROOT / program).read_text(encoding='utf-8')
        listed = output_of([f'./{program}', '--gtest_list_tests', f'--gtest_filter={tests}'], self.folder, f'{program} fails')
        return re.search(r'^  \S', listed, re.M) is not None

    def compile(self, mutant, place):
        """The mutated sources as objects: {path in the build of the object that each stands for: its own}."""
        for name in mutant.files:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
        mutant.apply(place)
        objects = {}
        for name in mutant.files:
            command, unit = self.units[name]
            old = re.search(r' -o (\S+)', command).group(1)
            if old in objects:
                continue
            text = unit.read_text(encoding='utf-8') if '/Unity/' in str(unit) else f'#include "{ROOT / name}"\n'
            for patched in mutant.files:
                text = text.replace(f'"{ROOT / patched}"', f'"{place / patched}"')
            mutated = place / f'unit{len(objects)}.cc'
            mutated.write_text(text, encoding='utf-8')
            objects[old] = place / str(len(objects)) / os.path.basename(old)  # a library knows it by this name
            objects[old].parent.mkdir()
            # Without warnings: a mistake may leave something unused.
            command = command.replace(f' -o {old}', f' -w -o {objects[old]}').replace(f' -c {unit}', f' -c {mutated}')
            output_of(command, self.folder, 'it does not compile')
        return objects

    def link(self, program, objects, place):
        *libraries, link = self.links(program)
        for old, new in objects.items():
            made = next((line for line in libraries if f' {old} ' in line), None)
            if made is None:
                raise Trouble(f'{program} has no {old}')
            library = re.search(r' qc (\S+)', made).group(1)
            own = place / os.path.basename(library)
            if not own.exists():
                shutil.copy2(self.folder / library, own)
            output_of(['ar', 'r', str(own), str(new)], self.folder, 'ar fails')
            link = re.sub(rf'(?<=\s){re.escape(library)}(?=\s)', str(own), link)
        output_of(link.replace(f' -o {program} ', f' -o {place / program} '), self.folder, 'it does not link')
        return place / program


def output_and_status(command, where):
    """None if it takes too long."""
    try:
        return subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return None


def page_outcome(test, name, where):
    """The same for the test of this name in a file below `where`."""
    command = ['node', '--test', '--test-reporter=tap', f'--test-name-pattern=^{re.escape(name)}$', test]
    if (done := output_and_status(command, where)) is None:
        return f'took more than {TIMEOUT_S} s'
    if (line := re.search(rf'^ *(not ok|ok) \d+ - {re.escape(name)}$', done.stdout, re.M)) is None:
        return f'did not run: {done.stdout[-500:]}'
    return 'failed' if line.group(1) == 'not ok' else 'passed'


def outcome(program, tests, where):
    """Returns 'passed', 'failed' or what else became of the tests."""
    command = [str(program), '--gtest_brief=1', '--gtest_fail_fast', f'--gtest_filter={tests}']
    if (done := output_and_status(command, where)) is None:
        return f'took more than {TIMEOUT_S} s'
    if done.returncode == 1 and '[  FAILED  ]' in done.stdout:
        return 'failed'
    if done.returncode == -signal.SIGABRT and 'kvkeep: bug: ' in done.stderr:
        return 'failed'  # an assertion of the mutated code, or of what it calls, saw the mistake
    return 'passed' if done.returncode == 0 else f'ended with {done.returncode}: {done.stderr[-500:]}'


def try_mutant(build, mutant):
    place = build.room / mutant.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if mutant.is_of_page:
        for folder in ('page', 'shared', 'test'):
            shutil.copytree(ROOT / 'web' / folder, place / 'web' / folder)
        mutant.apply(place)
        outcomes = [page_outcome(test, name, place) for test, name in mutant.tests]
    else:
        objects = build.compile(mutant, place)
        programs = {program: build.link(program, objects, place) for program, _ in mutant.tests}
        outcomes = [outcome(programs[program], tests, place) for program, tests in mutant.tests]
    for (program, tests), what in zip(mutant.tests, outcomes):
        if what != 'failed':
            raise Trouble(f'was not caught: {program} {tests} {what}')
    shutil.rmtree(place)


def report(build, mutant):
    begin = time.monotonic()
    try:
        try_mutant(build, mutant)
        trouble = ''
    except Trouble as error:
        trouble = f'{mutant.name} ({mutant.mistake}) {error}'
    print(f'{mutant.name}: {"TROUBLE" if trouble else "caught"} after {time.monotonic() - begin:.0f} s', flush=True)
    return trouble


def run(build, names):
    chosen = [mutant for mutant in mutants() if not names or mutant.name in names]
    if len(chosen) < len(names):
        raise Trouble(f'there are only {", ".join(mutant.name for mutant in mutants())}')
    if shutil.which('node') is None and any(mutant.is_of_page for mutant in chosen):
        if names:
            raise Trouble('there is no node, which runs the tests of the page')
        print('without the mutants of the page: there is no node')
        chosen = [mutant for mutant in chosen if not mutant.is_of_page]
    every_test = sorted({test for mutant in chosen for test in mutant.tests})
    if programs := sorted({program for program, _ in every_test if not is_of_page(program)}):
        build.update(programs)
    for program, tests in every_test:
        now = page_outcome(program, tests, ROOT) if is_of_page(program) else outcome(build.folder / program, tests, build.folder)
        if now != 'passed' or not build.names_a_test(program, tests):
            raise Trouble(f'{program} {tests} does not pass without a mutant')
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get('JOBS', '1'))) as pool:
        found = [trouble for trouble in pool.map(lambda mutant: report(build, mutant), chosen) if trouble]
    print(f'{len(chosen) - len(found)} of {len(chosen)} mutants are caught')
    return found


def check(build):
    found = []
    for mutant in mutants():
        try:
            mutant.apply(ROOT, '--check')
        except Trouble as error:
            found.append(f'{mutant.name}: {error}')
        found += [f'{mutant.name}: {program} has no test {tests}' for program, tests in mutant.tests
                  if not build.names_a_test(program, tests)]
    return found


def mutants():
    return [Mutant(path) for path in sorted(FOLDER.glob('*/*.patch'))]


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ('--check', '--run') or (arguments[0] == '--check' and len(arguments) > 2):
        print(__doc__)
        return 2
    build = Build(pathlib.Path(arguments[1]))
    try:
        found = check(build) if arguments[0] == '--check' else run(build, arguments[2:])
    except Trouble as error:
        found = [str(error)]
    print('\n'.join(found))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
