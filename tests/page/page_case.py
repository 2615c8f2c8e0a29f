"""The base of the suites of the page: a real server for a class, and a browser."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

import support  # noqa: E402
from devtools import Browser  # noqa: E402

BASE_URL = "http://127.0.0.1:{}/"
# Pictures of what the tests saw, for people: a folder that is there, or none.
PICTURES = os.environ.get("KVKEEP_PICTURES", "")


class PageCase(support.ServerCase):
    @classmethod
    def start_class_servers(cls):
        cls.browser = cls._class_stack.enter_context(Browser())

    def open(self, server, view="live", **settings):
        """A new tab with the page in it, when the page knows the server's state."""
        tab = self.browser.tab(**settings)
        tab.open(BASE_URL.format(server.port) + "#" + view)
        tab.wait("document.querySelector('.state.live')")
        return tab

    def picture(self, tab, name):
        if PICTURES:
            tab.picture(os.path.join(PICTURES, f"{name}.png"))

    def converse(self, server, text, **fields):
        return server.post("/v1/chat/completions", {"messages": [support.user(text)], "max_tokens": 4, **fields})
