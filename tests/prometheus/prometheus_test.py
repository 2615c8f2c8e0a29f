"""A real Prometheus scrapes a real server: promtool accepts the metrics and the alerts, the alerts fire for what they are
about, and each query of the dashboard returns data."""

import http.client
import json
import math
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from support import (ServerCase, assistant, free_port, fresh_directory, fresh_path, main, reply_text, system, user,  # noqa: E402
                     wait_until, words)
from unpack import program  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGING = os.environ["KVKEEP_PACKAGING"]
PROMTOOL = program("promtool")
ALERTS = os.path.join(PACKAGING, "prometheus", "kvkeep-alerts.yml")
DASHBOARD = os.path.join(PACKAGING, "grafana", "kvkeep.json")
SCRAPES_EVERY_S = 1
# Panels that the conversations of the test move: a 0 there would be no data.
MOVED = {"Prompt tokens from the cache", "Prefilled per new token", "Time to the first token, median", "Prompt tokens by source",
         "Prefilled tokens by reason", "Time to the first token", "Requests that ended", "Tokens per second", "Tiers against their budgets",
         "Evictions", "State moved"}


def promtool(*arguments, given=None, folder=None):
    return subprocess.run([PROMTOOL, *arguments], input=given, capture_output=True, text=True, timeout=60, cwd=folder)


class Prometheus:
    """A Prometheus that scrapes the ports and watches the alerts."""

    def __init__(self, ports):
        self.port = free_port()
        folder = fresh_directory()
        targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
        with open(os.path.join(folder, "prometheus.yml"), "w") as config:
            config.write(f"""
global: {{scrape_interval: {SCRAPES_EVERY_S}s, evaluation_interval: 5s}}
rule_files: ['{ALERTS}']
scrape_configs: [{{job_name: kvkeep, static_configs: [{{targets: [{targets}]}}]}}]
""")
        self._log = open(fresh_path("prometheus.log"), "wb")
        self._process = subprocess.Popen(
            [program("prometheus"), f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait(10)
        self._log.close()

    def get(self, path, **parameters):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path + "?" + urllib.parse.urlencode(parameters))
            return json.load(connection.getresponse())
        except (OSError, ValueError):
            return None
        finally:
            connection.close()

    def query(self, expression):
        """The values of an instant query."""
        reply = self.get("/api/v1/query", query=expression)
        if reply is None or reply["status"] != "success":
            raise AssertionError(f"{expression}: {reply}")
        return [float(one["value"][1]) for one in reply["data"]["result"]]


def expressions():
    """Each query of the dashboard, with its panel; Grafana's variables as this test has them."""
    with open(DASHBOARD) as file:
        dashboard = json.load(file)
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$instance", ".*").replace("$__rate_interval", "120s")
            yield panel["title"], expression.replace("$__range", "5m")


class Files(ServerCase):
    def test_promtool_accepts_the_alerts_and_they_fire(self):
        checked = promtool("check", "rules", ALERTS)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        folder = fresh_directory()
        for path in (ALERTS, os.path.join(HERE, "alerts_test.yml")):
            shutil.copy(path, folder)
        tested = promtool("test", "rules", "alerts_test.yml", folder=folder)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)
        with open(ALERTS) as file:
            alerts = set(re.findall(r"alert: (\w+)", file.read()))
        with open(os.path.join(HERE, "alerts_test.yml")) as file:
            self.assertEqual(set(re.findall(r"alertname: (\w+)", file.read())), alerts, "each alert is tested")

    def test_alerts_and_dashboard_name_only_metrics_that_there_are(self):
        server = self.server("--kv-disk-dir", fresh_directory(), "--share", f"dir:{fresh_directory()}")
        text = self.text_of(server)
        known = {name + suffix for name in re.findall(r"^# TYPE (\S+)", text, re.M)
                 for suffix in ("", "_bucket", "_sum", "_count")}
        for path in (ALERTS, DASHBOARD):
            with open(path) as file:
                named = set(re.findall(r"\b(?:kvkeep_|llamacpp:)\w+", file.read()))
            self.assertGreater(len(named), 5)
            self.assertEqual(named - known, set(), path)

    @staticmethod
    def text_of(server):
        connection = server.connection()
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def test_promtool_accepts_the_metrics(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        server.chat([user("hello")], max_tokens=3)
        checked = promtool("check", "metrics", given=self.text_of(server))
        self.assertIn(checked.returncode, (0, 3), checked.stderr)  # 3: it would like other names
        complaints = [line for line in checked.stderr.splitlines() if line and not line.startswith("llamacpp:")]
        self.assertEqual(complaints, [], "llama-server's names are its own")


class Dashboard(ServerCase):
    def play(self, server, talks):
        """Conversations by number, and a client that leaves."""
        for number in talks:
            talk = [system(words(150, number)), user(words(60, 10 + number))]
            for turn in range(3):
                talk += [assistant(reply_text(server.chat(talk, max_tokens=12))), user(words(20, turn))]
        stream = server.stream("/v1/completions", {"prompt": words(50), "max_tokens": 900, "stream": True, "ignore_eos": True})
        next(stream)
        stream.close()

    def test_each_query_returns_data(self):
        flags = ("--kv-disk-dir", fresh_directory(), "--kv-disk-space-mb", "3", "--cache-ram", "1", "--restore", "always",
                 "--share", f"dir:{fresh_directory()}")
        server = self.server(*flags)
        self.play(server, range(3))
        with Prometheus([server.port]) as prometheus:
            wait_until(lambda: prometheus.get("/api/v1/query", query="up"), "it answers", 60)
            wait_until(lambda: prometheus.query("up == 1"), "it scrapes", 60)
            server.restart_after_kill()  # so that state comes from disk
            wait_until(lambda: prometheus.query("up == 1"), "it scrapes again", 60)
            before = prometheus.query("timestamp(kvkeep_requests_total)")[0]
            self.play(server, range(3))
            self.play(server, range(3, 15))  # new to this server, and more than RAM has room for
            wait_until(lambda: prometheus.query("timestamp(kvkeep_requests_total)")[0] > before + 5 * SCRAPES_EVERY_S,
                       "several scrapes lie between", 60)
            asked = list(expressions())
            self.assertGreater(len(asked), 25)
            for title, expression in asked:
                with self.subTest(panel=title, query=expression):
                    values = prometheus.query(expression)
                    self.assertTrue(any(math.isfinite(value) for value in values), values)
                    if title in MOVED:
                        self.assertGreater(max(values), 0)
            self.assertEqual(MOVED - {title for title, _ in asked}, set(), "panels that are no more")
            rules = prometheus.get("/api/v1/rules")["data"]["groups"][0]["rules"]
            self.assertEqual({rule["health"] for rule in rules}, {"ok"})
            self.assertEqual([rule["name"] for rule in rules if rule["state"] == "firing"], [])


if __name__ == "__main__":
    main()
