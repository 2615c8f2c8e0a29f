"""File systems of a test's own, which end with it: in a user and mount namespace, so that no rights are needed."""

import contextlib
import os
import subprocess
import sys
import time

_INSIDE = "KVKEEP_TEST_OWN_MOUNTS"
_TRIES = 500
_ADVICE = ("file systems can be mounted neither as this user nor in a namespace of its own. Allow user namespaces "
           "(sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0; in a "
           "container: --cap-add SYS_ADMIN and a seccomp profile with unshare and mount), or configure anew here, "
           "which leaves this test out")


def enter():
    """Runs this program again in namespaces of its own, if it is not there yet."""
    if _INSIDE in os.environ:
        return
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        sys.exit(f"{sys.argv[0]}: {_ADVICE}")
    os.environ[_INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, "-B", *sys.argv])


def _mount(*arguments):
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def small_disk(directory, size_kib):
    _mount("-t", "tmpfs", "-o", f"size={size_kib}k", "kvkeep-test", directory)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=False)


@contextlib.contextmanager
def read_only(directory):
    """Files opened below it meanwhile cannot be changed. (To turn its whole file system over is not possible while a
    file of it is open for writing.)"""
    _mount("--bind", directory, directory)
    try:
        for tries_left in reversed(range(_TRIES)):
            try:
                _mount("-o", "remount,bind,ro", directory)
                break
            except subprocess.CalledProcessError:  # somebody writes a file there at this moment
                if tries_left == 0:
                    raise
                time.sleep(0.01)
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=False)
