"""The base of the two suites of flag tests. A flag that can do no more on a machine without other devices, or with a
model without experts and windows, is followed to libllama's door by a preloaded shim (param_shim.cc).
"""

import os
import re

from support import ServerCase, fresh_path, words

COMPLETION = "/v1/completions"
FLAGS_PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "flags.md")
PARAM_SHIM = os.environ["KVKEEP_PARAM_SHIM"]
covered = set()


def covers(*flags):
    """Names the flags whose effect a test observes; flags_coverage_test.py compares them with the page."""
    covered.update(flags)
    return lambda test: test


def documented_flags():
    """Per row of the page the spellings of its flag."""
    rows = []
    with open(FLAGS_PAGE) as page:
        for line in page:
            if line.startswith("| `-"):
                rows.append(set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", line.split("`")[1])))
    return rows


class FlagCase(ServerCase):
    def text(self, server, count=100, **fields):
        """A greedy text computed from nothing, so that only flags can change it."""
        body = {"prompt": words(count, 5), "max_tokens": 24, "temperature": 0, "cache_prompt": False, **fields}
        return server.post(COMPLETION, body)["choices"][0]["text"]

    def text_with(self, *flags, **keywords):
        with self._make(self._logs, flags, keywords) as server:
            return self.text(server)

    def params(self, *flags):
        """Returns the parameters that libllama is given under these flags."""
        path = fresh_path("params")
        server = self.server(*flags, count_shim=PARAM_SHIM, environment={"KVKEEP_PARAM_FILE": path})
        server.stop()
        with open(path) as file:
            lines = [line.rstrip("\n").split("=", 1) for line in file]
        return {name: [value for other, value in lines if other == name] for name, _ in lines}
