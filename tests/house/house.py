#!/usr/bin/env python3
"""Style is a test: who includes whom, what belongs where, and how long things may get.

  house.py ROOT             prints what breaks the rules (rules.py), one line each; exit status 1 if anything does
  house.py ROOT --tighten   lowers the numbers in limits.json to what is measured; it never raises one

Lengths are a ratchet: limits.json holds what the worst place may have, and only ever gets smaller.
"""

import json
import os
import re
import sys

import links
import measures
import rules
import source_text

CODE_FOLDERS = ('src', 'apps', 'bench', 'model_maker', 'testing', 'tests', 'fuzz', 'include')
OWN_FOLDER = os.path.join('tests', 'house')  # names what it bans


class Source:
    """One C++ file: path relative to the root with forward slashes, raw text and code without comments and strings."""

    def __init__(self, root, path):
        self.path = path.replace(os.sep, '/')
        with open(os.path.join(root, path), encoding='utf-8') as file:
            self.text = file.read()
        self.code = source_text.code_only(self.text)
        self.is_test = rules.TEST_FILE.search(self.path) is not None
        self.room = self._room()

    def _room(self):
        if self.path.startswith('src/'):
            name = self.path[len('src/'):]
            return measures.room_of_header(name) or name.split('/')[0]
        if not self.path.startswith(rules.BESIDE_THE_SERVER):
            return None
        folder = os.path.dirname(self.path)
        # A benchmark that lies beside the rooms of bench/ times several rooms of the server.
        is_in_no_room = self.is_test and '/' not in folder and folder not in rules.MAY_INCLUDE
        return None if is_in_no_room else folder

    def in_product(self):
        return self.path.startswith(('src/', 'apps/', 'include/', *rules.BESIDE_THE_SERVER)) and not self.is_test


def sources(root, folders=CODE_FOLDERS):
    found = []
    for folder in folders:
        for place, _, names in os.walk(os.path.join(root, folder)):
            relative = os.path.relpath(place, root)
            found += [Source(root, os.path.join(relative, name)) for name in names if name.endswith(('.cc', '.h'))]
    return sorted(found, key=lambda source: source.path)


def upward_includes(all_sources):
    """Goal 0. Test files may also look at testing/, at the model maker and, above the cache, at the fake engine."""
    found = []
    for source in all_sources:
        if source.room is None:
            continue
        if source.room not in rules.MAY_INCLUDE:
            found.append(f'{source.path}: the room {source.room} is not in tests/house/rules.py')
            continue
        allowed = rules.MAY_INCLUDE[source.room] | {source.room}
        if source.is_test:
            allowed = allowed | rules.FOR_ALL_TESTS
        if source.is_test and 'engine' in allowed:
            allowed = allowed | {'engine/fake'}
        for line, name, quoted in source_text.includes(source.text):
            target = measures.room_of_header(name) if quoted else None
            if quoted and target is None and not (source.is_test and name.startswith('testing/')):
                found.append(f'{source.path}:{line}: "{name}" is in no room; write includes from src/')
            elif target is not None and target not in allowed:
                found.append(f'{source.path}:{line}: {source.room} must not include {target} ("{name}")')
    return found


def misplaced(all_sources):
    """System calls, clocks, threads, locks and libraries outside their rooms; tests are free."""
    found = []
    for source in all_sources:
        if not source.in_product() or source.path.startswith(rules.IN_OTHER_PROCESSES):
            continue
        for line, name, _ in source_text.includes(source.text):
            for what, pattern, homes in rules.HEADER_HOMES:
                if pattern.search(name) and not source.path.startswith(homes):
                    found.append(f'{source.path}:{line}: <{name}>: {what} belongs in {" or ".join(homes)}')
            if source.room in rules.PURE_ROOMS and rules.IMPURE_HEADER.search(name):
                found.append(f'{source.path}:{line}: <{name}>: {source.room} is pure (no clock, file, thread, lock, log)')
        for line, text in enumerate(source.code.splitlines(), 1):
            for what, pattern, homes in rules.CODE_HOMES:
                match = pattern.search(text)
                if match and not source.path.startswith(homes):
                    found.append(f'{source.path}:{line}: {match.group().strip()}: {what} belongs in {" or ".join(homes)}')
            match = rules.IMPURE_CODE.search(text)
            if match and source.room in rules.PURE_ROOMS:
                found.append(f'{source.path}:{line}: {match.group().strip()}: {source.room} is pure')
    return found


