#!/usr/bin/env python3
"""Proves that a snippet compiles as it stands, and does not with -DMISUSE, for the reason it names.

  check.py SNIPPET COMPILER [FLAGS...]

The snippet has a line `// refused: REGEX`, searched in what the compiler says about the misuse.
"""

import re
import subprocess
import sys


def main(snippet, command):
    with open(snippet, encoding='utf-8') as file:
        refused = re.search(r'^// refused: (.+)$', file.read(), re.M).group(1)
    command = command + ['-fsyntax-only', '-fno-diagnostics-color']
    control = subprocess.run(command + [snippet], capture_output=True, text=True)
    if control.returncode != 0:
        print(f'{snippet}: the control, which is right, does not compile:\n{control.stderr}')
        return 1
    misuse = subprocess.run(command + ['-DMISUSE', snippet], capture_output=True, text=True)
    if misuse.returncode == 0:
        print(f'{snippet}: the misuse compiles')
        return 1
    if not re.search(refused, misuse.stderr):
        print(f'{snippet}: refused, but not because of "{refused}":\n{misuse.stderr}')
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2:]))
