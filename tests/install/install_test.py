"""Installs the program as `make install PREFIX=/usr DESTDIR=FOLDER` does, and looks at what is there.

    install_test.py CMAKE BUILD_FOLDER
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD = sys.argv[1:3]


class Install(unittest.TestCase):
    def test_program_docs_and_licence(self):
        with tempfile.TemporaryDirectory(prefix="kvkeep-install-test-") as folder:
            subprocess.run([CMAKE, "--install", BUILD, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, DESTDIR=folder))
            libraries = ":".join(glob.glob(f"{folder}/usr/lib*") + glob.glob(f"{folder}/usr/lib/*-linux-gnu"))
            run = subprocess.run([f"{folder}/usr/bin/kvkeep", "--version"], capture_output=True, text=True, check=True,
                                 env=dict(os.environ, LD_LIBRARY_PATH=libraries))
            self.assertRegex(run.stdout, r"^kvkeep \d")
            docs = f"{folder}/usr/share/doc/kvkeep"
            self.assertTrue(os.path.isfile(f"{docs}/LICENSE"))
            with open(f"{docs}/README.md", encoding="utf-8") as file:
                pages = re.findall(r"\]\(([\w/-]+(?:\.md)?)[)#]", file.read())
            self.assertGreater(len(pages), 20)
            self.assertEqual([page for page in pages if not os.path.isfile(f"{docs}/{page}")], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
