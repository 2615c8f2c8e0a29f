"""Opens pages of reports in Chromium: none may leave a line on the console, and all must be what they seem.

    page_test.py MAKE_REPORT
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import MOST_PAGE_BYTES, Opened

MAKE_REPORT = sys.argv[1]


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kvkeep-report-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([MAKE_REPORT, cls.folder], check=True, timeout=60)

    def open(self, path):
        return Opened(path, self.folder / "profile")

    def open_changed(self, changes):
        """The good page with some of its text replaced."""
        text = (self.folder / "good.html").read_text(encoding="utf-8")
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        path = self.folder / "changed.html"
        path.write_text(text, encoding="utf-8")
        return self.open(path)

    def test_pages_are_silent_and_short(self):
        pages = sorted(self.folder.glob("*.html"))
        names = {"empty", "good", "hostile", "huge", "problems"}
        self.assertLessEqual(names, {page.stem for page in pages})
        for page in pages:
            if page.stem not in names:
                continue
            with self.subTest(page.stem):
                self.assertLessEqual(page.stat().st_size, MOST_PAGE_BYTES)
                self.assertEqual(self.open(page).console, [])

    def test_a_full_report_has_its_parts(self):
        page = self.open(self.folder / "problems.html")
        self.assertEqual(page.count('svg class="plot"'), 48)
        self.assertEqual(page.count('svg class="bar"'), 24)
        self.assertEqual(page.count("details"), 24)
        self.assertEqual(page.count("h1"), 1)
        self.assertIn("turn main 6: connection closed before the first token", page.tree)

    def test_hostile_text_makes_no_element(self):
        page = self.open(self.folder / "hostile.html")
        self.assertEqual(page.count("script"), 0)
        self.assertEqual(page.count("textarea"), 0)
        self.assertEqual(page.count("style"), 1)
        self.assertIn("&lt;script&gt;", page.tree)

    # The checks above see what they are there for.

    def test_an_error_on_the_console_is_noticed(self):
        policy = re.search(r"<meta http-equiv=[^\n]*\n", (self.folder / "good.html").read_text(encoding="utf-8")).group()
        page = self.open_changed([(policy, ""), ("</body>", "<script>console.error('injected')</script></body>")])
        self.assertEqual(len(page.console), 1, page.console)
        self.assertIn("injected", page.console[0])

    def test_the_policy_keeps_scripts_and_resources_out(self):
        page = self.open_changed([("</body>", "<script>document.title = 'ran'</script><img src='file:///x.png'></body>")])
        self.assertNotIn("<title>ran</title>", page.tree)
        self.assertEqual(len(page.console), 2, page.console)


if __name__ == "__main__":
    os.environ.pop("DISPLAY", None)
    unittest.main(argv=sys.argv[:1])
