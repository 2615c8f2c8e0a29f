"""The idle audit with a real model: what is stored is computed anew now and then. What is right is never accused; wrong
state with right sums is found, loudly, and neither used nor added to until somebody has removed it."""

import json
import os
import re
import shutil
import subprocess
import time

from monitoring_test import metrics
from support import (PROGRAM, ServerCase, files_under, fresh_directory, fresh_path, main, model, run_program, segments,
                     timings, wait_until, words)

COMPLETION = "/v1/completions"
FORGE = os.environ["KVKEEP_FORGE_SEGMENT"]
PROMPT_TOKENS = 200
PROMPTS = 3
OFTEN = ("--restore", "always", "--kv-cache-audit-minutes", 0.003)
LOUDLY = "the stored state is WRONG"


def audits(path):
    """How often each outcome is in a trace."""
    counts = {}
    if os.path.exists(path):
        with open(path) as trace:
            for line in map(json.loads, trace.read().splitlines()):
                if line["route"] == "audit":
                    counts[line["outcome"]] = counts.get(line["outcome"], 0) + 1
    return counts


class AuditCase(ServerCase):
    def ask(self, server, ids, **fields):
        return server.post(COMPLETION, {"prompt": ids, "max_tokens": 4, "temperature": 0, **fields})

    def fill(self, directory, *flags, **keywords):
        """Prompts that share nothing, not even their first token, so that their files are alike in size."""
        server = self.server("--kv-disk-dir", directory, "--kv-cache-audit-minutes", 0, *flags, **keywords)
        vocabulary = server.tokenize(words(PROMPT_TOKENS + 100, 1))
        prompts = [[1000 + number, *vocabulary[number:number + PROMPT_TOKENS - 1]] for number in range(PROMPTS)]
        for ids in prompts:
            self.ask(server, ids)
        self.assertEqual(server.stop(), 0)
        return prompts

    def notes(self, directory):
        return [path for path in files_under(directory) if os.path.basename(path) == "distrusted"]


