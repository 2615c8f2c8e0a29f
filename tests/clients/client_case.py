"""Real agents in a project of their own against the real server: no settings but the test's, no network but loopback.

The prompts are those that the programs make, 7,000 to 30,000 tokens; what the model answers is scripted
(scripted_proxy.py). The server's trace tells what each request prefilled.
"""

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sdk"))

import node_run  # noqa: E402
from scripted_proxy import ScriptedProxy  # noqa: E402
from support import ServerCase, fresh_directory, fresh_path, wait_until  # noqa: E402

# How many tokens of a turn that was sampled may be prefilled once more when the client sends it back.
SLACK_TOKENS = 16
NOWHERE = "http://127.0.0.1:9"


MACHINE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]  # as npm names it
OPENCODE = {"x64": "opencode-linux-x64-baseline", "arm64": "opencode-linux-arm64"}[MACHINE]
CLINE = f"@cline/cli-linux-{MACHINE}"
CLAUDE_CODE = f"@anthropic-ai/claude-code-linux-{MACHINE}"
PACKAGES = (f"{OPENCODE}@1.18.33", f"@openai/codex@0.169.0-linux-{MACHINE}", "@qwen-code/qwen-code@0.24.4",
            f"{CLINE}@3.0.65", f"{CLAUDE_CODE}@2.1.329")


def package_path(*parts):
    return os.path.join(node_run.NODE_DIRECTORY, "node_modules", *parts)


class ClientCase(ServerCase):
    def setUp(self):
        super().setUp()
        node_run.install_packages(*PACKAGES)
        self.home = fresh_directory("home")
        self.project = fresh_directory("project")
        self.trace_path = fresh_path("trace.jsonl")
        self.write(os.path.join(self.project, "README.md"), "# Trees\n\nOaks, limes and one beech.\n")
        self.git("init", "-q")
        self.commit()
        self.addCleanup(self.end_daemons)

    def start(self, is_main, model="local", *flags, model_path=None):
        """The server, and the proxy that the client is to talk to."""
        server = self.server("-c", 65536, "-a", model, "--cache-ram", 512, "--trace", self.trace_path,
                             "-ctk", "f16", "-ctv", "f16", "-t", os.cpu_count() or 1, *flags, model_path=model_path)
        return self.enterContext(ScriptedProxy(server.port, is_main))

    def write(self, path, content):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(content if isinstance(content, str) else json.dumps(content, indent=2))

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.com", *arguments],
                       cwd=self.project, check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "A change")

    def run_client(self, *command, environment=None, limit_s=240):
        """Returns the text that it printed; it must end by itself and without an error."""
        away = {name: NOWHERE for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
        near = {name: "127.0.0.1,localhost" for name in ("no_proxy", "NO_PROXY")}
        run = subprocess.run(command, cwd=self.project, capture_output=True, text=True, errors="replace",
                             timeout=limit_s, stdin=subprocess.DEVNULL,
                             env={"PATH": os.environ["PATH"], "HOME": self.home, "LANG": "C.UTF-8", "TERM": "dumb",
                                  **away, **near, **(environment or {})})
        printed = f"{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        self.assertEqual(run.returncode, 0, printed)
        return printed

    def traced(self, proxy):
        """The trace of the main requests, in their order; each ended as its model wanted."""
        self.assertEqual((proxy.errors, proxy.script), ([], []))
        def read():
            with open(self.trace_path) as file:
                lines = {line["id"]: line for line in map(json.loads, file) if line["route"] != "ahead"}
            return [lines[name] for name in proxy.main_ids if name in lines]
        wait_until(lambda: len(read()) == len(proxy.main_ids), "the trace is written")
        for line in read():
            self.assertEqual(line["finish"], "stop", line)
            print(f"{self.id()}: prompt {line['effective_prompt_tokens']}, cached {line['cached_tokens']}, "
                  f"prefilled {line['prefilled_tokens']}, reply {line['predicted_tokens']}", flush=True)
        return read()

    def assert_goes_on(self, before, after):
        """The later request pays for what is new in it, and nothing else."""
        known = before["effective_prompt_tokens"] + before["predicted_tokens"]
        self.assertGreater(after["effective_prompt_tokens"], known - SLACK_TOKENS)
        self.assertLessEqual(after["prefilled_tokens"], after["effective_prompt_tokens"] - known + SLACK_TOKENS)

    def assert_known_up_to_its_difference(self, line, least_share):
        """The first request of a later session: what was sent before is reused up to the first token that differs, which
        lies behind so much of the prompt."""
        tokens, at = line["effective_prompt_tokens"], line["first_difference"]["at"]
        self.assertLessEqual(line["prefilled_tokens"], tokens - at + SLACK_TOKENS)
        self.assertGreaterEqual(line["cached_tokens"], least_share * tokens, line["first_difference"])

    def end_daemons(self):
        """Some leave a process behind, which names the project on its command line."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
                if self.project in file.read():
                    os.kill(int(pid), signal.SIGTERM)
