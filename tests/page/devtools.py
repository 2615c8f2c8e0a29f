"""A headless Chromium, driven over its DevTools protocol through a pipe: no library, no port.

    with Browser() as browser:
        tab = browser.tab(width=360, dark=True)
        tab.open("http://127.0.0.1:8080/")
        tab.wait("document.querySelector('h2')")
"""

import base64
import collections
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import urllib.parse

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars")
LIMIT_S = 60  # generous, for busy machines: reached only when a test fails


class Browser:
    def __init__(self, niceness=0):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise AssertionError(f"none of {', '.join(NAMES)} is installed (scripts/setup installs chromium)")
        self._profile = tempfile.mkdtemp(prefix="kvkeep-browser-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # Chromium reads commands from descriptor 3 and writes to 4.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec nice -n {niceness} "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *FLAGS, f"--user-data-dir={self._profile}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(theirs_in, theirs_out))
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._tabs = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self._process.wait(LIMIT_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._out)
            os.close(self._in)
            shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method, session=None, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT_S
        while True:
            reply = self._message(deadline, method)
            if reply.get("id") == number:
                if "error" in reply:
                    raise AssertionError(f"{method}: {reply['error']}")
                return reply["result"]
            self._note(reply)

    def listen(self, seconds):
        """Takes the events that come within so long."""
        deadline = time.monotonic() + seconds
        while (message := self._message(deadline, None)) is not None:
            self._note(message)

    def _message(self, deadline, waits_for):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                if waits_for:
                    raise AssertionError(f"Chromium does not answer {waits_for}")
                return None
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise AssertionError("Chromium ended")
            self._rest += piece
        text, self._rest = self._rest.split(b"\0", 1)
        return json.loads(text)

    def tell(self, method, session, **parameters):
        """A command whose reply nobody waits for."""
        message = {"id": next(self._numbers), "method": method, "params": parameters, "sessionId": session}
        os.write(self._out, json.dumps(message).encode() + b"\0")

    def _note(self, message):
        tab = self._tabs.get(message.get("sessionId"))
        if tab and message.get("method") == "Fetch.requestPaused":
            tab.answer(message["params"])
        elif tab and "method" in message:
            tab.events.append(message)

    def tab(self, width=1280, height=900, dark=False, phone=False):
        """A page in a context of its own: nothing that another tab stored is there."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = self._tabs[session] = Tab(self, session, context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        return tab


class Tab:
    def __init__(self, browser, session, context):
        self._browser, self._session, self._context = browser, session, context
        self.events = collections.deque(maxlen=20_000)
        self._timed = False
        self._answers = {}  # by path: (content type, body)

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def close(self):
        self._browser.call("Target.disposeBrowserContext", browserContextId=self._context)

    def serve(self, path, body, content_type="application/json"):
        """From now on requests of the page for this path are answered with this text instead of the server's, or with what a
        function makes of the fields of the query."""
        self._answers[path] = (content_type, body)
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{one}*"} for one in self._answers])

    def answer(self, paused):
        url = urllib.parse.urlsplit(paused["request"]["url"])
        if url.path not in self._answers:
            return self._browser.tell("Fetch.continueRequest", self._session, requestId=paused["requestId"])
        content_type, body = self._answers[url.path]
        if callable(body):
            body = body(dict(urllib.parse.parse_qsl(url.query)))
        return self._browser.tell("Fetch.fulfillRequest", self._session, requestId=paused["requestId"], responseCode=200,
                                  responseHeaders=[{"name": "Content-Type", "value": content_type}],
                                  body=base64.b64encode(body.encode()).decode())

    def open(self, url):
        self.call("Page.navigate", url=url)

    def load_anew(self):
        """Loads the page again, with nothing of it in the browser's cache."""
        self.run("window.isOld = true")
        self.call("Page.reload", ignoreCache=True)
        self.wait("!window.isOld")

    def run(self, script):
        """Returns the value of a JavaScript expression; waits for a promise."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script[:200]}: {done['exceptionDetails'].get('exception', done['exceptionDetails'])}")
        return done["result"].get("value")

    def wait(self, condition, limit_s=LIMIT_S):
        """Returns the value of the expression as soon as it is true."""
        deadline = time.monotonic() + limit_s
        while not (value := self.run(f"(value => value instanceof Node ? true : value)({condition})")):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {limit_s} s: {condition}\n{self.text()[:1500]}")
            self._browser.listen(0.03)
        return value

    def text(self):
        return self.run("document.body.innerText")

    def has(self, text):
        """Waits until the page shows the text."""
        return self.wait(f"document.body?.innerText.includes({json.dumps(text)})")

    def _centre(self, selector):
        place = self.wait(f"""(() => {{ const one = document.querySelector({json.dumps(selector)});
            if (!one) return null;
            one.scrollIntoView({{block: "center"}});
            const box = one.getBoundingClientRect();
            return box.width > 0 && {{x: box.x + box.width / 2, y: box.y + box.height / 2}}; }})()""")
        return place["x"], place["y"]

    def click(self, selector):
        x, y = self._centre(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click_button(self, text, within="body"):
        self.wait(f"""(() => {{ const one = [...document.querySelectorAll({json.dumps(within + ' button')})].find(
            button => button.innerText.trim() === {json.dumps(text)} && !button.disabled && button.offsetParent);
            for (const old of document.querySelectorAll("[data-chosen]")) delete old.dataset.chosen;
            if (one) one.dataset.chosen = "";
            return one !== undefined; }})()""")
        self.click("[data-chosen]")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, modifiers=0):
        code = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "ArrowRight": 39,
                "Home": 36, "End": 35}.get(key, ord(key[0].upper()))
        typed = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key if len(key) > 1 else "", windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({"text": typed} if typed and kind == "keyDown" else {}))

    def accessible(self):
        """(role, name) of everything that assistive technology sees."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"] and "role" in node]

    def main_thread_ms(self):
        """Processor time that the page's thread has taken for tasks so far: scripts, styles, layout, painting."""
        if not self._timed:
            self.call("Performance.enable", timeDomain="threadTicks")
            self._timed = True
        metrics = {one["name"]: one["value"] for one in self.call("Performance.getMetrics")["metrics"]}
        return 1000 * metrics["TaskDuration"]

    def tasks_ms(self, act):
        """Processor time of each task of the page's thread while this runs. Between two tasks the page can draw and answer."""
        self.call("Tracing.start", traceConfig={"includedCategories": ["disabled-by-default-devtools.timeline", "blink.user_timing"]})
        self.run("performance.mark('this page')")
        act()
        # The protocol's own work for these calls is the page's as well: what they ask for is little.
        self.call("Tracing.end")
        seen, deadline = [], time.monotonic() + LIMIT_S
        while not any(event["method"] == "Tracing.tracingComplete" for event in self.events):
            if time.monotonic() > deadline:
                raise AssertionError("the trace does not end")
            self._browser.listen(0.05)
        for event in [one for one in self.events if one["method"].startswith("Tracing.")]:
            seen += event["params"].get("value", [])
            self.events.remove(event)
        mark = next(one for one in seen if one["name"] == "this page")
        # Those that the trace's begin or end cut, which are calls of this protocol, have no duration.
        return [one["tdur"] / 1000 for one in seen if one["name"] == "RunTask" and "tdur" in one and (one["pid"], one["tid"]) == (mark["pid"], mark["tid"])]

    def picture(self, path, whole=False):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def asked(self, path):
        """The requests of the page so far for this path."""
        self._browser.listen(0.01)
        return [event for event in self.events if event["method"] == "Network.requestWillBeSent"
                and urllib.parse.urlsplit(event["params"]["request"]["url"]).path == path]

    def complaints(self):
        """What was said on the console, exceptions and violations of the content policy included."""
        self._browser.listen(0.05)
        said = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                said.append(parameters["exceptionDetails"].get("exception", {}).get("description", str(parameters)))
            elif event["method"] == "Runtime.consoleAPICalled":
                said.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                said.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        return said
