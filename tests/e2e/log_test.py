"""The log at its default level: a user who starts a server for the first time finds what to do next, and one who wonders
why a prompt was read again finds one line that says where it parted from what was known."""

import re
import subprocess

from support import (ServerCase, assistant, fresh_directory, fresh_path, main, model, reply_text, run_program, serve_command,
                     system, timings, user, wait_until, words)


def lines_of(server, *, count):
    """Lines of requests, of which there must be so many; without their time."""
    def found():
        lines = [line.split(" ", 2)[2] for line in server.log().splitlines() if " id=" in line]
        return lines if len(lines) >= count else None

    return wait_until(found, f"{count} lines of requests")


def prompt(date):
    return [system(f"You are careful. Today is {date}. " + words(300)), user("hello")]


class Log(ServerCase):
    def test_a_start_says_what_one_can_use(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        lines = [line.split(" ", 2)[2] for line in server.log().splitlines()]
        url = f"http://127.0.0.1:{server.port}"
        expected = [f"info loading {re.escape(model())}", r"info loaded .* \(llama 1M .*\) with a context of 4096 tokens",
                    r"info computes on .*the CPU with \d+ threads?",
                    r"info memory class sliceable: \d+ bytes of rows per token",
                    "info all running requests share one pool of 4096 cells, or have 1024 of their own each while that is faster",
                    r"info kv cache: 0 tokens stored, RAM budget 64 MiB, disk budget \d+ MiB \(0 MiB used\), stored in clear in "
                    + re.escape(directory),
                    rf"info serving \S+: OpenAI base URL {url}/v1, Anthropic base URL {url}",
                    rf"info in a client set OPENAI_BASE_URL={url}/v1 or ANTHROPIC_BASE_URL={url}, and any API key; "
                    r"docs/clients\.md has more",
                    rf"info open {url}/ in a browser to see what runs and what is cached; kvkeep top shows it in a terminal"]
        self.assertEqual(len(lines), len(expected), server.log())
        for line, pattern in zip(lines, expected):
            self.assertRegex(line, f"^{pattern}$")
        self.assertIn("nothing on disk", self.server().log())

    def test_a_gpu_that_is_not_there_is_told(self):
        has_gpu = len(run_program("serve", "--list-devices").stdout.splitlines()) > 2
        warning = "--n-gpu-layers asks for layers on a GPU, but ggml found no GPU that it has a backend for"
        log = self.server("-ngl", 99, "-t", 1, "-tb", 2).log()
        self.assertEqual(f" warning {warning}" in log, not has_gpu, log)
        log = self.server("-ngl", 99, "-t", 1, "-tb", 2, "-dev", "none").log()
        self.assertIn(" info computes on the CPU with 1 thread (2 for prompts)\n", log)
        self.assertNotIn(warning, log)

    def test_every_interface_is_no_url(self):
        command = serve_command("--no-kv-disk", "--host", "0.0.0.0", "--port", "0")
        process = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        with process:
            log = ""
            while " serving " not in log and (line := process.stderr.readline()):
                log += line
            process.terminate()
            log += process.communicate(timeout=30)[1]
        self.assertRegex(log, r"OpenAI base URL http://127\.0\.0\.1:\d+/v1, Anthropic base URL http://127\.0\.0\.1:\d+\n")
        self.assertNotIn("http://0.0.0.0", log)

    def test_one_line_per_request(self):
        server = self.server("--kv-disk-dir", fresh_directory())
        talk = prompt("May 3")
        first = server.chat(talk, max_tokens=8)
        talk += [assistant(reply_text(first)), user("And then?")]
        second = server.chat(talk, max_tokens=8)
        lines = lines_of(server, count=2)
        self.assertEqual(len(lines), 2, lines)
        length = first["usage"]["prompt_tokens"]
        self.assertRegex(lines[0], rf"^info chat done end=length prompt={length} cached=0 prefilled={length} in \d+\.\d+s "
                                   r"reply=8 in \d+\.\d+s reason=nothing-cached: no part of the prompt was known "
                                   rf"id={first['id']}$")
        told = timings(second)
        self.assertGreater(told["cache_n"], length)
        self.assertRegex(lines[1], rf" cached={told['cache_n']} \(memory {told['cache_n']}\) prefilled={told['prompt_n']} in .* "
                                   rf"reason=new-tokens: new from token {told['cache_n']} on id={second['id']}$")

    def test_a_date_that_changed_is_found(self):
        """At token 20 or so of 330: all behind it is read again, and the line says why."""
        path = fresh_path("trace.jsonl")
        for flags, shown in ((["--trace", path], False), (["--trace", path, "--trace-prompts"], True)):
            server = self.server(*flags)
            server.chat(prompt("May 3"), max_tokens=4)
            reply = server.chat(prompt("June 4"), max_tokens=4)
            at = timings(reply)["cache_n"]
            self.assertLess(at, 40)
            line = lines_of(server, count=2)[1]
            found = re.search(r"reason=new-tokens: parts at token (\d+), in the system prompt or the tools, from a known "
                              r"conversation with (\d+) more tokens(.*); volatile-text \(date\) in system: (\d+) tokens "
                              r"prefilled again in \d+\.\d{3}s id=", line)
            with self.subTest(flags=flags):
                self.assertIsNotNone(found, line)
                self.assertEqual(int(found[1]), at)
                self.assertGreater(int(found[2]), 300)
                self.assertGreater(int(found[4]), 290)
                texts = re.fullmatch(r', after "(.*)": here "(.*)", there "(.*)"', found[3])
                self.assertEqual(texts is not None, shown, line)
                if shown:
                    self.assertTrue(texts[1].endswith("Today is"), line)
                    self.assertTrue(texts[2].lstrip().startswith("J"), line)
                    self.assertTrue(texts[3].lstrip().startswith("M"), line)
                else:
                    self.assertNotIn("careful", server.log(), "prompts are private")

    def test_an_unrelated_conversation_parts_from_nothing(self):
        server = self.server()
        server.chat([system("You are careful."), user("hello")], max_tokens=2)
        server.chat([system("Write poems. " + words(100)), user("Spring")], max_tokens=2)
        server.post("/v1/completions", {"prompt": words(100, 5), "max_tokens": 2})
        for line in lines_of(server, count=3)[1:]:
            self.assertRegex(line, r"reason=nothing-cached: (no part of the prompt was known|no known prompt is like it: only "
                                   r"(one token|\d+ tokens), with which the template begins, (was|were) known) id=")

    def test_a_question_that_was_edited_is_found(self):
        server = self.server()
        talk = prompt("May 3")
        talk += [assistant(reply_text(server.chat(talk, max_tokens=4))), user("Tell me of apples " + words(40))]
        server.chat(talk, max_tokens=4)
        server.chat([*talk[:-1], user("Tell me of zebras " + words(40))], max_tokens=4)
        self.assertRegex(lines_of(server, count=3)[2], r"parts at token \d+, in turn 2 of the user, from a known conversation")

    def test_a_reply_that_was_asked_for_again_is_known(self):
        server = self.server()
        for _ in range(2):
            server.chat(prompt("May 3"), max_tokens=4)
        self.assertRegex(lines_of(server, count=2)[1], "reason=whole-prompt: the whole prompt was known id=")

    def test_points_are_named(self):
        server = self.server(model_path=model("--arch", "mamba2"))
        server.post("/v1/completions", {"prompt": words(300), "max_tokens": 1})
        server.post("/v1/completions", {"prompt": words(200) + " " + words(80, 7), "max_tokens": 1})
        line = lines_of(server, count=2)[1]
        self.assertRegex(line, r"parts at token \d+ from a known conversation with \d+ more tokens; before that this model can go "
                               r"on only from points \(docs/cuts.md\), (the last of them at \d+|none of them is kept); no-point in "
                               r"the prompt: \d+ tokens prefilled again in \d+\.\d{3}s id=")

    def test_a_request_outside_the_cache_says_so(self):
        server = self.server()
        server.chat(prompt("May 3"), max_tokens=2, cache_prompt=False)
        self.assertRegex(lines_of(server, count=1)[0], r"reason=cache-off: the request does not use the cache \(cache_prompt\) id=")

    def test_details_need_a_flag(self):
        server = self.server("-lv", 4)
        server.chat(prompt("May 3"), max_tokens=2)
        server.chat(prompt("May 3"), max_tokens=2)
        for part in ("kv cache miss tokens=", "kv cache hit tokens=", "prompt start id=", "prompt done ",
                     "kv cache stored tokens=", "chat: tool calls as ", "chat template: ", "stabilisers: "):
            self.assertIn(part, server.log())


if __name__ == "__main__":
    main()
