"""The page at "/", in a browser, served by a real server."""

import json
import re
import threading
import time
import unittest

from page_case import BASE_URL, PageCase, support

from checks import FAINT_TEXT, flaws

SOURCES = ".request:first-child .part"


# Parts of tables and lists that are wider than their frames.
CUT = """[...document.querySelectorAll(".wide, .row .label, .row .span")].filter(one => one.scrollWidth > one.clientWidth + 1)
    .map(one => one.innerText.slice(0, 60))"""


class LivePage(PageCase):
    @classmethod
    def start_class_servers(cls):
        super().start_class_servers()
        cls.shared = cls.class_server("--kv-disk-dir", support.fresh_directory())

    def test_it_loads_without_a_complaint_and_shows_the_server(self):
        self.converse(self.shared, support.words(60, 1))
        tab = self.open(self.shared)
        for text in ("Reused of all prompts", "Time saved since start", "Last requests", "Tiers", "RAM"):
            tab.has(text)
        self.assertEqual(tab.run("document.title"), "Live – kvkeep")
        self.assertEqual(tab.complaints(), [])
        self.assertEqual(flaws(tab), [])
        loaded = tab.run("performance.getEntriesByType('resource').filter(one => one.name.includes('/web/')).length")
        self.assertEqual(loaded, 2)
        self.picture(tab, "live")

    def test_everything_that_a_browser_loads_is_small(self):
        sizes = [len(self.shared.get(path)) for path in ("/", "/web/page.js", "/web/page.css")]
        self.assertLess(sum(sizes), 300_000)

    def test_a_stream_is_followed_while_it_runs(self):
        server = self.server("-c", 65536)  # room for a reply that is still being written when it is looked at
        tab = self.open(server)
        body = {"messages": [support.user(support.words(300, 2))], "max_tokens": 60_000, "ignore_eos": True, "stream": True}
        stopped = threading.Event()

        def read():
            for _ in server.stream("/v1/chat/completions", body):
                if stopped.is_set():
                    return

        reader = threading.Thread(target=read)
        reader.start()
        try:
            written = "Number(document.querySelector('.running .figures b')?.innerText.replaceAll(',', ''))"
            first = tab.wait(f"{written} > 0 && {written}")
            tab.wait(f"{written} > {first}")
            tab.wait("document.querySelector('.curve.sampled')?.getBBox().height > 5")
            self.assertIn("writes", tab.run("document.querySelector('.running').innerText"))
            self.assertEqual(flaws(tab), [])
            self.picture(tab, "running")
        finally:
            stopped.set()
            reader.join()
        tab.has("Nothing runs")

    def test_a_request_is_explained_when_it_is_clicked(self):
        text = support.words(80, 3)
        self.converse(self.shared, text)
        self.converse(self.shared, text + " and more")
        tab = self.open(self.shared)
        tab.wait("document.querySelectorAll('.request').length >= 2")
        tab.wait(f"document.querySelector('{SOURCES}.memory') && document.querySelector('{SOURCES}.prefilled')")
        self.assertEqual(tab.run("document.querySelector('.request button').getAttribute('aria-expanded')"), "false")
        tab.click(".request:first-child button")
        tab.wait("document.querySelector('.request button').getAttribute('aria-expanded') === 'true'")
        self.assertIn("Only new text was prefilled.", tab.run("document.querySelector('.explanation').innerText"))
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "explained")
        tab.click(".request:first-child button")
        tab.wait("document.querySelector('.explanation').hidden")

    def test_offenders_and_tenants_are_told(self):
        server = self.server("--kv-disk-dir", support.fresh_directory())
        for day in (4, 5):
            server.chat([support.system(f"Today is 2026-05-0{day}.\n{support.words(150, 8)}"), support.user("hi")], max_tokens=4)
        self.converse(server, support.words(40, 9), cache_salt="a secret")
        tab = self.open(server)
        support.wait_until(lambda: all(one["disk_bytes"] for one in server.get("/cache")["tenants"]), "all is on disk")
        tab.has("Why prompts are prefilled again")
        self.assertIn("volatile text: date, in system", tab.run("document.querySelector('.offender').innerText"))
        self.assertIn("In 1 of ", tab.run("document.querySelector('.offender').innerText"))
        tab.click(".request:first-child button")
        tab.has("--explain-text")
        tab.wait("document.querySelector('.request:first-child .facts')?.innerText.includes('prefilled')")
        rows = tab.wait("(rows => rows.length === 2 && rows)([...document.querySelectorAll('tbody tr')].map(row => row.innerText))")
        self.assertTrue(rows[0].startswith("2") and "you" in rows[1], rows)
        self.assertTrue(all(re.search(r"\d (KiB|MiB)\s.* on disk", row) for row in rows), rows)
        self.assertNotIn("secret", tab.text())
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "offenders")
        self.assertEqual(tab.complaints(), [])

    def test_state_that_left_is_no_text_that_differs(self):
        tab = self.browser.tab()
        lost = {"kind": "evicted", "lost_tokens": 4000, "lost_ms": 900, "lost": {"cause": "ram-budget", "t": time.time() - 60}, "advice": "Raise it."}
        tab.serve("/cache", json.dumps({"ended": [{"id": "a", "kind": "chat", "ended": time.time(), "prefilled_tokens": 5000}]}))
        tab.serve("/cache/explain", json.dumps({"requests": [{"id": "a", "client": None, "route": "chat", "cache_break": lost}]}))
        tab.serve("/cache/offenders", json.dumps({"offenders": [{**lost, "client": "", "times": 3, "requests": 9}]}))
        tab.open(BASE_URL.format(self.shared.port))
        told = tab.wait("document.querySelector('.offender')?.innerText")
        for part in ("evicted", "clients without a name", "In 3 of 9 requests: 4k tokens prefilled again", "Raise it."):
            self.assertIn(part, told)
        self.assertNotIn("iffer", told)
        tab.click(".request button")
        tab.has("RAM was full (--cache-ram)")
        self.assertNotIn("hides", tab.text())

    def test_it_is_used_with_the_keyboard(self):
        self.converse(self.shared, "hello")
        tab = self.open(self.shared)
        tab.wait("document.querySelector('.request')")
        tab.press("Tab")
        self.assertEqual(tab.run("document.activeElement.className"), "skip")
        for _ in range(20):
            if tab.run("document.activeElement.closest('.request') !== null"):
                break
            tab.press("Tab")
        tab.press("Enter")
        tab.wait("document.activeElement.getAttribute('aria-expanded') === 'true'")
        tab.press("2")
        tab.wait("location.hash === '#prefixes' && document.title.startsWith('Prefixes')")
        tab.wait("document.activeElement.id === 'main'")
        tab.press("3")
        tab.wait("document.title.startsWith('Chat')")
        tab.click(".composer textarea")
        tab.type("1")
        tab.press("1")
        self.assertEqual(tab.run("document.querySelector('.composer textarea').value"), "11", "digits that are typed choose no view")
        self.assertEqual(tab.complaints(), [])

    def test_no_view_is_wider_than_a_phone_or_faint_in_the_dark(self):
        for salt in ({}, {"cache_salt": "another tenant"}):
            self.converse(self.shared, support.words(60, 4), **salt)
        for view in ("live", "prefixes", "chat"):
            for settings in ({"width": 360, "phone": True}, {"dark": True}, {"width": 360, "dark": True}):
                with self.subTest(view, **settings):
                    tab = self.open(self.shared, view, **settings)
                    if view == "live":
                        tab.click(".request button")
                    if view == "prefixes":
                        tab.click(".row")
                    self.assertEqual(flaws(tab), [])
                    self.assertEqual(tab.run(CUT), [], "tables and lists are read without scrolling sideways")
                    if settings.get("dark"):
                        ground = tab.run("getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
                        self.assertLess(sum(ground), 150)
                    self.picture(tab, f"{view}-{'-'.join(map(str, settings.values()))}")

    def test_a_hidden_page_asks_for_nothing(self):
        tab = self.open(self.shared)
        tab.run("""Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});
                   document.dispatchEvent(new Event('visibilitychange'))""")
        tab.wait("document.querySelector('.state.paused')")
        time.sleep(2.5)
        before = len(tab.asked("/cache"))
        time.sleep(2.5)
        self.assertEqual(len(tab.asked("/cache")), before)
        tab.run("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
        tab.wait("document.querySelector('.state.live')")

    def test_text_of_strangers_makes_no_element(self):
        tab = self.browser.tab()
        evil = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>\u202e"
        request = {"id": evil, "kind": evil, "ended": time.time(), "end": evil, "cache_miss_reason": evil, "prompt_tokens": 5, "prefilled_tokens": 5}
        tab.serve("/cache", json.dumps({"model": evil, "tiers": [{"name": evil, "used_bytes": 1}], "ended": [request], "running": [{"task": 1}]}))
        explained = {"id": evil, "client": evil, "cache_break": {"kind": evil, "place": evil, "advice": evil,
                                                                 "text": {"before": evil, "here": evil, "there": evil}}}
        tab.serve("/cache/explain", json.dumps({"requests": [explained]}))
        tab.open(BASE_URL.format(self.shared.port))
        tab.click(".request button")
        tab.wait("document.querySelector('.explanation dd mark')")
        self.assertEqual(tab.run("document.querySelectorAll('img, #page script').length"), 0)
        self.assertNotIn("\u202e", tab.text())
        self.assertNotEqual(tab.run("document.title"), "ran")
        self.assertEqual(tab.complaints(), [])

    # The checks above see what they are there for.

    def test_faint_text_is_noticed(self):
        tab = self.open(self.shared)
        tab.run("document.querySelector('h2').style.color = '#bbbbbb'")
        self.assertEqual(len(tab.run(FAINT_TEXT)), 1)

    def test_a_missing_name_and_a_wide_part_are_noticed(self):
        tab = self.open(self.shared)
        tab.run("document.querySelector('main').append(document.createElement('button'))")
        self.assertEqual(flaws(tab), ["without a name: button"])
        tab.run("document.querySelector('main').lastChild.remove(); document.querySelector('h2').style.width = '3000px'")
        self.assertTrue(any(flaw.startswith("too wide") for flaw in flaws(tab)))

    def test_inline_scripts_and_other_places_are_refused(self):
        tab = self.open(self.shared)
        tab.run("""(() => { const one = document.createElement('img'); one.src = 'http://127.0.0.1:9/x.png'; document.body.append(one); })()""")
        self.assertEqual(tab.run("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"), "refused")
        self.assertEqual(tab.run("(() => { try { document.body.innerHTML = '<b>x</b>'; return 'set'; } catch { return 'refused'; } })()"), "refused")
        self.assertGreaterEqual(len([said for said in tab.complaints() if "Content Security Policy" in said]), 2)


if __name__ == "__main__":
    support.main()
