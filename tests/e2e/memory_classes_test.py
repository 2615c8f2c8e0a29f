"""Every memory class behind the real program: what is restored at a point or window gives the text that was never
restored, over turns, branches, resends, sessions that push each other out, restarts and kills.

The models are small ones of each class; windows are short, so that conversations go far past them. Quantized rows and
flash attention make results depend less on where rows lie (see exactness_case.py), so most texts are equal to the letter.
"""

import concurrent.futures

from exactness_case import CACHED, CHAT, ExactnessCase
from monitoring_test import metrics
from support import (NOISE, assistant, files_under, fresh_directory, fresh_path, main, model, reply_text, system, timings,
                     user, wait_until, words)

# Thinking stays until the next user message; tool results are user turns.
DROPS_THINKING = """\
{%- set state = namespace(task=-1) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set state.task = loop.index0 %}{%- endif %}{%- endfor %}
{%- if tools %}{{- '<|im_start|>system\n' }}{{- tools | tojson }}{{- '<|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- if message.reasoning_content and loop.index0 > state.task %}
{{- '<think>\n' + message.reasoning_content + '\n</think>\n\n' }}
{%- endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}{{- call.function.name + ' ' }}{{- call.function.arguments | tojson }}{%- endfor %}
{{- '<|im_end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""

REPRODUCIBLE = ("-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")


class MemoryClass(ExactnessCase):
    memory_class = None  # as the log names it
    leaves = ".point.kvs"  # how files of what rows cannot give end
    layouts = ((),)  # of its cells

    @classmethod
    def start_class_servers(cls):
        cls.model_path = model(*cls.model_flags)
        cls.plain = cls.class_server("--cache-ram", 0, *REPRODUCIBLE, model_path=cls.model_path)
        cls.cached = cls.class_server(*CACHED, *REPRODUCIBLE, "-lv", 4, model_path=cls.model_path)

    def start(self, *flags):
        return self.server(*CACHED, *REPRODUCIBLE, "-lv", 4, *flags, model_path=self.model_path)

    def known(self, server, messages):
        """Tokens of the conversation up to the end of its last answer's prompt: what a next turn must find."""
        return len(server.prompt_ids(messages[:-1])) - 4

    def test_the_class_is_found(self):
        self.assertIn(f"memory class {self.memory_class}: ", self.cached.log())

    def test_the_log_says_how_the_template_changes_history(self):
        told = [line for line in self.cached.log().splitlines() if "chat template: " in line]
        self.assertEqual(len(told), 1)
        self.assertIn("every reply with thinking is written anew", told[0])

    def test_growing_turns(self):
        messages, cached = self.grow(self.cached, [system(words(150, 1))], 6)
        self.assertGreater(min(cached[1:]), 150)
        self.assertEqual(cached, sorted(cached))

    def test_identical_requests(self):
        messages = [system(words(120, 2)), user(words(40, 3))]
        self.same_chat(self.cached, messages)
        for _ in range(2):
            reply = self.same_chat(self.cached, messages)
            self.assertLessEqual(timings(reply)["prompt_n"], 4)

    def test_requests_after_one_system_prompt(self):
        head = system(words(200, 4))
        self.same_chat(self.cached, [head, user("First.")])
        for number in range(5):
            reply = self.same_chat(self.cached, [head, user(f"Question {number}: {words(8, 10 + number)}")])
            self.assertGreater(timings(reply)["cache_n"], 195)

    def test_branches_and_back(self):
        trunk, _ = self.grow(self.cached, [system(words(120, 5))], 3)
        for branch in range(4):
            cut = trunk[:3 + 2 * (branch % 2)]
            reply = self.same_chat(self.cached, [*cut, user(f"Branch {branch}: {words(10, 50 + branch)}")])
            self.assertGreater(timings(reply)["cache_n"], 120)
        reply = self.same_chat(self.cached, [*trunk, user("Back on the main line.")])
        self.assertGreaterEqual(timings(reply)["cache_n"], self.known(self.cached, trunk))

    def test_a_long_reply_goes_past_the_window(self):
        messages, _ = self.grow(self.cached, [system(words(100, 6))], 2)
        self.same_chat(self.cached, [*messages, user("Go on.")], max_tokens=160)

    def test_concurrent_requests(self):
        prompts = self.prompts_at_once()
        for layout in self.layouts:
            with self.subTest(layout=layout):
                server = self.start("-np", 4, "-b", 128, "-ub", 64, *layout)
                replies = self.same_at_once(server, prompts, max_tokens=24)
                shared_cached = sorted(timings(reply)["cache_n"] for reply in replies[:6])
                self.assertGreater(shared_cached[1], self.shared_words * 2 // 3,
                                   "all but the first find the shared prefix")
                for messages in prompts[::3]:  # as they were captured next to others
                    again = self.same_chat(server, messages, max_tokens=24)
                    self.assertLessEqual(timings(again)["prompt_n"], 4)
                if layout:
                    self.assertIn("running requests has 1024 cells of its own", server.log())

    def test_sessions_that_push_each_other_out(self):
        server = self.start("-c", 1024, "-np", 2)
        sessions = [[system(words(150, 20 + number))] for number in range(6)]
        for turn in range(2):
            for number, messages in enumerate(sessions):
                messages.append(user(f"Turn {turn} of {number}: {words(30, turn)}"))
                reply = self.same_chat(server, messages, max_tokens=8)
                messages.append(assistant(reply_text(reply)))
                if turn > 0:
                    self.assertGreater(timings(reply)["cache_n"], 150)

    def test_replies_in_calls_shared_with_prefills(self):
        server = self.start("-np", 3, "--decode-with-prefill", "together", "--prefill-slice-ms", "0.01", "--metrics",
                            "--kv-disk-dir", fresh_directory())
        bodies = []
        for seed, count, tokens in ((92, 30, 150), (93, 200, 60), (94, 350, 8)):
            messages = [system(words(count, seed)), user("Go on.")]
            bodies.append({"messages": messages, "max_tokens": tokens, "temperature": 0, "return_tokens": True})
        with concurrent.futures.ThreadPoolExecutor() as clients:
            replies = list(clients.map(lambda body: server.post(CHAT, body), bodies))
        self.assertGreater(metrics(server)[0]["kvkeep_joint_calls_total"], 2)
        for body, reply in zip(bodies, replies):
            self.same(CHAT, body, reply)
            body["messages"] += [assistant(reply_text(reply)), user("And then?")]
        self.assertEqual(server.stop(), 0)
        server.start()
        for body in bodies:
            reply = self.same_chat(server, body["messages"])
            self.assertGreaterEqual(timings(reply)["cache_n"], self.known(server, body["messages"][:-1]))

    def before_restart(self, server):
        pass

    def after_restart(self, server):
        pass

    def test_restart_and_kill(self):
        directory = fresh_directory()
        server = self.start("--kv-disk-dir", directory)
        self.before_restart(server)
        messages, _ = self.grow(server, [system(words(150, 70))], 3)
        other, _ = self.grow(server, [system(words(60, 71))], 2)
        self.assertEqual(server.stop(), 0)
        server.start()
        self.after_restart(server)
        for conversation in (messages, other):
            reply = self.same_chat(server, [*conversation, user("And after the restart?")])
            self.assertGreaterEqual(timings(reply)["cache_n"], self.known(server, conversation))
            self.assertEqual(timings(reply)["cache_source"], "disk-token")
        wait_until(lambda: any(path.endswith(self.leaves) for path in files_under(directory)), "points are written")
        server.restart_after_kill()
        reply = self.same_chat(server, [*messages[:3], user("What if not?")])
        self.assertEqual(timings(reply)["cache_source"], "disk-token")
        self.assertGreater(timings(reply)["cache_n"], 150)

    def test_damaged_and_missing_points_are_a_miss(self):
        directory = fresh_directory()
        server = self.start("--kv-disk-dir", directory)
        messages, _ = self.grow(server, [system(words(150, 80))], 3)
        self.assertEqual(server.stop(), 0)
        leaves = sorted(path for path in files_under(directory) if path.endswith(self.leaves))
        self.assertGreater(len(leaves), 2)
        for number, path in enumerate(leaves):
            with open(path, "r+b") as file:
                if number % 2 == 0:
                    file.seek(-5, 2)
                    byte = file.read(1)
                    file.seek(-5, 2)
                    file.write(bytes([byte[0] ^ 1]))
                else:
                    file.truncate(100)
        server.start()
        self.same_chat(server, [*messages, user("And with damage?")])
        reply = self.same_chat(server, [*messages, user("And then?")])
        self.assertGreater(timings(reply)["cache_n"], 150, "what was computed again is stored again")


