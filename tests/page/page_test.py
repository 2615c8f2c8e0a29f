"""The page at "/", in a browser, served by a real server."""

import json
import threading
import time
import unittest

from page_case import BASE_URL, PageCase, support

from checks import FAINT_TEXT, flaws

SOURCES = ".request:first-child .part"


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
        tab = self.open(self.shared)
        body = {"messages": [support.user(support.words(300, 2))], "max_tokens": 2000, "stream": True}
        stopped = threading.Event()

        def read():
            for _ in self.shared.stream("/v1/chat/completions", body):
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
        server = self.server()
        for day in (4, 5):
            server.chat([support.system(f"Today is 2026-05-0{day}.\n{support.words(150, 8)}"), support.user("hi")], max_tokens=4)
        self.converse(server, support.words(40, 9), cache_salt="a secret")
        tab = self.open(server)
        tab.has("Texts that make prompts be read again")
        self.assertIn("volatile text: date, in system", tab.run("document.querySelector('.offender').innerText"))
        self.assertIn("Differed in 1 of ", tab.run("document.querySelector('.offender').innerText"))
        rows = tab.wait("(rows => rows.length === 2 && rows)([...document.querySelectorAll('tbody tr')].map(row => row.innerText))")
        self.assertTrue(rows[0].startswith("2") and "you" in rows[1], rows)
        self.assertNotIn("secret", tab.text())
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "offenders")
        self.assertEqual(tab.complaints(), [])

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
        self.converse(self.shared, support.words(60, 4))
        for view in ("live", "prefixes", "chat"):
            for settings in ({"width": 360, "phone": True}, {"dark": True}, {"width": 360, "dark": True}):
                with self.subTest(view, **settings):
                    tab = self.open(self.shared, view, **settings)
                    if view == "live":
                        tab.click(".request button")
                    if view == "prefixes":
                        tab.click(".row")
                    self.assertEqual(flaws(tab), [])
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


