"""Makes the Debian package, unpacks it, and runs the program and its service from there.

    deb_test.py CPACK BUILD_FOLDER SOURCE_FOLDER
"""

import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

CPACK, BUILD, SOURCE = sys.argv[1:4]
sys.path.insert(0, f"{SOURCE}/testing/e2e")

from kvkeep_process import free_port  # noqa: E402

LIMIT_S = 500


def run(*command, **keywords):
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **{"check": True, **keywords}).stdout


def assignments(text):
    """NAME=VALUE lines, as in an environment file of systemd."""
    lines = [line.strip() for line in text.splitlines()]
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", ";")))


class Unit:
    """A unit of systemd, as far as it says what runs."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
        self.values = {}
        for line in lines:
            if "=" in line and not line.startswith("#"):
                key, value = line.split("=", 1)
                self.values.setdefault(key, []).append(value)

    def command(self, environment):
        """As systemd splits it: $NAME becomes the words of the variable, none if it is not set."""
        [line] = self.values["ExecStart"]
        words = []
        for word in line.split():
            words += environment.get(word[1:], "").split() if word.startswith("$") else [word]
        return words

    def environment(self, cache):
        return assignments("\n".join(self.values.get("Environment", [])).replace("%C", cache))


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="kvkeep-deb-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        for tool in ("dpkg-shlibdeps", "file"):
            if shutil.which(tool) is None:
                raise AssertionError(f"there is no {tool}: scripts/setup installs dpkg-dev and file")
        run(CPACK, "--config", f"{BUILD}/CPackConfig.cmake", "-G", "DEB", "-B", cls.folder)
        cls.package, = glob.glob(f"{cls.folder}/kvkeep_*.deb")

    def test_names_what_it_needs(self):
        lines = run("dpkg-deb", "-f", self.package).splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line and not line.startswith(" "))
        self.assertEqual(fields["Package"], "kvkeep")
        self.assertIn("Maintainer", fields)
        for library in ("libc6", "libstdc++6", "libllama", "libspdlog"):
            self.assertIn(library, fields["Depends"])

    def test_runs_from_where_it_was_unpacked_and_has_no_file_elsewhere(self):
        root = self.unpacked("root")
        self.assertRegex(run(f"{root}/usr/bin/kvkeep", "--version"), r"^kvkeep \d")
        self.assertEqual(os.listdir(root), ["usr"])
        for path in ("lib/systemd/system/kvkeep.service", "share/man/man1/kvkeep.1", "share/doc/kvkeep/README.md",
                     "share/bash-completion/completions/kvkeep"):
            self.assertTrue(os.path.isfile(f"{root}/usr/{path}"), path)
        self.assertFalse(os.path.lexists(f"{root}/usr/bin/llama-server"), "it belongs to another package")

    def test_installs_and_removes_cleanly(self):
        """In a dpkg database of its own; what the package needs counts as there, because it is in this system."""
        root = os.path.join(self.folder, "installed")
        os.makedirs(f"{root}/var/lib/dpkg/updates")
        os.makedirs(f"{root}/var/lib/dpkg/info")
        for name in ("status", "available"):
            open(f"{root}/var/lib/dpkg/{name}", "w").close()
        dpkg = ("dpkg", f"--root={root}", "--force-depends", "--force-not-root", "--force-bad-path", "--log=/dev/null")
        run(*dpkg, "-i", self.package)
        self.assertRegex(run(f"{root}/usr/bin/kvkeep", "--version"), r"^kvkeep \d")
        run(*dpkg, "--purge", "kvkeep")
        left = [path for path in glob.glob(f"{root}/**", recursive=True) if os.path.isfile(path) and "/var/lib/dpkg/" not in path]
        self.assertEqual(left, [])
        self.assertFalse(os.path.exists(f"{root}/usr"))

    def unpacked(self, name):
        root = os.path.join(self.folder, name)
        run("dpkg-deb", "-x", self.package, root)
        return root

    @contextlib.contextmanager
    def service(self, root, settings):
        """The service's command line, with its unit's environment and the settings of its environment file. Yields the
        process and a function that returns the service manager's next message."""
        unit = Unit(f"{root}/usr/lib/systemd/system/kvkeep.service")
        self.assertEqual(unit.values["Type"], ["notify"])
        cache = os.path.join(self.folder, "cache")
        os.makedirs(os.path.join(cache, *unit.values["CacheDirectory"]), mode=0o700)
        environment = {"PATH": f"{root}/usr/bin:{os.environ['PATH']}", "HOME": "/nonexistent", **unit.environment(cache),
                       **settings}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(f"{self.folder}/log", "w+") as log:
            environment["NOTIFY_SOCKET"] = os.path.join(self.folder, "notify")
            manager.bind(environment["NOTIFY_SOCKET"])
            manager.settimeout(LIMIT_S)

            def message():
                manager.settimeout(0.1)
                while True:
                    with contextlib.suppress(TimeoutError):
                        return assignments(manager.recv(4096).decode())
                    log.seek(0)
                    self.assertIsNone(process.poll(), f"the service ended: {log.read()}")

            process = subprocess.Popen(unit.command(environment), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                yield process, message
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()

    def test_the_service_serves(self):
        root = self.unpacked("served")
        self.assertTrue(os.access(f"{root}/usr/bin/kvkeep", os.X_OK))
        model = os.path.join(self.folder, "model.gguf")
        run(f"{root}/usr/bin/kvkeep", "model", "make", model)
        with open(f"{root}/usr/share/doc/kvkeep/examples/service.env", encoding="utf-8") as file:
            settings = assignments(file.read())
        self.assertEqual(list(settings), ["LLAMA_ARG_MODEL"], "the example names what has to be set")
        port = free_port()
        settings |= {"LLAMA_ARG_MODEL": model, "LLAMA_ARG_PORT": str(port), "KVKEEP_FLAGS": "-t 1 -c 512"}
        with self.service(root, settings) as (process, message):
            while message().get("READY") != "1":
                continue
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
                for _ in range(2):
                    body = json.dumps({"prompt": "The service of a package answers. " * 8, "max_tokens": 4})
                    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
                    reply = connection.getresponse()
                    answer = json.loads(reply.read())
                    self.assertEqual((reply.status, answer["usage"]["completion_tokens"]), (200, 4), answer)
                self.assertGreater(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 8)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(LIMIT_S), 0)
        kept = glob.glob(f"{self.folder}/cache/kvkeep/**/*.kvs", recursive=True)
        self.assertTrue(kept, "its disk cache lies where the unit says")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
