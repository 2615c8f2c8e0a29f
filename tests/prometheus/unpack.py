"""Debian's prometheus and promtool without their installation, which would start a service: the packages are downloaded by
apt-get, as any user may, and unpacked once per build directory."""

import glob
import os
import shutil
import subprocess

DIRECTORY = os.environ["KVKEEP_PROMETHEUS_DIRECTORY"]
PROGRAMS = ("prometheus", "promtool")
LIMIT_S = 300


def program(name):
    """Returns the path of an installed program, or of an unpacked one."""
    return shutil.which(name) or _unpacked(name)


def _unpacked(name):
    path = os.path.join(DIRECTORY, "usr", "bin", name)
    if not os.path.exists(path):
        _unpack()
    return path


def _unpack():
    parts = DIRECTORY + ".new"
    shutil.rmtree(parts, ignore_errors=True)
    os.makedirs(parts)
    # Debian 12 has both programs in the first package, later ones have promtool in its own.
    packages = [each for each in PROGRAMS if _run(["apt-cache", "show", each], parts, check=False) == 0]
    if _run(["apt-get", "download", *packages], parts, check=False) != 0:
        raise AssertionError("apt-get cannot download prometheus; run apt-get update, or install prometheus and promtool")
    for package in glob.glob(os.path.join(parts, "*.deb")):
        _run(["dpkg-deb", "-x", package, parts], parts)
        os.remove(package)
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    os.rename(parts, DIRECTORY)


def _run(command, folder, check=True):
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=check,
                          timeout=LIMIT_S).returncode