class Prefixes(PageCase):
    def stored(self, *flags):
        server = self.server("--kv-disk-dir", support.fresh_directory(), *flags)
        text = support.words(200, 5)
        for ending in ("", " river", " stone"):
            self.converse(server, text + ending)
        return server

    def test_the_tree_is_shown_and_walked(self):
        tab = self.open(self.stored(), "prefixes")
        tab.wait("document.querySelectorAll('.row').length >= 2")
        self.assertEqual(flaws(tab), [])
        tab.run("document.querySelector('.list').focus()")
        tab.press("ArrowDown")
        tab.wait("document.querySelector('.row.active')")
        chosen = "document.querySelector('.list').getAttribute('aria-activedescendant')"
        first = tab.run(chosen)
        tab.press("End")
        tab.wait(f"{chosen} !== {json.dumps(first)}")
        tab.has("last used")
        self.picture(tab, "prefixes")
        self.assertEqual(tab.complaints(), [])

    def test_a_prefix_is_pinned_and_unpinned(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.click(".row")
        support.wait_until(lambda: self.on_disk(server), "the prefix is on disk")
        tab.click_button("Pin")
        tab.has("Done: pinned.")
        tab.wait("document.querySelector('.row.active .chip')?.innerText === 'pinned'")
        tab.click_button("Unpin")
        tab.has("Done: no longer pinned.")
        tab.wait("document.querySelector('.row.active .chip')?.innerText !== 'pinned'")

    @staticmethod
    def on_disk(server):
        prefixes = server.get("/cache/tree")["prefixes"]
        return prefixes and all(one["disk_bytes"] > 0 for one in prefixes)

    def test_nothing_is_forgotten_without_a_yes(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.click(".row")
        tab.click_button("Forget…")
        tab.has("Forget this prefix?")
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "confirm")
        tab.click_button("Keep it", "dialog")
        tab.wait("!document.querySelector('dialog[open]')")
        self.assertGreater(len(server.get("/cache/tree")["prefixes"]), 0)
        tab.click_button("Forget…")
        tab.wait("document.querySelector('dialog[open]')")
        tab.press("Escape")
        tab.wait("!document.querySelector('dialog[open]')")
        self.assertGreater(len(server.get("/cache/tree")["prefixes"]), 0)

    def test_everything_is_forgotten_after_a_yes(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.wait("document.querySelector('.row')")
        tab.click("details:last-of-type summary")
        tab.click_button("Forget everything…")
        tab.click_button("Forget it", "dialog")
        tab.has("Done: forgotten.")
        tab.has("Nothing is stored yet.")
        self.assertEqual(server.get("/cache/tree")["prefixes"], [])

    def test_a_prompt_is_warmed(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.click("details summary")
        tab.click("details textarea")
        tab.type(support.words(120, 6))
        tab.click_button("Warm it")
        tab.has("Done: warm.")
        lookup = server.post("/cache/lookup", {"prompt": support.words(120, 6)})
        self.assertGreater(lookup["cached_tokens"], 100)
        tab.run("document.querySelector('details textarea').select()")
        tab.type("{not json")
        tab.click_button("Warm it")
        tab.wait("document.querySelector('#warm-error').innerText !== ''")

    def test_ten_thousand_nodes_are_smooth(self):
        tab = self.browser.tab()
        tab.serve("/cache/tree", json.dumps(large_tree(10_000)))
        tab.main_thread_ms()
        tab.open(BASE_URL.format(self.stored().port) + "#prefixes")
        tab.has("10,000 nodes")
        self.assertLess(tab.run("document.querySelectorAll('.row').length"), 60, "only rows in view exist")
        self.assertGreater(tab.run(INK), 10_000, "the map is drawn")
        for what, step in (("scrolling", "list.scrollTop += 120"), ("choosing", press("ArrowDown")), ("pointing", POINT)):
            with self.subTest(what):
                self.assertLess(frame_ms(tab, step), 16)
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "ten-thousand")
        self.assertEqual(tab.complaints(), [])


INK = """(() => { const canvas = document.querySelector("canvas"), {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let ink = 0;
  for (let i = 3; i < data.length; i += 4) ink += data[i] > 0;
  return ink; })()"""
POINT = "document.querySelector('canvas:last-child').dispatchEvent(new PointerEvent('pointermove', {clientX: 300 + i, clientY: 300, bubbles: true}))"


def press(key):
    return f"list.dispatchEvent(new KeyboardEvent('keydown', {{key: {json.dumps(key)}, bubbles: true}}))"


def frame_ms(tab, step, frames=60):
    """Processor time of the page's thread for a frame in which this happens: the median of five rounds."""
    rounds = []
    for _ in range(5):
        before = tab.main_thread_ms()
        tab.run(f"""(async () => {{ const list = document.querySelector(".list");
            for (let i = 0; i < {frames}; ++i) {{ {step}; await new Promise(requestAnimationFrame); }} }})()""")
        rounds.append((tab.main_thread_ms() - before) / frames)
    return sorted(rounds)[2]


def large_tree(count):
    """Conversations that branch from each other, as the server lists them."""
    now = time.time()
    prefixes = [{"number": 1, "parent": 0, "begin": 0, "end": 9000}]
    for number in range(2, count + 1):
        parent = prefixes[-1 if number % 3 else (number * 7919) % len(prefixes)]
        prefixes.append({"number": number, "parent": parent["number"], "begin": parent["end"],
                         "end": parent["end"] + 50 + number * 37 % 900})
    for one in prefixes:
        size = (one["end"] - one["begin"]) * 1000
        one.update(id=f"{one['number']:016x}", ram_bytes=size if one["number"] % 4 == 0 else 0, disk_bytes=size, points=0, hits=one["number"] % 9,
                   last_use=now - one["number"] * 61 % 900_000, pinned=False, kept_until=None)
    return {"now": now, "prefixes": prefixes, "next": None}


if __name__ == "__main__":
    support.main()
