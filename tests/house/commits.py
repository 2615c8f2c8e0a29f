#!/usr/bin/env python3
"""Checks how commits since FIRST are described: `commits.py ROOT` prints one line for each fault; exit status 1 if any.

Works in a shallow clone: only the commits that are there are looked at. A folder without git has none.
"""

import re
import subprocess
import sys

FIRST = '2026-11-23T00:18:00Z'  # committer's date; earlier commits were made before the rule
MOST_CHARACTERS = 72


def faults(subject, body):
    """Returns the faults of one commit's message."""
    found = []
    if len(subject) > MOST_CHARACTERS:
        found.append(f'{len(subject)} characters, at most {MOST_CHARACTERS}')
    if not re.match(r'[A-Z]', subject):
        found.append('begins with no capital letter')
    if subject.endswith('.'):
        found.append('ends with a full stop')
    if ';' in subject:
        found.append('names two things; make two commits')
    if not body.strip():
        found.append('no body says why')
    return found


def messages(root):
    """(hash, subject, body) of each commit since FIRST, merges aside."""
    done = subprocess.run(['git', '-C', root, 'log', '--no-merges', f'--since={FIRST}', '--format=%h%x00%s%x00%b%x01'],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return []
    return [tuple(entry.strip('\n').split('\0')) for entry in done.stdout.split('\x01') if entry.strip()]


def main(root):
    found = [f'{commit} {subject}: {fault}' for commit, subject, body in messages(root) for fault in faults(subject, body)]
    print('\n'.join(found))
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1]))
