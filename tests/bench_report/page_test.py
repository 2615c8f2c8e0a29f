"""Opens pages of reports in Chromium: none may leave a line on the console, and all must draw what the JSON in them says.

    page_test.py MAKE_REPORT
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from browser import Opened

MAKE_REPORT = sys.argv[1]
OPEN_ALL = """<script nonce="page">for (const one of document.querySelectorAll("details")) one.open = true;</script>"""


def text_of(tree):
    """The text of an element: a line for each cell and paragraph."""
    return html.unescape(re.sub(r"<[^>]*>", "\n", tree))


class PageTest(unittest.TestCase):
    opened = {}  # pages by name: a browser takes seconds for each

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kvkeep-report-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([MAKE_REPORT, cls.folder], check=True, timeout=60)

    @classmethod
    def read(cls, name):
        """The page, and what it draws, without scripts and the JSON."""
        page = Opened(cls.folder / f"{name}.html", cls.folder / "profile")
        page.drawn = re.sub(r"<script.*?</script>", "", page.tree[page.tree.index("<body>"):], flags=re.DOTALL)
        return page

    def open(self, name):
        if name not in self.opened:
            self.opened[name] = self.read(name)
        return self.opened[name]

    def open_changed(self, changes, name="good"):
        """A page with some of its text replaced."""
        text = (self.folder / f"{name}.html").read_text(encoding="utf-8")
        for old, new in changes:
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        (self.folder / "changed.html").write_text(text, encoding="utf-8")
        return self.read("changed")

    def open_with_details(self, name):
        return self.open_changed([("</body>", OPEN_ALL + "</body>")], name)

    def rows(self, page):
        """The cells of each row."""
        return [[re.sub(r"\s+", " ", text_of(cell)).strip() for cell in re.findall(r"<t[dh][ >].*?</t[dh]>", row, re.DOTALL)]
                for row in re.findall(r"<tr>.*?</tr>", page.tree, re.DOTALL)]

    def test_pages_are_silent(self):
        for name in ("empty", "good", "hostile", "huge", "problems", "refused", "small", "unanswered", "wide"):
            with self.subTest(name):
                self.assertEqual(self.open(name).console, [])

    def test_a_full_report_has_its_parts(self):
        page = self.open("problems")
        self.assertEqual(page.count('svg class="plot"'), 48)
        self.assertEqual(page.count('svg class="bar"'), 24)
        self.assertEqual(page.count("details"), 24)
        self.assertEqual(page.count("h1"), 1)
        self.assertIn("turn main 6: connection closed before the first token", page.drawn)
        places = [page.drawn.index(f'id="{name}"') for name in ("problems", "summary", "parts", "runs")]
        self.assertEqual(places, sorted(places))

    def test_the_page_shows_the_runs(self):
        page = self.open("small")
        text = text_of(page.drawn)
        for part in ("2 × AMD EPYC, 24 GiB of memory, Debian GNU/Linux 12", "2026-11-20T18:04:11Z",
                     "small.gguf (llama, 12M parameters, F16)", "0.7.0 (build 11669)", "serve -c 8192 -t 1 --restore always"):
            self.assertIn(part, text)
        self.assertIn("<title>kvkeep bench</title>", page.tree)

    def test_problems_are_those_of_the_terminal(self):
        problems = re.findall(r"<li>(.*?)</li>", self.open("small").drawn)
        self.assertEqual([html.unescape(problem) for problem in problems],
                         ["growing on llama-server (default cache): turn main 3: status 503, Loading model",
                          "growing on llama-server (default cache): ratio 1.847 is above its bound 1.020",
                          "lookup of a 100k-token prompt: 2.500 ms misses its goal <= 2 ms"])
        self.assertNotIn('id="problems"', self.open("good").drawn)

    def test_ratios_times_and_parts_stand_in_their_rows(self):
        page = self.open("small")
        rows = self.rows(page)
        self.assertIn(["12 growing turns growing", "kvkeep", "1.000", "", "1.020", "2", "1,180", "1,180", "1,000",
                       "24.4 16.4 to 32.3", "1.250"], rows)
        self.assertIn(["llama-server (default cache)", "1.847", "", "1.020 exceeded", "3 1 failed", "2,180 as claimed",
                       "1,180", "0", "42.5 41.8 to 43.3", "–"], rows)
        self.assertIn(["lookup of a 100k-token prompt", "2.500", "ms", "2.250 to 2.750", "15", "<= 2 ms", "missed"], rows)
        self.assertIn(["decode", "1628", "us of CPU per token", "1600 to 1701", "15", "", ""], rows)
        self.assertEqual(page.count('rect class="excess"'), 1)
        self.assertEqual(page.count('rect class="front"'), 1)
        self.assertEqual(page.count('td class="bad"'), 3, "a ratio, its bound and a goal")

    def test_requests_are_listed_when_they_are_opened(self):
        rows = self.rows(self.open_with_details("small"))
        self.assertIn(["2", "turn main 2", "200", "1,180", "1,000", "180", "180", "180", "memory-token", "24", "8.5",
                       "199.0", "126.0"], rows)
        self.assertIn(["3", "turn main 3 Loading model", "503", "–", "–", "–", "–", "", "", "–", "", "", ""], rows)

    def test_a_missing_measurement_is_no_figure(self):
        page = self.open_with_details("unanswered")
        self.assertIn(["Refused refused", "llama-server", "–", "", "", "1 1 failed", "–", "–", "–", "–", "–"], self.rows(page))
        self.assertIn("0 requests, none was answered.", page.drawn)
        self.assertNotIn("0.000", page.drawn)
        self.assertIn("parity: llama-server did not start", page.drawn)

    def test_a_refused_workload_is_noted_and_no_problem(self):
        page = self.open("refused")
        self.assertIn(["llama-server", "–", "", "", "2 refused", "–", "–", "–", "–", "–"], self.rows(page))
        reason = "request 2 (turn main 2): status 400: raise -np"
        self.assertIn(f"<li>choices on llama-server: {reason}</li>", page.drawn)
        self.assertIn(f"Refused at {reason}.", page.drawn)
        self.assertNotIn('id="problems"', page.drawn)
        self.assertNotIn('class="bad"', page.drawn)

    def test_the_page_opens_with_what_was_found(self):
        text = text_of(self.open("refused").drawn).split("\n")
        lines = [line for line in map(str.strip, text) if line]
        title = lines.index("kvkeep bench")  # after words for browsers without scripts
        self.assertEqual(lines[title + 1], "kvkeep 1.00, llama-server 1.85")
        self.assertNotIn("never computed before", text_of(self.open("empty").drawn))

    def test_claims_and_doubts_are_reported(self):
        unseen = '\n   "server_cpu_seconds": null'
        page = self.open_changed([('"sum_was_counted": false,' + unseen, '"sum_was_counted": true,' + unseen),
                                  ('"unmeasurable": ""', '"unmeasurable": "it spreads"')], "small")
        self.assertIn("as claimed, sum counted", page.drawn)
        self.assertIn("as the server's replies say; their sum was counted at its engine.", page.drawn)
        self.assertIn("not measurable here", page.drawn)

    def test_long_runs_are_thinned_and_say_so(self):
        page = self.open("huge")
        self.assertIn("Of 10,000 requests the plots show 400 and the table 1,000: ", page.drawn)
        self.assertLess(len(page.drawn), 500_000)

    def test_hostile_text_makes_no_element(self):
        page = self.open_with_details("hostile")
        self.assertEqual(page.count("script"), 3, "the JSON, the page's and this test's")
        self.assertEqual(page.count("textarea"), 0)
        self.assertEqual(page.count("style"), 1)
        self.assertIn("&lt;script&gt;", page.drawn)
        self.assertNotRegex(page.drawn, "[\x00-\x08\x0b-\x1f\x7f\u202e\u2066\u2028]")
        self.assertNotIn("x" * 1000, page.drawn, "errors of 100 kB are shortened")
        self.assertNotRegex(page.drawn, r' (d|x|y|width|height)="[^"]*(NaN|Infinity|undefined|e[+-]?[0-9])')

    def test_every_tick_is_round_and_there_are_few(self):
        for plot in re.findall(r'<svg class="plot".*?</svg>', self.open("good").drawn, re.DOTALL):
            labels = re.findall(r'<text [^>]*text-anchor="end">([^<]*)</text>', plot)
            self.assertIn(len(labels), range(3, 7), labels)
            for label in labels:
                self.assertRegex(label, r"^(0|[1-9]\d*(\.\d+)?[kM]?|0\.\d+)$")

    # The checks above see what they are there for.

    def test_an_error_on_the_console_is_noticed(self):
        page = self.open_changed([("</body>", "<script nonce='page'>console.error('injected')</script></body>")])
        self.assertEqual(len(page.console), 1, page.console)
        self.assertIn("injected", page.console[0])

    def test_the_policy_keeps_scripts_and_resources_out(self):
        page = self.open_changed([("</body>", "<script>document.title = 'ran'</script><img src='file:///x.png'></body>")])
        self.assertNotIn("<title>ran</title>", page.tree)
        self.assertEqual(len(page.console), 2, page.console)


if __name__ == "__main__":
    os.environ.pop("DISPLAY", None)
    unittest.main(argv=sys.argv[:1])
