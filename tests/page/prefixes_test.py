"""The view of stored prefixes: the tree, pins, warming, forgetting, and ten thousand nodes."""

import json
import time

from page_case import BASE_URL, PageCase, support

from checks import flaws


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

    def test_each_piece_is_a_level_below_the_one_before_it(self):
        tab = self.browser.tab()
        line = [{"number": number, "parent": number - 1, "id": f"{number:016x}", "begin": 90 * number, "end": 90 * number + 90,
                 "ram_bytes": 900, "last_use": 0} for number in (1, 2, 3)]
        tab.serve("/cache/tree", json.dumps({"now": 0, "prefixes": line, "next": None}))
        tab.open(BASE_URL.format(self.stored().port) + "#prefixes")
        tab.has("3 nodes, 1 end of conversations")
        self.assertEqual(tab.run("[...document.querySelectorAll('.row')].map(row => row.ariaLevel)"), ["1", "2", "3"])
        self.assertEqual(tab.run("new Set([...document.querySelectorAll('.row')].map(row => row.style.paddingLeft)).size"), 1)

    def test_keys_walk_the_tree_as_any_other(self):
        tab = self.browser.tab()
        # 1 has the children 2 and 3; 4 is a conversation of its own.
        tree = [{"number": number, "parent": parent, "id": f"{number:016x}", "begin": begin, "end": begin + 90, "ram_bytes": 900,
                 "last_use": -number} for number, parent, begin in ((1, 0, 0), (2, 1, 90), (3, 1, 90), (4, 0, 0))]
        tab.serve("/cache/tree", json.dumps({"now": 0, "prefixes": tree, "next": None}))
        tab.open(BASE_URL.format(self.stored().port) + "#prefixes")
        tab.has("4 nodes, 3 ends of conversations")
        self.assertEqual(tab.run("[...document.querySelectorAll('.row')].map(row => `${row.ariaPosInSet}/${row.ariaSetSize}`)"),
                         ["1/2", "1/2", "2/2", "2/2"])
        place = "document.getElementById(document.querySelector('.list').getAttribute('aria-activedescendant'))"
        selected = f"[...document.querySelectorAll('.row')].indexOf({place}?.ariaSelected === 'true' ? {place} : null)"
        tab.run("document.querySelector('.list').focus()")
        self.assertTrue(tab.run(f"{place} !== null"), "readers learn where the keys are before one is pressed")
        # What each key leads to: the row that is selected then. Leaves have nowhere to go, nor have closed roots.
        for key, row, rows in (("ArrowDown", 0, 4), ("ArrowRight", 1, 4), ("ArrowRight", 1, 4), ("ArrowDown", 2, 4), ("ArrowRight", 2, 4),
                               ("ArrowDown", 3, 4), ("ArrowLeft", 3, 4), ("ArrowUp", 2, 4), ("ArrowLeft", 0, 4), ("ArrowLeft", 0, 2),
                               ("ArrowLeft", 0, 2), ("ArrowDown", 1, 2), ("ArrowLeft", 1, 2), ("ArrowUp", 0, 2)):
            tab.press(key)
            tab.wait(f"{selected} === {row} && document.querySelectorAll('.row').length === {rows}")

    def test_a_prefix_is_pinned_and_unpinned(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.click(".row")
        support.wait_until(lambda: self.on_disk(server), "the prefix is on disk")
        tab.click_button("Pin")
        tab.has("The prefix is pinned.")
        tab.wait("document.querySelector('.row.active .chip')?.innerText === 'pinned'")
        tab.click_button("Unpin")
        tab.has("The prefix is no longer pinned.")
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
        tab.has("of this page's tenant")
        self.assertEqual(flaws(tab), [])
        tab.click_button("Forget it", "dialog")
        tab.has("The server forgot ")
        tab.has("Nothing is stored yet.")
        self.assertEqual(server.get("/cache/tree")["prefixes"], [])

    def test_a_prompt_is_warmed(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.click("details summary")
        tab.click("details textarea")
        tab.type(support.words(120, 6))
        tab.click_button("Warm it")
        tab.has("The prompt is warm: ")
        lookup = server.post("/cache/lookup", {"prompt": support.words(120, 6)})
        self.assertGreater(lookup["cached_tokens"], 100)
        tab.run("document.querySelector('details textarea').select()")
        tab.type("{not json")
        tab.click_button("Warm it")
        tab.wait("document.querySelector('#warm-error').innerText !== ''")

    def test_a_request_is_warmed_as_one_of_its_own_api(self):
        server = self.stored()
        for path, body in (
                ("/v1/chat/completions", {"messages": [support.system(support.words(150, 21)), support.user("hi")]}),
                ("/v1/messages", {"system": support.words(150, 22), "messages": [support.user("hi")], "max_tokens": 2}),
                ("/v1/responses", {"instructions": support.words(150, 23), "input": "hi"})):
            tab = self.open(server, "prefixes")
            tab.click("details summary")
            tab.click("details textarea")
            tab.type(json.dumps({"model": "x", **body}))
            tab.click_button("Warm it")
            tab.has("The prompt is warm: ")
            reply = server.post(path, {"model": "x", "max_tokens": 2, "max_output_tokens": 2, **body})
            self.assertGreater(support.timings(reply)["cache_n"], 150, path)
            self.assertLessEqual(support.timings(reply)["prompt_n"], 1, path)

    def test_ten_thousand_nodes_are_smooth(self):
        tab = self.browser.tab()
        tab.serve("/cache/tree", paged(large_tree(10_000)))
        tab.main_thread_ms()
        tab.open(BASE_URL.format(self.stored().port) + "#prefixes")
        tab.has("10,000 nodes")
        self.assertLess(tab.run("document.querySelectorAll('.row').length"), 60, "only rows in view exist")
        tab.wait(f"{INK} > 10_000")  # pixels of the map
        self.assertGreater(tab.run("document.querySelector('.list').scrollHeight"), 150 * 34, "there is much to scroll over")
        for what, step in (("scrolling", "list.scrollTop += 120"), ("choosing", press("ArrowDown")), ("pointing", POINT)):
            with self.subTest(what):
                taken = frame_ms(tab, step)
                print(f"{what} in a tree of 10,000 nodes: {taken:.1f} ms per frame")
                self.assertLess(taken, 16)
        # The row that keys act on stays, however far it was scrolled away.
        tab.run(f"(list => {{ {press('Home')}; }})(document.querySelector('.list'))")
        first = "document.querySelector('.row.active .span').innerText === '0–9,000'"
        tab.wait(f"document.querySelector('.list').scrollTop === 0 && {first}")  # else that scrolls it after the next line
        tab.run("document.querySelector('.list').scrollTop = 1e6")
        tab.wait(f"document.querySelector('.list').scrollTop > 2000 && {first}")
        self.assertEqual(tab.run("document.querySelectorAll('.row.active').length"), 1)
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "ten-thousand")
        self.assertEqual(tab.complaints(), [])


    def test_ten_thousand_nodes_that_change_hold_up_no_frame(self):
        server, tab = self.stored(), self.browser.tab()
        tab.serve("/cache/tree", paged(large_tree(10_000)))
        tab.open(BASE_URL.format(server.port) + "#prefixes")
        tab.has("10,000 nodes")
        tab.click(".row")
        rounds = []
        for change in range(1, 6):
            tab.serve("/cache/tree", paged(large_tree(10_000 + change)))

            def refresh(change=change):
                self.converse(server, support.words(80, 30 + change))
                tab.has(f"10,00{change} nodes")

            tasks = tab.tasks_ms(refresh)
            self.assertGreater(sum(tasks), 5, "the work was seen")
            rounds.append(max(tasks))
        print("longest task of each refresh of 10,000 nodes:", ", ".join(f"{one:.1f}" for one in rounds), "ms")
        self.assertLess(sorted(rounds)[len(rounds) // 2], 16)
        self.assertEqual(tab.complaints(), [])

    def test_the_tree_is_asked_for_when_it_changed(self):
        server = self.stored()
        tab = self.open(server, "prefixes")
        tab.wait("document.querySelector('.row')")
        support.wait_until(lambda: self.on_disk(server), "the prefixes are on disk")
        time.sleep(4.5)  # two looks: the page knows that
        before, looks = len(tab.asked("/cache/tree")), len(tab.asked("/cache"))
        for _ in range(3):
            server.post("/v1/chat/completions", {"messages": [support.user("hi")], "max_tokens": 0, "cache_prompt": False})
            time.sleep(1.5)
        self.assertGreaterEqual(len(tab.asked("/cache")) - looks, 2, "the page looks")
        self.assertEqual(len(tab.asked("/cache/tree")), before, "requests that stored nothing changed no tree")
        self.converse(server, support.words(90, 41))
        support.wait_until(lambda: len(tab.asked("/cache/tree")) > before, "the page asks for the tree")


INK = """(() => { const canvas = document.querySelector("canvas");
  if (canvas.width === 0) return 0;
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
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


def paged(tree):
    """Answers as the server does, page by page."""
    def answer(query):
        after, limit = int(query["after"]), int(query["limit"])
        page = [one for one in tree["prefixes"] if one["number"] > after][:limit]
        return json.dumps({**tree, "prefixes": page, "next": page[-1]["number"] if page and page[-1] is not tree["prefixes"][-1] else None})
    return answer


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