class Windowed(MemoryClass):
    model_flags = ("--arch", "gemma3", "--window", "64")
    layouts = ((), ("-no-kvu",))
    memory_class = "windowed"
    leaves = ".window.kvs"
    long_prompt = words(2072, 72)

    def before_restart(self, server):
        self.same_completion(server, self.long_prompt, max_tokens=1)

    def after_restart(self, server):
        """A window is kept each 512 tokens, so that another prompt finds one before the place where it leaves."""
        begin = " ".join(self.long_prompt.split()[:900])
        shared = len(server.tokenize(begin, special=True))
        reply = self.same_completion(server, f"{begin} {words(20, 73)}", max_tokens=1)
        self.assertGreater(timings(reply)["cache_n"], shared - 520)


def call(number):
    function = {"name": "read", "arguments": f'{{"path": "{number}"}}'}
    return {"role": "assistant", "content": "", "reasoning_content": words(12, number),
            "tool_calls": [{"id": f"call{number}", "type": "function", "function": function}]}


class Hybrid(MemoryClass):
    model_flags = ("--arch", "qwen35")
    layouts = ((), ("-no-kvu",))
    memory_class = "hybrid"

    def test_after_a_tool_loop_only_what_dropped_thinking_changed_is_prefilled(self):
        template = fresh_path("drops_thinking.jinja")
        with open(template, "w") as file:
            file.write(DROPS_THINKING)
        server = self.start("--chat-template-file", template, "--ctx-checkpoints", 4)
        self.assertIn("chat template: thinking stays until the next user message", server.log())
        messages = [system(words(60, 90)), user(words(30, 91))]
        kept = len(server.prompt_ids(messages))
        for number in range(6):
            server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4})
            messages += [call(number), {"role": "tool", "tool_call_id": f"call{number}", "content": words(40, number)}]
        messages += [assistant("Done."), user("And now?")]
        reply = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4})
        self.assertGreaterEqual(timings(reply)["cache_n"], kept - 4)


class HybridWithWindow(MemoryClass):
    model_flags = ("--arch", "lfm2", "--window", "64")
    memory_class = "hybrid"


class Recurrent(MemoryClass):
    model_flags = ("--arch", "mamba2")
    memory_class = "recurrent"


class Opaque(MemoryClass):
    model_flags = ("--arch", "deepseek4")
    memory_class = "opaque"
    leaves = ".whole.kvs"
    # An indexer picks 64 keys, each made of 4 tokens. In longer prompts the last bits of scores decide which: the same
    # load without a cache then tips tokens that are no close second.
    shared_words = 80
    step_words = 14
    longest_at_once = 256

    def test_concurrent_requests(self):
        longest = max(len(self.plain.prompt_ids(messages)) for messages in self.prompts_at_once())
        self.assertLessEqual(longest + 24, self.longest_at_once, "prompts of which the indexer picks all keys")
        super().test_concurrent_requests()


del ExactnessCase, MemoryClass  # only its children are tests

if __name__ == "__main__":
    main()
