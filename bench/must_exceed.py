#!/usr/bin/env python3
"""Runs a command and succeeds if it reports a ratio above its bound: a measurement that cannot fail measures nothing."""

import subprocess
import sys

done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
print(done.stdout, end="")
sys.exit(0 if done.returncode == 1 and "is above" in done.stdout else 1)