def banned_words(all_sources):
    found = []
    for source in all_sources:
        for line, text in enumerate(source_text.without_data(source.text).splitlines(), 1):
            match = rules.BANNED_WORDS.search(text)
            if match:
                found.append(f'{source.path}:{line}: {match.group(1)} is not left in this code')
    return found


def room_readmes(root, all_sources):
    found = []
    for folder in sorted({rules.folder_of(source.room) for source in all_sources if source.room is not None}):
        readme = os.path.join(root, folder, 'README.md')
        if not os.path.exists(readme):
            found.append(f'{folder}: no README.md (purpose, what it must never know, header to open first)')
            continue
        with open(readme, encoding='utf-8') as file:
            lines = len(file.read().splitlines())
        if lines > rules.README_LINES:
            found.append(f'{folder}/README.md: {lines} lines, at most {rules.README_LINES}')
    return found


def build_rooms(root):
    """The link dependencies in the rooms' CMakeLists.txt must not allow what the include rules forbid."""
    calls = []
    for place in ('src/', *rules.BESIDE_THE_SERVER):
        path = os.path.join(root, place, 'CMakeLists.txt')
        if not os.path.exists(path):
            continue
        with open(path, encoding='utf-8') as file:
            text = re.sub(r'#[^\n]*', '', file.read())
        for name, folder, arguments in re.findall(r'kvkeep_room\(\s*(\w+)\s+DIR\s+([^\s)]+)\s*([^)]*)\)', text):
            room = folder if place == 'src/' else os.path.normpath(place + folder)
            calls.append((f'{place}CMakeLists.txt', name, room, arguments))
    rooms = {f'room_{name}': room for _, name, room, _ in calls}
    found = []
    for file_name, _, room, arguments in calls:
        dependencies = arguments.split('TEST_DEPS')[0]
        for dependency in re.findall(r'\broom_\w+', dependencies):
            if rooms.get(dependency) not in rules.MAY_INCLUDE.get(room, set()):
                found.append(f'{file_name}: {room} must not link {dependency}')
    return found


def ratchet(all_sources, limits):
    return [f'{name} is {number}, at most {limits.get(name, 0)} (tests/house/limits.json): {place}'
            for name, (number, place) in measures.measure(all_sources).items() if number > limits.get(name, 0)]


def tightened(all_sources, limits):
    return {name: min(number, limits[name]) for name, (number, _) in measures.measure(all_sources).items()}


def violations(root, limits):
    every = sources(root)
    outside = [source for source in every if not source.path.startswith(OWN_FOLDER.replace(os.sep, '/'))]
    return (upward_includes(every) + misplaced(every) + banned_words(outside) + room_readmes(root, every) +
            build_rooms(root) + links.broken(root, outside) + ratchet(every, limits))


def main(arguments):
    root = arguments[0]
    path = os.path.join(root, OWN_FOLDER, 'limits.json')
    with open(path, encoding='utf-8') as file:
        limits = json.load(file)
    if '--tighten' in arguments:
        with open(path, 'w', encoding='utf-8') as file:
            json.dump(tightened(sources(root), limits), file, indent=2)
            file.write('\n')
        return 0
    found = violations(root, limits)
    print('\n'.join(found))
    print(f'{len(found)} violations; ' + ', '.join(f'{name} {number}' for name, (number, _) in measures.measure(sources(root)).items()))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
