"""Machines of a test's own: network namespaces on a bridge, whose links are cut and mended. They lie in a user namespace, so
that no rights are needed, and end with the test.

The test itself has the address HOST, machine `number` has address(number).
"""

import contextlib
import os
import subprocess
import sys

_INSIDE = "KVKEEP_TEST_OWN_NETWORK"
_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--net")
_NET = "10.77.0"
HOST = f"{_NET}.254"
_ADVICE = ("network namespaces cannot be made here. Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, or "
           "kernel.apparmor_restrict_unprivileged_userns=0; in a container: --cap-add SYS_ADMIN,NET_ADMIN), or configure "
           "anew here, which leaves this test out")


def address(number):
    return f"{_NET}.{number}"


def enter():
    """Runs this program again in namespaces of its own, if it is not there yet; then there is a bridge."""
    if _INSIDE not in os.environ:
        if subprocess.run([*_UNSHARE, "ip", "link", "add", "probe", "type", "bridge"], capture_output=True,
                          check=False).returncode != 0:
            sys.exit(f"{sys.argv[0]}: {_ADVICE}")
        os.environ[_INSIDE] = "1"
        os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, "-B", *sys.argv])
    _run("mount", "-t", "tmpfs", "kvkeep-test", "/run")
    os.mkdir("/run/netns")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "bridge", "type", "bridge")
    _run("ip", "address", "add", f"{HOST}/24", "dev", "bridge")
    _run("ip", "link", "set", "bridge", "up")


def _run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


class Machine:
    """A namespace that one link joins to the bridge. `within` before a command runs it there."""

    def __init__(self, number):
        self.number, self.host = number, address(number)
        self.within = ("nsenter", f"--net=/run/netns/machine-{number}")
        self.link = f"link-{number}"
        _run("ip", "netns", "add", f"machine-{number}")
        _run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "port", "netns", f"machine-{number}")
        self._there("ip", "link", "set", "lo", "up")
        self._there("ip", "address", "add", f"{self.host}/24", "dev", "port")
        self._there("ip", "link", "set", "port", "up")
        _run("ip", "link", "set", self.link, "master", "bridge", "up")

    def _there(self, *command):
        _run(*self.within, *command)

    @contextlib.contextmanager
    def cut(self):
        """Nothing comes or goes. Connections learn nothing of it."""
        _run("ip", "link", "set", self.link, "down")
        try:
            yield
        finally:
            _run("ip", "link", "set", self.link, "up")

    @contextlib.contextmanager
    def silent_to(self, *hosts):
        """Reads what these send, and its answers are lost."""
        for host in hosts:
            self._there("ip", "route", "add", "blackhole", f"{host}/32")
        try:
            yield
        finally:
            for host in hosts:
                self._there("ip", "route", "del", "blackhole", f"{host}/32")