class WrongRows(AuditCase):
    def forged(self):
        """Each file holds what another one should."""
        directory = fresh_directory()
        prompts = self.fill(directory)
        whole = {}
        for path in segments(directory):
            whole.setdefault(os.path.getsize(path), []).append(path)
        paths = max(whole.values(), key=lambda alike: (len(alike), os.path.getsize(alike[0])))
        self.assertGreaterEqual(len(paths), PROMPTS)
        copies = [shutil.copyfile(path, fresh_path("segment")) for path in paths]
        for path, other in zip(paths, copies[1:] + copies[:1]):
            subprocess.run([FORGE, path, other], check=True)
        return directory, prompts

    def check_answers(self, server, prompts):
        for ids in prompts:
            reply = self.ask(server, ids)
            self.assertEqual(timings(reply)["cache_source"], "none")
            truth = self.ask(server, ids, cache_prompt=False)
            self.assertEqual(reply["choices"][0]["text"], truth["choices"][0]["text"])

    def check_shown(self, server, is_wrong):
        """In the metric that alerts and the dashboard use, and among the problems that the page and `kvkeep top` show."""
        self.assertEqual(metrics(server)[0]["kvkeep_cache_distrusted"], 1 if is_wrong else 0)
        problems = server.get("/cache")["problems"]
        self.assertEqual(len(problems), 1 if is_wrong else 0)
        self.assertTrue(not is_wrong or "kvkeep cache rm --model" in problems[0], problems)

    def test_are_found_and_never_used_again(self):
        directory, prompts = self.forged()
        before = segments(directory)
        trace = fresh_path("trace")
        server = self.server("--kv-disk-dir", directory, *OFTEN, "--trace", trace)
        wait_until(lambda: LOUDLY in server.log(), "the audit finds it")
        [log] = [line for line in server.log().splitlines() if LOUDLY in line]
        self.assertRegex(log, f"kvkeep cache rm --model [0-9a-f]{{12}} --kv-disk-dir {re.escape(directory)},")
        for part in (" error ", "docs/audit.md"):
            self.assertIn(part, server.log())
        self.check_answers(server, prompts)
        self.check_shown(server, True)
        self.assertEqual(server.get("/health")["status"], "ok")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(audits(trace).get("wrong"), 1)
        self.assertEqual(segments(directory), before, "nothing is stored")
        [note] = self.notes(directory)

        later = self.server("--kv-disk-dir", directory, *OFTEN)
        self.assertIn("an audit found state in", later.log())
        self.assertIn(f" --kv-disk-dir {directory}, or", later.log())
        self.assertIn("tokens", later.log())
        self.check_answers(later, prompts)
        self.check_shown(later, True)
        self.assertEqual(later.stop(), 0)
        self.assertEqual(segments(directory), before)

        stat = json.loads(run_program("cache", "stat", "--json", "--kv-disk-dir", directory).stdout)
        self.assertIn("of a stored prefix", stat["models"][0]["distrusted"])
        fingerprint = os.path.basename(os.path.dirname(note))
        removed = run_program("cache", "rm", "-y", "--model", fingerprint[:12], "--kv-disk-dir", directory)
        self.assertEqual(removed.returncode, 0, removed.stderr)
        self.assertEqual(segments(directory) + self.notes(directory), [])
        later.start()
        self.check_shown(later, False)
        for ids in prompts:
            self.ask(later, ids)
        self.assertEqual(later.stop(), 0)
        self.assertTrue(segments(directory), "and it begins anew")

    def test_are_trusted_again_without_the_note(self):
        directory, prompts = self.forged()
        server = self.server("--kv-disk-dir", directory, *OFTEN)
        wait_until(lambda: self.notes(directory), "the audit finds it")
        self.assertEqual(server.stop(), 0)
        os.unlink(self.notes(directory)[0])
        server = self.server("--kv-disk-dir", directory, "--restore", "always", "--kv-cache-audit-minutes", 0)
        self.assertNotIn("an audit found", server.log())
        self.assertEqual(timings(self.ask(server, prompts[0]))["cache_source"], "disk-token")

    def test_another_model_goes_on(self):
        directory, _ = self.forged()
        server = self.server("--kv-disk-dir", directory, *OFTEN)
        wait_until(lambda: self.notes(directory), "the audit finds it")
        self.assertEqual(server.stop(), 0)
        other = self.server("--kv-disk-dir", directory, "--restore", "always", model_path=model("--seed", "9"))
        self.assertNotIn("an audit found", other.log())
        ids = other.tokenize(words(100, 3))
        self.ask(other, ids)
        wait_until(lambda: timings(self.ask(other, ids))["cache_n"] > 0, "it is cached")


class RightState(AuditCase):
    """Hundreds of audits of each class are run by hand with KVKEEP_AUDITS."""

    def check(self, *model_flags, flags=()):
        directory = fresh_directory()
        path = model(*model_flags)
        prompts = self.fill(directory, *flags, model_path=path)
        trace = fresh_path("trace")
        wanted = int(os.environ.get("KVKEEP_AUDITS", 4))
        server = self.server("--kv-disk-dir", directory, *OFTEN, "--trace", trace, *flags, model_path=path)
        wait_until(lambda: audits(trace).get("agreed", 0) >= wanted or LOUDLY in server.log(), "audits",
                   20 + 2 * wanted)
        reply = self.ask(server, prompts[0])
        self.assertGreater(timings(reply)["cache_n"], 0, "what is stored is still used")
        self.assertEqual(server.stop(), 0)
        counts = audits(trace)
        self.assertNotIn("wrong", counts)
        self.assertNotIn("unclear", counts)
        self.assertEqual(self.notes(directory), [])
        with open(trace) as lines:
            told = [line for line in map(json.loads, lines) if line["route"] == "audit" and line["difference"] is not None]
        print(f"{model_flags} {flags}: {counts}, differences up to {max(line['difference'] for line in told):.5f}")

    def test_sliceable(self):
        self.check()

    def test_windowed(self):
        self.check("--arch", "gemma3", "--window", "64")

    def test_hybrid(self):
        self.check("--arch", "qwen35")

    def test_recurrent(self):
        self.check("--arch", "mamba2")

    def test_opaque_models_are_left_out(self):
        path, directory, trace = model("--arch", "deepseek4"), fresh_directory(), fresh_path("trace")
        self.fill(directory, model_path=path)
        server = self.server("--kv-disk-dir", directory, *OFTEN, "--trace", trace, model_path=path)
        time.sleep(1)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(audits(trace), {})


if __name__ == "__main__":
    main()
