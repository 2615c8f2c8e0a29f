"""Every flag of docs/flags.md does what its row says: each test observes an effect, not that a flag is accepted. Those
that need many starts are in flags_slow_test.py; flags_coverage_test.py compares both with the page.
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import select
import shutil
import socket
import subprocess
import time

from flag_case import COMPLETION, PARAM_SHIM, FlagCase, covers, documented_flags
from support import (HttpError, fresh_directory, fresh_path, main, model, run_program, segments, serve_command, system, timings, user,
                     wait_until, words)

CHAT = "/v1/chat/completions"


class Model(FlagCase):
    @covers("--model")
    def test_model(self):
        self.assertNotEqual(self.text_with(), self.text_with(model_path=model("--seed", "2")))

    @covers("--alias", "--tags")
    def test_alias(self):
        server = self.server("-a", "second,first", "--tags", "coder,small")
        listed = server.get("/v1/models")
        self.assertEqual([(one["id"], one["aliases"], one["tags"]) for one in listed["data"]],
                         [("first", ["first", "second"], ["coder", "small"])])
        self.assertEqual([one["name"] for one in listed["models"]], ["first"])
        self.assertEqual(server.get("/v1/models/second")["id"], "second")
        self.assertEqual(server.chat([user("hi")], max_tokens=1, model="second")["model"], "first")
        for _ in range(2):
            self.assertEqual(server.chat([user("hi")], max_tokens=1, model="third")["model"], "first")
        self.assertEqual(server.log().count('the model "third", which is not among -a'), 1, server.log())

    @covers("--strict-fields")
    def test_strict_fields(self):
        body = {"prompt": "hi", "max_token": 3, "max_tokens": 2}
        server = self.server("--trace", fresh_path("fields.jsonl"))
        for streams in (False, True):
            with contextlib.closing(server.connection()) as connection:
                connection.request("POST", COMPLETION, json.dumps({**body, "stream": streams}))
                reply = connection.getresponse()
                reply.read()
                self.assertEqual(reply.headers["x-kvkeep-ignored-fields"], "max_token")
        self.assertEqual(server.log().count("sends 'max_token' to /v1/completions"), 1, server.log())
        self.assertIn("did you mean 'max_tokens'?", server.log())
        for path, sent in (("/tokenize", {"context": "x"}), ("/apply-template", {"messages": [user("x")], "tool": []}),
                           ("/v1/messages/count_tokens", {"messages": [user("x")], "sytem": "y"}),
                           ("/v1/responses/input_tokens", {"input": "x", "instruction": "y"}),
                           ("/cache/lookup", {"prompt": "x", "promt": "y"}), ("/detokenize", {"token": [1]})):
            with self.subTest(path=path), contextlib.closing(server.connection()) as connection:
                connection.request("POST", path, json.dumps(sent))
                reply = connection.getresponse()
                reply.read()
                self.assertEqual((reply.status, reply.headers["x-kvkeep-ignored-fields"]), (200, list(sent)[-1]))
        server = self.server("--strict-fields")
        error = self.assert_refused(400, server.post, COMPLETION, body)
        self.assertIn("'max_token' is not a field of this request (did you mean 'max_tokens'?)", error["message"])
        server.post(COMPLETION, {"prompt": "hi", "max_tokens": 1, "service_tier": "auto"})

    @covers("--strict-model-names")
    def test_strict_model_names(self):
        server = self.server("-a", "first,second", "--strict-model-names")
        self.assertEqual(server.chat([user("hi")], max_tokens=1, model="second")["model"], "first")
        self.assert_refused(404, server.chat, [user("hi")], model="third")
        self.assertNotIn("third\", which is not among", server.log())
        server = self.server("--strict-model-names")
        name = server.get("/v1/models")["data"][0]["id"]
        self.assertEqual(server.chat([user("hi")], max_tokens=1, model=name)["model"], name)
        self.assert_refused(404, server.chat, [user("hi")], model="third")

    @covers("--check-tensors")
    def test_check_tensors(self):
        path = fresh_path("invalid.gguf")
        shutil.copyfile(model(), path)
        with open(path, "r+b") as file:
            file.seek(-4096, os.SEEK_END)
            file.write(b"\xff" * 2048)  # scales that are no numbers
        run = run_program(*serve_command("--no-kv-disk", "--port", "0", "--check-tensors", model_path=path)[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("invalid", run.stderr.splitlines()[-1])
        self.server(model_path=path).stop()

    @covers("--chat-template-file", "--jinja")
    def test_chat_template_file(self):
        path, link = fresh_path("template.jinja"), fresh_path("link.jinja")
        with open(path, "w") as file:
            file.write("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]")
        os.symlink(path, link)
        for name in (path, link):
            server = self.server("--chat-template-file", name, "--jinja", "-lv", 4)
            prompt = server.post("/apply-template", {"messages": [user("hi")]})["prompt"]
            self.assertEqual(prompt, "[user] hi\n[assistant]")
            self.assertEqual(server.prompt_ids([user("hi")]), server.tokenize(prompt))
            self.assertIn("chat template: every reply with thinking is written anew", server.log())

    @covers("--chat-template")
    def test_chat_template_by_name(self):
        server = self.server("--chat-template", "llama3")
        prompt = server.post("/apply-template", {"messages": [user("hi")]})["prompt"]
        self.assertEqual(prompt, "<|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
                                 "<|start_header_id|>assistant<|end_header_id|>\n\n")
        server = self.server("--chat-template", "{{ messages[0].content }}!")
        self.assertEqual(server.post("/apply-template", {"messages": [user("hi")]})["prompt"], "hi!")
        for name, said in (("llama33", "did you mean 'llama3'?"), ("{% if %}", "--chat-template")):
            run = run_program(*serve_command("--chat-template", name)[1:])
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(said, run.stderr)

class Context(FlagCase):
    @covers("--ctx-size")
    def test_ctx_size(self):
        server = self.server("-c", 768)
        self.assertEqual(server.get("/v1/models")["data"][0]["meta"]["n_ctx"], 768)
        error = self.assert_refused(400, server.post, COMPLETION, {"prompt": words(900)})
        self.assertEqual(error["n_ctx"], 768)
        self.assertNotIn("rounds up", server.log())
        rounded = self.server("-c", 64)
        self.assertIn("the context is 256 tokens, not the 64 of --ctx-size", rounded.log())
        self.assertEqual(rounded.get("/v1/models")["data"][0]["meta"]["n_ctx"], 256)
        with self.assertRaises(HttpError) as caught:
            rounded.post("/v1/messages", {"model": "x", "max_tokens": 1, "messages": [user(words(300))]})
        self.assertIn("> 255 maximum (a context of 256, less one token for the reply)", str(caught.exception.body))
        self.assertEqual(self.server("-c", "1k").get("/v1/models")["data"][0]["meta"]["n_ctx"], 1024)
        reply = server.post(COMPLETION, {"prompt": words(600), "max_tokens": 1})
        self.assertEqual(reply["usage"]["completion_tokens"], 1)

    def test_more_context_than_the_model_was_trained_for(self):
        for flags, warned in ((["-c", 768], True), (["-c", 512], False), (["-c", 768, "--rope-scale", 2], False)):
            with self.subTest(flags=flags):
                server = self.server("--override-kv", "llama.context_length=int:512", *flags)
                self.assertEqual("768 tokens is larger than the 512" in server.log(), warned, server.log())

    @covers("--kv-unified")
    def test_kv_unified(self):
        log = self.server("-c", 2048, "-np", 2, "-kvu").log()
        self.assertIn("share one pool of 2048 cells", log)
        server = self.server("-c", 2048, "-np", 2, "-no-kvu")
        self.assertIn("each of 2 running requests has 1024 cells of its own, of a context of 2048", server.log())
        self.assertEqual(server.get("/props")["default_generation_settings"]["n_ctx"], 1024)
        self.assertEqual([slot["n_ctx"] for slot in server.get("/slots")], [1024, 1024])
        error = self.assert_refused(400, server.post, COMPLETION, {"prompt": words(1100)})
        self.assertEqual(error["n_ctx"], 1024)
        prompts = [words(700, 1), words(700, 2)]
        bodies = [{"prompt": prompt, "max_tokens": 100, "temperature": 0} for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            together = list(pool.map(lambda body: server.post(COMPLETION, body), bodies))
        self.assertEqual([reply["usage"]["completion_tokens"] for reply in together], [100, 100])
        again = server.post(COMPLETION, {**bodies[0], "prompt": prompts[0] + " and more"})
        self.assertGreater(timings(again)["cache_n"], 600)
        self.assertEqual(self.params("-kvu")["kv_unified"], ["1"])
        self.assertIn("0", self.params("-no-kvu")["kv_unified"])  # the state's parts are learnt in a small pool

    @covers("--repeatable")
    def test_repeatable(self):
        """That text is repeatable is tested in repeatable_test.py; here, where slices end."""
        server = self.server("--repeatable", "-ub", 64, "-v")
        server.post(COMPLETION, {"prompt": server.tokenize(words(300))[:150], "max_tokens": 1})
        longer = server.post(COMPLETION, {"prompt": server.tokenize(words(300))[:230], "max_tokens": 1})
        self.assertEqual(timings(longer)["prompt_n"], 80)
        body = {"prompt": words(500, 7), "n_predict": 1, "stream": True, "return_progress": True}
        told = [event["prompt_progress"]["processed"] for _, event in server.stream("/completion", body)
                if event != "[DONE]" and "prompt_progress" in event]
        self.assertGreater(len(told), 5)
        self.assertEqual([tokens % 64 for tokens in told[:-1]], [0] * (len(told) - 1), told)
        self.assertIn("0", self.params("--repeatable")["kv_unified"])
        self.assertIn("repeatable=slices of 64", server.log())

    @covers("--predict")
    def test_predict(self):
        server = self.server("-n", 5)
        for asked, expected in ((None, 5), (3, 3), (20, 20), (-1, 5)):
            reply = server.chat([user("hi")], max_tokens=asked)
            self.assertEqual(reply["usage"]["completion_tokens"], expected)

    @covers("--batch-size", "--ubatch-size")
    def test_batch_sizes(self):
        def calls(server):
            with open(server._count_file, "rb") as file:
                return int.from_bytes(file.read(16)[8:], "little")
        for batch, expected in ((64, 4), (256, 1)):
            server = self.server("-b", batch, "-ub", 32, "--prefill-slice-ms", 0)
            ids = server.tokenize(words(300))[:250]
            before = calls(server)
            server.post(COMPLETION, {"prompt": ids, "max_tokens": 1})
            self.assertEqual(calls(server) - before, expected)
        params = self.params("-b", 64, "-ub", 32)
        self.assertEqual((params["n_batch"], params["n_ubatch"]), (["64"], ["32"]))
        params = self.params("-b", 64)
        self.assertEqual((params["n_batch"], params["n_ubatch"]), (["64"], ["64"]))

    @covers("--threads", "--threads-batch")
    def test_threads(self):
        params = self.params("-t", 2, "-tb", 3)
        self.assertEqual((params["n_threads"], params["n_threads_batch"]), (["2"], ["3"]))
        params = self.params("-t", 2)
        self.assertEqual(params["n_threads_batch"], ["2"])

        def thread_count(server):
            return len(os.listdir(f"/proc/{server.process.pid}/task"))
        counts = []
        for threads in (1, 4):
            server = self.server("-t", threads, "-tb", threads)
            self.text(server)
            counts.append(thread_count(server))
        self.assertGreaterEqual(counts[1], counts[0] + 3)

    @covers("--warmup")
    def test_warmup(self):
        warm, cold = self.server("--warmup"), self.server("--no-warmup")
        self.assertGreater(warm._base_ids, cold._base_ids + 20)

    @covers("--swa-full", "--kv-offload", "--n-gpu-layers", "--split-mode", "--tensor-split", "--main-gpu", "--no-host",
            "--repack", "--cpu-moe")
    def test_flags_reach_libllama(self):
        plain = self.params()
        self.assertEqual([plain[name] for name in ("swa_full", "kv_offload", "split_mode", "main_gpu", "no_host",
                                                   "repack")], [["0"], ["1"], ["1"], ["0"], ["0"], ["1"]])
        self.assertNotIn("tensor_split", plain)
        self.assertNotIn("placed", plain)
        given = self.params("--swa-full", "--no-kv-offload", "-ngl", 2, "-sm", "none", "-ts", "3,1", "-mg", 1,
                            "--no-host", "--no-repack", "--cpu-moe", "-dev", "none")
        self.assertEqual([given[name] for name in ("swa_full", "kv_offload", "split_mode", "main_gpu", "no_host",
                                                   "repack")], [["1"], ["0"], ["0"], ["1"], ["1"], ["0"]])
        self.assertEqual(given["tensor_split"], ["3,1"])
        self.assertRegex(given["placed"][0], r"ffn_.*exps.*=CPU$")
        self.assertEqual(given["n_gpu_layers"], ["0"], "no device, no layers on one")
        devices = run_program("serve", "--list-devices").stdout.splitlines()[1:]
        if len(devices) > 1:  # the processor and another
            self.assertEqual(self.params("-ngl", 2)["n_gpu_layers"], ["2"])

    @covers("--mmap", "--mlock", "--direct-io", "--numa", "--op-offload")
    def test_older_spellings_of_the_load_mode_and_placement(self):
        given = self.params("--no-mmap", "--mlock", "--numa", "distribute", "--no-op-offload")
        self.assertEqual([given[name] for name in ("load_mode", "numa", "op_offload")], [["mlock"], ["1"], ["0"]])
        given = self.params("-dio", "--mmap")
        self.assertEqual((given["load_mode"], given["op_offload"]), (["dio"], ["1"]))
        self.assertNotIn("numa", given)

    @covers("--fit", "--fit-target", "--fit-ctx")
    def test_fit(self):
        """What it chooses on devices, and where memory is short, is tested with made-up sizes (model_params_test.cc)."""
        for flags in (("--fit", "maybe"), ("-fitt", "-1"), ("-fitc", "x")):
            run = run_program(*serve_command("--no-kv-disk", *flags, "--port", "0")[1:])
            self.assertEqual(run.returncode, 1, flags)
            self.assertIn(flags[1], run.stderr)

    @covers("-cb", "--cache-idle-slots", "-dt", "--offline", "--no-models-autoload", "--no-mmproj",
            "--prefill-assistant", "--special", "--escape", "--no-cors-credentials", "--no-webui-mcp-proxy", "--no-agent",
            "--perf", "--no-log-jsonl")
    def test_flags_that_ask_for_what_is_so_anyway_change_nothing(self):
        flags = ("-cb", "--cache-idle-slots", "-dt", 0.1, "--offline",
                 "--no-models-autoload", "--no-mmproj", "--prefill-assistant", "-sp", "-e",
                 "--no-cors-credentials", "--no-webui-mcp-proxy", "--no-agent", "--perf", "--no-log-jsonl")
        plain, given = self.params(), self.params(*flags)
        self.assertEqual(given, plain)
        self.assertEqual(self.text_with(*flags), self.text_with())

    @covers("--n-cpu-moe")
    def test_n_cpu_moe(self):
        placed = self.params("-ncmoe", 2)["placed"]
        self.assertEqual([re.match(r"blk\\?\.(\d+)", pattern)[1] for pattern in placed], ["0", "1"])

    @covers("--override-tensor")
    def test_override_tensor(self):
        log = self.server("-ot", "blk.1.ffn_.*=CPU", "-v").log()
        moved = set(re.findall(r"tensor (\S+) .*overridden to CPU", log))
        self.assertEqual(moved, {f"blk.1.ffn_{part}.weight" for part in ("norm", "gate", "up", "down")})
        run = run_program(*serve_command("--no-kv-disk", "-ot", "x=Nowhere", "--port", "0")[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("Nowhere", run.stderr)

    @covers("--device", "--list-devices")
    def test_devices(self):
        listed = run_program("serve", "--list-devices")
        self.assertEqual(listed.returncode, 0)
        self.assertIn("CPU: ", listed.stdout)
        run = run_program(*serve_command("--no-kv-disk", "-dev", "Nowhere0", "--port", "0")[1:])
        self.assertEqual(run.returncode, 1)
        self.assertIn("Nowhere0", run.stderr.splitlines()[-1])
        self.assertIn("CPU", run.stderr.splitlines()[-1])
        self.assertEqual(self.params()["devices"], ["all"])
        self.assertEqual(self.params("-dev", "none")["devices"], [""])


class PrefixCache(FlagCase):
    def ask(self, server, number, count=80, **fields):
        return timings(server.post(COMPLETION, {"prompt": f"{number} {words(count, number)}", "max_tokens": 4,
                                                "temperature": 0, **fields}))

    @covers("--cache-ram")
    def test_cache_ram(self):
        for size, sources in ((0, {"none", "memory-token"}), (64, {"ram-token"})):
            server = self.server("-c", 256, "--restore", "always", "--cache-ram", size)
            self.assertIn(f"RAM budget {size} MiB", server.log())
            for number in range(4):
                self.ask(server, number)
            with self.subTest(size=size):
                self.assertIn(self.ask(server, 0)["cache_source"], sources)

    @covers("--kv-disk-dir", "--no-kv-disk", "--kv-disk-space-mb")
    def test_disk(self):
        home, named = fresh_directory(), fresh_directory()
        environment = {"XDG_CACHE_HOME": home}
        for flags, place, other in ((["--kv-disk-dir", named, "--kv-disk-space-mb", 37], named, home),
                                    ([], os.path.join(home, "kvkeep"), None), (["--no-kv-disk"], None, None)):
            server = self.server(*flags, default_disk=True, environment=environment)
            if flags[-1:] == [37]:
                self.assertIn("disk budget 37 MiB", server.log())
            before = segments(home)
            self.ask(server, 1)
            server.stop()
            if place:
                self.assertTrue(segments(place))
            if place != os.path.join(home, "kvkeep"):
                self.assertEqual(segments(home), before)

    @covers("--kv-disk-reserve-mb")
    def test_disk_reserve(self):
        for reserve, stores in ((1 << 39, False), (0, True)):
            directory = fresh_directory()
            server = self.server("--kv-disk-dir", directory, "--kv-disk-reserve-mb", reserve)
            for number in range(3):
                self.ask(server, number)
            server.stop()
            with self.subTest(reserve=reserve):
                self.assertEqual(bool(segments(directory)), stores)
                self.assertEqual(server.log().count("nothing is stored on disk"), 0 if stores else 1)

    @covers("--kv-disk-write-mb-per-day")
    def test_disk_writes(self):
        stored = {}
        for limit in (1, 0):
            directory = fresh_directory()
            server = self.server("--kv-disk-dir", directory, "--kv-disk-write-mb-per-day", limit)
            for number in range(12):
                self.ask(server, number)
            server.stop()
            stored[limit] = sum(os.path.getsize(path) for path in segments(directory))
            with self.subTest(limit=limit):
                self.assertEqual("--kv-disk-write-mb-per-day" in server.log(), limit == 1)
                self.assertEqual(os.path.exists(os.path.join(directory, "writes")), limit == 1)
        self.assertLess(stored[1], stored[0])

    @covers("--kv-cache-ttl-hours")
    def test_time_to_live(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory)
        self.ask(server, 1)
        server.stop()
        for path in segments(directory):  # when they were used
            os.utime(path, (time.time() - 5 * 3600,) * 2)
        for hours, left in ((0, True), (6, True), (4, False)):
            server = self.server("--kv-disk-dir", directory, "--kv-cache-ttl-hours", hours)
            with self.subTest(hours=hours):
                if left:
                    self.assertTrue(segments(directory))
                else:
                    wait_until(lambda: not segments(directory), "nothing is left on disk")
            server.stop()

    @covers("--kv-cache-audit-minutes")
    def test_audit_minutes(self):
        for minutes in (0, 0.002):
            trace = fresh_path("trace")
            server = self.server("--kv-cache-audit-minutes", minutes, "--trace", trace)
            self.ask(server, 1)
            time.sleep(1)
            server.stop()
            with open(trace) as lines, self.subTest(minutes=minutes):
                self.assertEqual('"route":"audit"' in lines.read(), minutes > 0)

    @covers("--kv-cache-min-tokens")
    def test_min_tokens(self):
        directory = fresh_directory()
        server = self.server("--kv-disk-dir", directory, "--kv-cache-min-tokens", 100)
        self.ask(server, 1, count=50)
        server.stop()
        self.assertEqual(segments(directory), [])
        server = self.server("--kv-disk-dir", directory, "--kv-cache-min-tokens", 30)
        self.ask(server, 1, count=50)
        server.stop()
        self.assertTrue(segments(directory))

    @covers("--match")
    def test_match(self):
        # Greedy ids of free output are rarely those that the tokenizer chooses for their text.
        for mode, source in (("text", "memory-text"), ("token", "memory-token")):
            server = self.server("--match", mode, model_path=model("--free-output"))
            prompt = server.tokenize(words(40))
            letters = [[server.tokenize(letter)[0], 20] for letter in "aeinot"]
            reply = server.post(COMPLETION, {"prompt": prompt, "max_tokens": 30, "temperature": 0, "return_tokens": True,
                                             "logit_bias": letters})
            text = server.post("/detokenize", {"tokens": reply["tokens"]})["content"]
            again = server.post(COMPLETION, {"prompt": prompt + server.tokenize(text), "max_tokens": 1})
            with self.subTest(mode=mode):
                self.assertEqual(again["timings"]["cache_source"], source)
                self.assertEqual(again["timings"]["cache_n"] > 60, mode == "text")

    @covers("--restore")
    def test_restore(self):
        # Where setting rows is slow, auto learns it from the first restore and then prefills.
        for mode, sources in (("always", ["ram-token"] * 2), ("auto", ["ram-token", "none"])):
            server = self.server("-c", 256, "--restore", mode, count_shim=PARAM_SHIM,
                                 environment={"KVKEEP_SLOW_RESTORE_MS": "300"})
            for number in range(4):
                self.ask(server, number)
            with self.subTest(mode=mode):
                replies = [self.ask(server, number) for number in (0, 1)]
                self.assertEqual([reply["cache_source"] for reply in replies], sources)
                if mode == "auto":
                    self.assertEqual(replies[1]["cache_miss_reason"], "load-too-slow")

    @covers("--cache-prompt")
    def test_cache_prompt(self):
        server = self.server("--no-cache-prompt")
        self.ask(server, 1)
        self.assertEqual(self.ask(server, 1)["cache_miss_reason"], "cache-off")
        self.ask(server, 1, cache_prompt=True)
        self.assertGreater(self.ask(server, 1, cache_prompt=True)["cache_n"], 50)

    @covers("--stabilize")
    def test_stabilize(self):
        line = "x-anthropic-billing-header: cc_version=2.%s; cc_entrypoint=cli;\n"
        for flags, shared in ((["--stabilize", "billing-line"], True), (["--stabilize", "none"], False)):
            server = self.server(*flags, "-lv", 4)
            for number in ("1.0", "7.3"):
                reply = server.chat([system(line % number + words(200)), user("hello")], max_tokens=1)
            with self.subTest(flags=flags):
                self.assertIn("stabilisers: " + flags[1], server.log())
                self.assertEqual(reply["timings"]["cache_n"] > 200, shared)

    @covers("--stabilize")
    def test_system_messages_after_the_first_user_message(self):
        for rules, shared in (("all,late-system", True), ("all", False)):
            server = self.server("--stabilize", rules)
            for task in ("One thing.", "Another thing to do."):
                reply = server.chat([system("You help."), user(task), system(words(200, 3))], max_tokens=1)
            with self.subTest(rules=rules):
                self.assertEqual(reply["timings"]["cache_n"] > 200, shared, reply["timings"])

    @covers("--stabilize")
    def test_tools_before_the_system_prompt(self):
        path = fresh_path("plain.jinja")
        with open(path, "w") as file:
            file.write("{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}")
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
        for rules, first in (("tools-first", True), ("billing-line", False)):
            server = self.server("--chat-template-file", path, "--stabilize", rules)
            for number in (1, 2):
                body = {"messages": [system(f"{number} {words(100, number)}"), user("hello")], "tools": [tool]}
                prompt = server.post("/apply-template", body)["prompt"]
                reply = server.chat(body["messages"], max_tokens=1, tools=[tool])
            with self.subTest(rules=rules):
                self.assertEqual(prompt.index('"look"') < prompt.index("2 "), first, prompt)
                self.assertEqual(reply["timings"]["cache_n"] > 60, first, reply["timings"])


class Points(FlagCase):
    """Where a model that has no rows keeps its state: position and reason of each point of one raw prompt."""

    def points(self, *flags, chat=False, architecture="mamba2"):
        server = self.server(*flags, "-c", 2048, "-lv", 4, model_path=model("--arch", architecture))
        if chat:
            length = server.chat([system(words(150)), user(words(20))], max_tokens=1)["usage"]["prompt_tokens"]
        else:
            reply = server.post(COMPLETION, {"prompt": server.tokenize(words(300)), "max_tokens": 1})
            length = reply["usage"]["prompt_tokens"]
        server.stop()
        found = re.findall(r"stored point at=(\d+) .*?reason=(\w+)", server.log())
        return length, [(int(at), reason) for at, reason in found], server.log()

    @covers("--kv-disk-points-share")
    def test_points_share(self):
        for percent, stored in ((0, False), (50, True)):
            directory = fresh_directory()
            self.points("--kv-disk-dir", directory, "--kv-disk-points-share", percent)
            with self.subTest(percent=percent):
                self.assertEqual(any(path.endswith(".point.kvs") for path in segments(directory)), stored)

    @covers("--kv-cache-anchor-user")
    def test_anchors(self):
        for flags, expected in (([], True), (["--no-kv-cache-anchor-user"], False)):
            length, points, log = self.points(*flags, chat=True)
            with self.subTest(flags=flags):
                self.assertEqual("anchor" in [reason for _, reason in points], expected)
                self.assertEqual(any(0 < at < length - 10 for at, _ in points), expected, "nor any at its boundary")
                self.assertIn(f"anchor_user={'on' if expected else 'off'}", log)
        self.assertNotIn("anchor_user", self.server("-lv", 4).log(), "of a model that goes on from any token")

    @covers("--kv-cache-boundary-trim-tokens", "--kv-cache-boundary-align-tokens")
    def test_length_rule(self):
        for trim, align in ((10, 64), (100, 50)):
            length, points, _ = self.points("--kv-cache-boundary-trim-tokens", trim, "--kv-cache-boundary-align-tokens",
                                            align)
            self.assertIn(((length - trim) // align * align, "cold"), points)

    @covers("--kv-cache-cold-max-tokens")
    def test_cold_max(self):
        _, points, log = self.points("--kv-cache-cold-max-tokens", 100)
        self.assertNotIn("cold", [reason for _, reason in points])
        self.assertIn("longer than --kv-cache-cold-max-tokens 100", log)
        length, points, log = self.points("--kv-cache-cold-max-tokens", 100, chat=True)
        self.assertFalse([at for at, _ in points if at < length - 10])
        self.assertIn("longer than --kv-cache-cold-max-tokens 100", log)

    @covers("--kv-cache-continued-interval-tokens", "--checkpoint-min-step")
    def test_interval_and_step(self):
        interval = ("--kv-cache-continued-interval-tokens", 40, "--kv-cache-boundary-align-tokens", 1)
        counts = []
        for step in (10, 90):
            length, points, _ = self.points(*interval, "--checkpoint-min-step", step)
            continued = [at for at, reason in points if reason == "continued"]
            self.assertTrue(all(at % 40 == 0 for at in continued), continued)
            counts.append(len(continued))
        self.assertGreater(counts[0], counts[1])
        self.assertGreater(counts[1], 0)

    @covers("--ctx-checkpoints")
    def test_limit(self):
        for architecture in ("mamba2", "gemma3"):
            self.assertEqual(self.points("--ctx-checkpoints", 0, architecture=architecture)[1], [])
            self.assertGreater(len(self.points("--ctx-checkpoints", 8, architecture=architecture)[1]), 0)

    def test_no_point_of_a_short_prompt(self):
        for architecture in ("mamba2", "gemma3"):
            for least in (200, 5000):
                points = [at for at, _ in self.points("--kv-cache-min-tokens", least, architecture=architecture)[1]]
                self.assertTrue(all(at >= least for at in points), points)
                self.assertEqual(bool(points), least == 200)


class Server(FlagCase):
    @covers("--path", "--no-webui")
    def test_files_for_browsers(self):
        directory = fresh_directory()
        page, script = "<h1>\u00fc</h1>".encode(), b"let a = 1;\n"
        os.makedirs(os.path.join(directory, "a b"))
        for name, text in (("index.html", page), ("a b/app.js", script), (".secret", b"no"), ("health", b"hidden")):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(text)
        with open(os.path.join(directory, "a b", "index.html"), "wb") as file:
            file.write(page)
        for name in ("*", b"bad\xff.txt".decode(errors="surrogateescape")):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(b"odd")
        os.symlink("/etc/hostname", os.path.join(directory, "link.txt"))
        server = self.server("--path", directory, "--api-key", "sesame")

        def get(path, method="GET", **headers):
            with contextlib.closing(server.connection()) as connection:
                connection.request(method, path, headers=headers)
                reply = connection.getresponse()
                return reply.status, reply.getheader("Content-Type"), reply.read()

        key = {"Authorization": "Bearer sesame"}
        for path, headers in (("/", {}), ("/index.html", key), ("/a%20b/", key)):
            self.assertEqual(get(path, **headers), (200, "text/html; charset=utf-8", page))
        self.assertEqual(get("/index.html")[0], 401)
        self.assertEqual(get("/a%20b", **key)[0], 301)
        self.assertEqual(get("/", "HEAD"), (200, "text/html; charset=utf-8", b""))
        self.assertEqual(get("/a%20b/app.js")[0], 401)
        self.assertEqual(get("/a%20b/app.js", **key), (200, "text/javascript; charset=utf-8", script))
        for path in ("/.secret", "/link.txt", "/a%20b/../.secret", "/..%2f" + os.path.basename(directory) + "/index.html", "/anything"):
            self.assertIn(get(path, **key)[0], (400, 404), path)
        self.assertEqual(server.get("/health")["status"], "ok")
        self.assertIn("--path: /health is not served", server.log())
        self.assertIn("--path: '*' is not served", server.log())
        self.assertIn("programs talk to it", self.server("--path", directory, "--no-webui").get("/"))

    @covers("--webui", "--no-webui")
    def test_the_program_has_a_page(self):
        self.assertIn("<title>kvkeep</title>", self.server("--webui").get("/"))
        without_index = fresh_directory()
        with open(os.path.join(without_index, "notes.txt"), "w") as file:
            file.write("hello")
        server = self.server("--path", without_index)
        self.assertIn("<title>kvkeep</title>", server.get("/"))
        self.assertEqual(server.get("/notes.txt"), "hello")
        server = self.server("--no-ui")
        self.assertIn(f"OpenAI's clients:    http://127.0.0.1:{server.port}/v1\n", server.get("/"))
        self.assert_refused(404, server.get, "/web/page.js")
        self.assertIn("programs talk to it", self.server(environment={"LLAMA_ARG_UI": "off"}).get("/"))

    def test_a_folder_that_cannot_be_served_is_told_at_once(self):
        large = fresh_directory()
        with open(os.path.join(large, "large.bin"), "wb") as file:
            file.truncate((64 << 20) + 1)
        for directory, said in (("/nowhere", "No such file"), (large, "more than 64 MiB")):
            run = run_program(*serve_command("--no-kv-disk", "--path", directory, "--port", "0")[1:])
            self.assertEqual(run.returncode, 1, directory)
            self.assertRegex(run.stderr, f"--path {re.escape(directory)}: .*{said}")

    @contextlib.contextmanager
    def listening(self, *flags):
        """A server with its own --host and --port; yields its process and what it logs."""
        command = serve_command("--no-kv-disk", *flags)
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
            try:
                yield next(line for line in process.stderr if " serving " in line)
            finally:
                process.terminate()
                process.communicate(timeout=30)

    @staticmethod
    def healthy(host, port):
        connection = http.client.HTTPConnection(host, port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200

    @covers("--host", "--port")
    def test_host_and_port(self):
        with self.listening("--host", "127.0.0.2", "--port", "0") as line:
            host, port = re.search(r"http://([\d.]+):(\d+)", line).groups()
            self.assertEqual(host, "127.0.0.2")
            self.assertTrue(self.healthy(host, int(port)))
            with self.assertRaises(ConnectionRefusedError):
                self.healthy("127.0.0.1", int(port))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            chosen = probe.getsockname()[1]
        with self.listening("--port", str(chosen)) as line:
            self.assertIn(f"127.0.0.1:{chosen}", line)
            self.assertTrue(self.healthy("127.0.0.1", chosen))

    @covers("--api-key", "--api-key-file", "--allowed-hosts", "--allowed-origins", "--max-body-mb")
    def test_access(self):
        keys, link = fresh_path("keys"), fresh_path("link")
        with open(keys, "w") as file:
            file.write("# comment\nfrom-file\n")
        os.symlink(keys, link)  # as mounted secrets are
        server = self.server("--api-key", "given", "--api-key-file", link, "--allowed-hosts", "box.example",
                             "--allowed-origins", "http://page.example,localhost", "--max-body-mb", 1)

        def tokenize(text="x", **headers):
            return server.post("/tokenize", {"content": text}, headers=headers)
        given = {"Authorization": "Bearer given"}
        for key in ("given", "from-file"):
            tokenize(Authorization=f"Bearer {key}")
        self.assert_refused(401, tokenize, Authorization="Bearer other")
        tokenize(**given, Host="box.example")
        self.assert_refused(403, tokenize, **given, Host="other.example")
        tokenize(**given, Origin="http://page.example")
        tokenize(**given, Origin="http://localhost:3000")
        self.assert_refused(403, tokenize, **given, Origin="http://other.example")
        tokenize("x" * 1_000_000, **given)
        self.assert_refused(413, tokenize, "x" * 1_100_000, **given)

    @covers("--threads-http")
    def test_threads_http(self):
        """With one thread a short text waits until a long one is tokenized; with two it does not. Streams need none."""
        for threads, first in ((1, "long"), (2, "short")):
            with self.subTest(threads=threads):
                server = self.server("--threads-http", threads, "--max-body-mb", 64)
                endless = {"prompt": "long", "max_tokens": 100_000, "stream": True, "temperature": 0}
                streams = [server.stream(COMPLETION, endless) for _ in range(3)]
                for stream in streams:
                    next(stream)
                self.assertEqual(self.first_tokenized(server), first)
                for stream in streams:
                    stream.close()

    def first_tokenized(self, server):
        """Which of two texts, sent one after the other, is answered first."""
        links = {}
        for name, text in (("long", "a" * 1_000_000), ("short", "a word")):  # larger ones have threads of their own
            link = self.enterContext(socket.create_connection(("127.0.0.1", server.port), 60))
            body = json.dumps({"content": text}).encode()
            link.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            links[link] = name
            time.sleep(0.15)
        answered, _, _ = select.select(links, [], [], 60)
        return links[answered[0]]

    @covers("--timeout")
    def test_timeout(self):
        server = self.server("--timeout", 1)
        with socket.create_connection(("127.0.0.1", server.port), 20) as link:
            begin = time.monotonic()
            link.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            link.recv(1000)
        self.assertTrue(0.5 < time.monotonic() - begin < 10)


class Sampling(FlagCase):
    @classmethod
    def start_class_servers(cls):
        cls.plain = cls.class_server()

    def defaults_are_used(self, defaults, neutral):
        """A server with `defaults` answers as one that is asked for them; each single one changes its answer."""
        names = {"temperature": "--temp"}
        flags = [part for name, value in defaults.items()
                 for part in (names.get(name, "--" + name.replace("_", "-")), value)]
        server = self.server(*flags)
        fields = {"temperature": None, "max_tokens": 60}  # null: the server's default
        text = self.text(server, **fields)
        self.assertEqual(text, self.text(self.plain, **{**fields, **defaults}))
        for name, value in neutral.items():
            with self.subTest(name=name):
                self.assertNotEqual(text, self.text(server, **{**fields, name: value}))

    @covers("--seed", "--temperature", "--top-k", "--top-p", "--min-p")
    def test_choice(self):
        self.defaults_are_used({"temperature": 3, "seed": 11, "top_k": 50, "top_p": 0.9, "min_p": 0.01},
                               {"temperature": 1, "seed": 12, "top_k": 3, "top_p": 0.2, "min_p": 0.9})

    @covers("--repeat-penalty", "--repeat-last-n", "--presence-penalty", "--frequency-penalty")
    def test_penalties(self):
        self.defaults_are_used({"temperature": 0, "repeat_penalty": 1.3, "repeat_last_n": 100, "presence_penalty": 1.0,
                                "frequency_penalty": 1.0},
                               {"repeat_penalty": 0.1, "repeat_last_n": 0, "presence_penalty": -5,
                                "frequency_penalty": -5})

    @covers("--ignore-eos")
    def test_ignore_eos(self):
        path = model("--free-output")
        ending, going_on = self.server(model_path=path), self.server("--ignore-eos", model_path=path)
        [end] = ending.tokenize("<|im_end|>", special=True)[-1:]
        body = {"messages": [user("x")], "max_tokens": 6, "temperature": 0, "logit_bias": {str(end): 100}}
        self.assertEqual(ending.post(CHAT, body)["choices"][0]["finish_reason"], "stop")
        self.assertEqual(going_on.post(CHAT, {**body, "logit_bias": {}})["usage"]["completion_tokens"], 6)


class Log(FlagCase):
    @covers("--log-prefix", "--log-timestamps")
    def test_lines_without_level_and_time(self):
        time_of = r"\d{4}-\d\d-\d\d [\d:.]+ "
        for flags, start in ((("--no-log-prefix",), time_of + "serving "), (("--no-log-timestamps",), "info serving "),
                             (("--no-log-prefix", "--no-log-timestamps"), "serving "),
                             (("--log-prefix", "--log-timestamps"), time_of + "info serving ")):
            with self.subTest(flags=flags):
                self.assertRegex(self.server(*flags).log(), re.compile("^" + start, re.M))

    @covers("--log-colors")
    def test_log_colors(self):
        for asked, colored in (("on", True), ("off", False), ("auto", False)):  # the log goes into a file
            server = self.server("--log-colors", asked)
            self.assertEqual("\x1b[" in server.log(), colored, asked)

    @covers("--verbosity", "--log-verbose")
    def test_verbosity(self):
        quiet, usual, loud = self.server("-lv", 1), self.server(), self.server("-v")
        for server in (quiet, usual, loud):
            self.text(server)
            server.stop()
        self.assertEqual(quiet.log(), "")
        self.assertIn(" info ", usual.log())
        self.assertNotIn("libllama:", usual.log())
        self.assertNotIn("loading 50 %", usual.log(), "progress is for loads that take long")
        self.assertIn(" trace libllama:", loud.log())

    @covers("--log-file", "--log-disable")
    def test_log_file(self):
        path = fresh_path("log")
        server = self.server("--log-file", path, "--log-disable")
        self.text(server)
        server.stop()
        self.assertEqual(server.log(), "")
        with open(path) as file:
            self.assertIn("bye", file.read())
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    @covers("--log-format")
    def test_each_line_of_the_log_is_json(self):
        server = self.server("--log-format", "json", "--no-log-prefix", "--no-log-timestamps", "--log-colors", "on")
        self.text(server)
        with self.assertRaises(HttpError):
            server.post("/v1/chat/completions", {"messages": "quoted status=200"})
        server.stop()
        lines = [json.loads(line) for line in server.log().splitlines()]
        self.assertEqual({tuple(line)[:3] for line in lines}, {("time", "level", "message")})
        for line in lines:
            self.assertRegex(line["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(lines[-1]["message"], "bye")
        [done] = [line["fields"] for line in lines if " done " in line["message"]]
        self.assertEqual((done["end"], done["cached"], done["reply"], done["reason"]), ("length", 0, 24, "cache-off"))
        self.assertTrue(done["id"].startswith("cmpl-"))
        self.assertIn("queue_s", done)
        [refused] = [line["fields"] for line in lines if line["message"].startswith("http ")]
        self.assertEqual((refused["method"], refused["path"], refused["status"]), ("POST", "/v1/chat/completions", 400))
        self.assertIn("messages", refused["error"])

    @covers("--help", "--version")
    def test_help(self):
        self.assertIn("--help-all lists all", run_program("serve", "--help", "-m", "/nowhere").stdout)
        run = run_program("serve", "--help-all", "-m", "/nowhere")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for row in documented_flags():
            self.assertTrue(any(flag in run.stdout for flag in row), row)


if __name__ == "__main__":
    main()
