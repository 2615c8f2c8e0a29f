"""Node programs with packages from the npm registry, which are installed once per build directory.

The lock beside this file has no addresses: packages come from whatever registry npm is set up with, and are those of
the lock by their hashes.

Environment: KVKEEP_NODE_DIR (where the packages go); the rest is that of tests/e2e/support.py.
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

NODE_DIRECTORY = os.environ["KVKEEP_NODE_DIR"]
MANIFESTS = ("package.json", "package-lock.json")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def install():
    """Installs the packages that this directory's lock names; nothing is fetched if they are there already."""
    def prepare():
        for name in MANIFESTS:
            shutil.copyfile(os.path.join(HERE, name), os.path.join(NODE_DIRECTORY, name))
    _npm(["ci"], b"".join(read(os.path.join(HERE, name)) for name in MANIFESTS), prepare)


def install_packages(*packages):
    """`name@version` each, without what they name as optional; nothing is fetched if they are there already."""
    _npm(["install", "--omit=optional", "--no-package-lock", "--no-save", *packages], "\n".join(packages).encode())


def _npm(command, wanted, prepare=lambda: None, limit_s=400):
    done = os.path.join(NODE_DIRECTORY, "installed")
    if os.path.exists(done) and read(done) == wanted:
        return
    os.makedirs(NODE_DIRECTORY, exist_ok=True)
    prepare()
    run = subprocess.run(["npm", *command, "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", NODE_DIRECTORY],
                         capture_output=True, text=True, timeout=limit_s)
    if run.returncode != 0:
        raise AssertionError(f"npm {' '.join(command)} failed:\n{run.stderr[-2000:]}")
    with open(done, "wb") as file:
        file.write(wanted)


def run_script(name, environment, limit_s=240):
    """Runs a script of this directory with node; its output is shown if it fails."""
    # Modules are looked up from where the script lies.
    copy = os.path.join(NODE_DIRECTORY, name)
    shutil.copyfile(os.path.join(HERE, name), copy)
    done = subprocess.run(["node", "--test", "--test-reporter=spec", copy], capture_output=True, text=True,
                          timeout=limit_s, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{name}:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}")
