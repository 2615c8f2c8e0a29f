"""A page as a browser sees it."""

import re
import shutil
import subprocess

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--enable-logging=stderr", "--v=0",
         "--virtual-time-budget=2000")  # what the page does in tasks of its own is done


def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        raise AssertionError(f"none of {', '.join(BROWSERS)} is installed (scripts/setup installs chromium)")
    return found


class Opened:
    """A page after the browser read it: its tree as text, and what was said on the console."""

    def __init__(self, path, profile):
        done = subprocess.run([browser(), *FLAGS, f"--user-data-dir={profile}", "--dump-dom", path.as_uri()],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8", timeout=90)
        if done.returncode != 0 or "</html>" not in done.stdout:
            raise AssertionError(f"{path.name}: status {done.returncode}\n{done.stderr[-3000:]}")
        self.tree = done.stdout
        self.console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def count(self, element):
        return len(re.findall(rf"<{element}[ >]", self.tree))
