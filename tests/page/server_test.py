"""The page and its server: keys, doors, a server that dies and comes back, and what the page costs it."""

import contextlib
import gzip
import time
import unittest

from page_case import BASE_URL, PageCase, support

from checks import flaws


def fetched(server, path, **headers):
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read()


class Doors(PageCase):
    def test_files_are_packed_typed_and_held_to_this_server(self):
        server = self.server("--api-key", "sesame")
        for path, kind in (("/", "text/html"), ("/web/page.js", "text/javascript"), ("/web/page.css", "text/css")):
            status, fields, plain = fetched(server, path)
            self.assertEqual(status, 200, path)
            self.assertTrue(fields["content-type"].startswith(kind))
            self.assertNotIn("content-encoding", fields)
            self.assertIn("default-src 'none'", fields["content-security-policy"])
            self.assertNotIn("unsafe", fields["content-security-policy"])
            _, fields, packed = fetched(server, path, **{"Accept-Encoding": "gzip, deflate"})
            self.assertEqual(fields["content-encoding"], "gzip")
            self.assertEqual(gzip.decompress(packed), plain)
            self.assertEqual(fetched(server, path, Host="attacker.example")[0], 403)
            self.assertEqual(fetched(server, path, Origin="http://attacker.example")[0], 403)

    def test_a_key_is_asked_once_and_a_wrong_one_refused(self):
        server = self.server("--api-key", "sesame")
        tab = self.browser.tab()
        tab.open(BASE_URL.format(server.port))
        tab.wait("document.querySelector('dialog[open] input[type=password]')")
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "key")
        for key in ("wrong", "sesame"):
            tab.run("document.querySelector('dialog[open] input').select()")
            tab.type(key)
            tab.press("Enter")
            if key == "wrong":
                tab.has("The server does not know this key.")
        tab.wait("document.querySelector('.state.live') && !document.querySelector('dialog[open]')")
        self.assertNotIn("sesame", tab.run("document.cookie + JSON.stringify(localStorage) + location.href"))
        tab.call("Page.reload")
        tab.wait("document.querySelector('.state.live')")
        self.assertFalse(tab.run("document.querySelector('dialog[open]') !== null"))
        other = self.browser.tab()
        other.open(BASE_URL.format(server.port))
        other.wait("document.querySelector('dialog[open]')")

    def test_a_dialog_that_was_closed_comes_back_when_it_is_wanted(self):
        server = self.server("--api-key", "sesame")
        tab = self.browser.tab()
        tab.open(BASE_URL.format(server.port))
        tab.wait("document.querySelector('dialog[open] input')")
        tab.press("Escape")
        tab.wait("!document.querySelector('dialog[open]')")
        tab.has("The server refuses")
        self.assertEqual(flaws(tab), [])
        self.picture(tab, "refused")
        for key in ("wrong", "sesame"):
            tab.click_button("Enter the key…")
            tab.wait("document.querySelector('dialog[open]') && document.activeElement.name === 'key'")
            tab.run("document.activeElement.select()")
            tab.type(key)
            tab.press("Enter")
            if key == "wrong":
                tab.has("The server does not know this key.")
                tab.press("Escape")
                tab.wait("!document.querySelector('dialog[open]')")
        tab.wait("document.querySelector('.state.live') && !document.querySelector('dialog[open], .banner')")

    def test_a_refusal_is_asked_for_ever_more_rarely(self):
        for flags in (("--api-key", "sesame"), ("--no-cache-api",)):
            with self.subTest(flags[0]):
                server = self.server(*flags)
                tab = self.browser.tab()
                tab.open(BASE_URL.format(server.port) + "#prefixes")
                tab.has("The server refuses")
                asks = lambda tab=tab: sum(len(tab.asked(path)) for path in ("/cache", "/cache/tree", "/cache/explain", "/cache/offenders"))
                support.wait_until(lambda asks=asks: asks() >= 2, "the page asks again", limit_s=60)
                time.sleep(8)
                self.assertLessEqual(asks(), 4)  # after 0, 2, 6 and 14 s
                self.assertLessEqual(server.log().count("http GET /cache"), 4, "each is a line of the log")

    def test_routes_that_are_off_leave_the_rest(self):
        tab = self.browser.tab()
        tab.open(BASE_URL.format(self.server("--no-cache-api").port) + "#chat")
        tab.wait("document.querySelector('.composer')")
        tab.click(".composer textarea")
        tab.type("hello")
        tab.press("Escape")
        tab.has("The server refuses")


class Life(PageCase):
    def test_it_comes_back_with_its_server(self):
        server = self.server("--kv-disk-dir", support.fresh_directory())
        self.converse(server, support.words(100, 21))
        tab = self.open(server)
        tab.wait("document.querySelector('.request')")
        server.kill()
        tab.has("The server does not answer.")
        tab.wait("document.querySelector('.state.lost')")
        self.assertIn("Last requests", tab.text(), "the last figures stay")
        self.picture(tab, "lost")
        server.start()
        tab.wait("document.querySelector('.state.live')")
        tab.wait("!document.querySelector('.banner')")
        self.converse(server, support.words(100, 21))
        tab.wait("document.querySelector('.request .part.disk')")
        unexpected = [said for said in tab.complaints() if "ERR_CONNECTION" not in said and "ERR_EMPTY" not in said]
        self.assertEqual(unexpected, [])

    def test_a_reply_that_its_server_did_not_end_says_so(self):
        server = self.server()
        tab = self.open(server, "chat")
        tab.click("details summary")
        tab.click(".pair input")
        tab.run("document.querySelector('.pair input').select()")
        tab.type("4000")
        tab.click(".composer textarea")
        tab.type("write much")
        tab.press("Enter")
        tab.wait("document.querySelector('.message.assistant .text')")
        server.kill()
        tab.wait("document.querySelector('.message .error')?.innerText !== ''")

    def test_looking_makes_no_work_for_the_model(self):
        server = self.server()
        tab = self.open(server)
        tab.wait("document.querySelector('.tiles')")
        before, asked = server.decoded_ids(), len(tab.asked("/cache"))
        support.wait_until(lambda: len(tab.asked("/cache")) >= asked + 3, "the page looks", limit_s=60)
        self.assertEqual(server.decoded_ids(), before)


if __name__ == "__main__":
    unittest.main()
