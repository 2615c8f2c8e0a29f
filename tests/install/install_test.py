"""Installs the program as `make install PREFIX=/usr DESTDIR=FOLDER` does, and looks at what is there.

    install_test.py CMAKE BUILD_FOLDER
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD = sys.argv[1:3]


def install(folder, **environment):
    return subprocess.run([CMAKE, "--install", BUILD, "--prefix", "/usr"], capture_output=True, text=True,
                          env=dict(os.environ, DESTDIR=folder, **environment))


def run(*command, **keywords):
    return subprocess.run(command, capture_output=True, text=True, timeout=50, **keywords)


def links_of(page):
    """The targets of a page's links within this project, without the part after #."""
    with open(page, encoding="utf-8") as file:
        targets = re.findall(r"\]\(([^)\s]+)\)", file.read())
    return [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("#")]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="kvkeep-install-test-")
        cls.addClassCleanup(holder.cleanup)
        cls.folder = holder.name
        done = install(cls.folder)
        if done.returncode != 0:
            raise AssertionError(done.stderr)

    def path(self, *parts):
        return os.path.join(self.folder, "usr", *parts)

    def text(self, *parts):
        with open(self.path(*parts), encoding="utf-8") as file:
            return file.read()

    def program(self, *arguments):
        libraries = ":".join(glob.glob(self.path("lib*")) + glob.glob(self.path("lib", "*-linux-gnu")))
        return run(self.path("bin", "kvkeep"), *arguments, env=dict(os.environ, LD_LIBRARY_PATH=libraries))

    def test_the_program_runs(self):
        self.assertRegex(self.program("--version").stdout, r"^kvkeep \d")

    def test_links_of_all_pages_lead_to_something_installed(self):
        docs = self.path("share", "doc", "kvkeep")
        self.assertTrue(os.path.isfile(f"{docs}/LICENSE"))
        self.assertTrue(os.path.isfile(f"{docs}/LICENSE.preact"))
        pages = glob.glob(f"{docs}/**/*.md", recursive=True)
        self.assertGreater(len(pages), 25)
        links = [(page, link) for page in pages for link in links_of(page)]
        self.assertGreater(len(links), 100)
        lost = [(os.path.relpath(page, docs), link) for page, link in links
                if not os.path.exists(os.path.join(os.path.dirname(page), link))]
        self.assertEqual(lost, [])

    def test_the_index_names_every_page(self):
        docs = self.path("share", "doc", "kvkeep", "docs")
        listed = {os.path.normpath(link) for link in links_of(f"{docs}/README.md")}
        there = {os.path.relpath(page, docs) for page in glob.glob(f"{docs}/**/*.md", recursive=True)}
        self.assertEqual(there - listed - {"README.md", "decisions/0000-template.md"}, set())

    def test_the_man_page_is_todays_and_has_no_errors(self):
        self.assertEqual(self.text("share", "man", "man1", "kvkeep.1"), self.program("help", "--man").stdout)
        if shutil.which("man"):
            shown = run("man", "--warnings", "-l", self.path("share", "man", "man1", "kvkeep.1"),
                        env=dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH="100"))
            self.assertEqual((shown.returncode, shown.stderr), (0, ""))
            self.assertIn("--ctx-size N", shown.stdout)

    def test_scripts_of_shells_are_valid(self):
        scripts = {"bash": self.path("share", "bash-completion", "completions", "kvkeep"),
                   "zsh": self.path("share", "zsh", "site-functions", "_kvkeep"),
                   "fish": self.path("share", "fish", "vendor_completions.d", "kvkeep.fish")}
        for shell, script in scripts.items():
            with open(script, encoding="utf-8") as file:
                self.assertEqual(file.read(), self.program("help", "--completions", shell).stdout)
            if shutil.which(shell):
                self.assertEqual(run(shell, "-n", script).stderr, "", shell)

    def completed(self, *words):
        """What bash offers for the last word."""
        script = self.path("share", "bash-completion", "completions", "kvkeep")
        line = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _kvkeep 2>/dev/null; " \
               "printf '%s\\n' \"${COMPREPLY[@]}\""
        return run("bash", "-c", line, "bash", script, "kvkeep", *words).stdout.split()

    def test_bash_completes_commands_flags_and_words(self):
        self.assertEqual(self.completed("ser"), ["serve"])
        self.assertEqual(self.completed("cache", "ver"), ["verify"])
        self.assertEqual(self.completed("serve", "--ctx-s"), ["--ctx-size"])
        self.assertEqual(self.completed("--ctx-s"), ["--ctx-size"])
        self.assertEqual(self.completed("serve", "-m", "x.gguf", "--no-kv-d"), ["--no-kv-disk"])
        self.assertEqual(self.completed("serve", "-fa", ""), ["on", "off", "auto"])
        self.assertEqual(self.completed("cache", "verify", "--rep"), ["--repair"])
        self.assertEqual(self.completed("cache", "verify", "--ctx-s"), [])
        self.assertEqual(self.completed("serve", "-m", ""), [])  # readline's files

    def test_systemd_reads_the_units(self):
        for kind in ("system", "user"):
            unit = self.text("lib", "systemd", kind, "kvkeep.service")
            self.assertIn("Type=notify", unit)
            if kind == "system" and shutil.which("systemd-analyze"):
                # Not installed in this system: the program is named by its path.
                copy = os.path.join(self.folder, "kvkeep.service")
                with open(copy, "w") as file:
                    file.write(unit.replace("ExecStart=kvkeep", f"ExecStart={self.path('bin', 'kvkeep')}"))
                checked = run("systemd-analyze", "verify", "--man=no", copy)
                self.assertEqual([line for line in checked.stderr.splitlines() if "kvkeep" in line], [])
        self.assertIn("LLAMA_ARG_MODEL=", self.text("share", "doc", "kvkeep", "examples", "service.env"))

    def test_the_name_of_llama_server_is_taken_only_when_asked(self):
        self.assertFalse(os.path.lexists(self.path("bin", "llama-server")))
        with tempfile.TemporaryDirectory(prefix="kvkeep-install-test-") as folder:
            link = f"{folder}/usr/bin/llama-server"
            self.assertEqual(install(folder, LLAMA_SERVER="1").returncode, 0)
            self.assertEqual(os.readlink(link), "kvkeep")
            self.assertEqual(install(folder, LLAMA_SERVER="1").returncode, 0, "once more")
            os.remove(link)
            with open(link, "w") as file:
                file.write("the real one")
            refused = install(folder, LLAMA_SERVER="1")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("is a program, not a link", " ".join(refused.stderr.split()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
