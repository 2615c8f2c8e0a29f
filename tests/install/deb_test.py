"""Makes the Debian package, unpacks it, and runs the program from there.

    deb_test.py CPACK BUILD_FOLDER
"""

import glob
import os
import subprocess
import sys
import tempfile
import unittest

CPACK, BUILD = sys.argv[1:3]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout


class Deb(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="kvkeep-deb-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
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
        root = os.path.join(self.folder, "root")
        run("dpkg-deb", "-x", self.package, root)
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
