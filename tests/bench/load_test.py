"""Loads of `kvkeep bench`: each scenario runs to its end, and its figures are complete.

Times are judged only by people: beside another busy program they say nothing (RUN_SERIAL).
"""

import json
import unittest

from bench_case import PROGRAM, BenchCase

# Figures of each scenario, without a peer; of streams one for each layout.
FIGURES = {"short": 4, "gap": 12, "one": 1, "streams": 4, "long-streams": 4, "shared-streams": 2, "herd": 1, "agents": 2,
           "clients": 7, "held": 4, "full": 4}


class LoadTest(BenchCase):
    limit_s = 400

    def load(self, *arguments):
        done = self.bench("--no-workloads", "--load", "--json", self.json, *arguments)
        report = json.loads(self.json.read_text())
        self.assertEqual(report["problems"], [], done.stderr)
        return done, report

    def test_every_scenario_runs_to_its_end(self):
        done, report = self.load()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(report["parts"]), sum(FIGURES.values()))
        self.assertEqual([run["workload"] for run in report["runs"]], ["load-herd"])
        judged = [part for part in report["parts"] if part["goal"]]
        self.assertEqual(len(judged), 8, "seven counts of the clients, and the agents' prefilled tokens")
        self.assertTrue(all(part["holds"] for part in judged), judged)

    def test_a_peer_takes_turns(self):
        done, report = self.load("--scenarios", "one,herd", "--pairs", "2", "--peer",
                                 f"{PROGRAM} serve --kv-disk-dir {self.directory}/kv")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({run["server"] for run in report["runs"]}, {"kvkeep", "kvkeep-peer"})
        self.assertEqual(len(report["parts"]), 6, "a ratio and two servers, twice")
        self.assertEqual({part["samples"] for part in report["parts"]}, {2})

    def test_an_unknown_scenario_is_named(self):
        self.expect_refusal(["--no-workloads", "--load", "--scenarios", "gap,hurd"], "'hurd'")


if __name__ == "__main__":
    unittest.main()
