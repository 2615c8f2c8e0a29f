"""The prompts that templates of each family print, beside llama-server's: the same requests to /apply-template of both.

llama.cpp's engine and ours were written apart from each other, so that an error in one shows. jinja2 is the reference
(tests/jinja); where llama-server's text is another, DIFFERENCES says why.
"""

import glob
import os
import unittest

import support
from support import assistant, system, user

LLAMA_SERVER = os.environ["KVKEEP_LLAMA_SERVER"]
TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jinja", "templates")

TOOLS = [
    {"type": "function", "function": {
        "name": "read_file", "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {
            "path": {"type": "string", "description": "Where it lies."},
            "lines": {"type": "integer"}, "mode": {"type": "string", "enum": ["text", "raw"]}}, "required": ["path"]}}},
    {"type": "function", "function": {
        "name": "now", "description": "Tells the time.", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, arguments, number=1):
    return {"id": f"abcdefgh{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, number=1):
    return {"role": "tool", "tool_call_id": f"abcdefgh{number}", "name": "read_file", "content": text}


CALLED = {**assistant(""), "tool_calls": [call("read_file", '{"path": "a/é.txt", "lines": 3}')]}
REQUESTS = {
    "a question": {"messages": [user("What is a stone?")]},
    "a system prompt": {"messages": [system("Be brief."), user(" Hello!\n")]},
    "turns": {"messages": [system("Be brief."), user("Hello"), assistant("Hi."), user("And now?"), assistant("Now."), user("é 中 😀")]},
    "a marker in a message": {"messages": [user("What does <|im_end|> or </s> mean?")]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]}]},
    "tools": {"messages": [system("Be brief."), user("Read it.")], "tools": TOOLS},
    "a call": {"messages": [user("Read it."), CALLED, result('{"text": "é <b>"}')], "tools": TOOLS},
    "two calls": {"messages": [user("Read it."),
                               {**assistant("I look."), "tool_calls": [call("read_file", '{"path": "a"}', 1), call("now", "{}", 2)]},
                               result("one", 1), result("two", 2), assistant("Done."), user("Thanks.")], "tools": TOOLS},
    "a thought": {"messages": [user("Why?"), {**assistant("So."), "reasoning_content": "Because."}, user("And?")]},
    "a thought before a call": {"messages": [user("Read it."), {**CALLED, "reasoning_content": "I must look."}, result("x")], "tools": TOOLS},
}

TOOL_REQUESTS = ["tools", "a call", "two calls", "a thought before a call"]
# (template, request): why llama-server's text is another.
PERCENT = "llama.cpp's engine does not know `'%s' % text` and prints the %s; jinja2 fills it in"
WORDWRAP = "llama.cpp's engine has no filter wordwrap; jinja2 has it"
JOINED = "we put a line end between the text parts of a message for every template; llama-server leaves it to the template"
TOOLLESS = "the template knows no tools: we write them, calls and results into messages, llama-server leaves them out"
ALTERNATES = "the same, and left with a tool's message that the template does not know, llama-server refuses"
DIFFERENCES = {
    **{("command_r", what): PERCENT for what in REQUESTS if what not in TOOL_REQUESTS},
    **{("command_r", what): WORDWRAP for what in TOOL_REQUESTS},
    **{(name, "parts"): JOINED for name in ("gemma3", "glm4", "kimi")},
    ("gemma3", "tools"): TOOLLESS,
    **{("gemma3", what): ALTERNATES for what in TOOL_REQUESTS[1:]},
    **{("phi", what): TOOLLESS for what in TOOL_REQUESTS},
}
# Reasons for which llama-server answers with an error.
REFUSED_THERE = {WORDWRAP, ALTERNATES}
REFUSED = "refused"


class ApplyTemplate(unittest.TestCase):
    def test_prompts_are_llama_servers(self):
        model = support.model()
        names = [os.path.splitext(os.path.basename(path))[0] for path in glob.glob(os.path.join(TEMPLATES, "*.jinja"))]
        self.assertGreater(len(names), 10)
        for name in sorted(names):
            flags = ["-m", model, "-c", "512", "--jinja", "--chat-template-file", os.path.join(TEMPLATES, f"{name}.jinja")]
            with support.ServerProcess([support.PROGRAM, "serve", *flags, "--no-kv-disk"]) as ours, \
                 support.ServerProcess([LLAMA_SERVER, *flags, "--no-webui", "--no-warmup"]) as theirs:
                for what, body in REQUESTS.items():
                    with self.subTest(template=name, request=what):
                        self.compare(prompt_of(ours, body), prompt_of(theirs, body), DIFFERENCES.get((name, what)))

    def compare(self, ours, theirs, reason):
        if reason is None:
            self.assertEqual(ours, theirs)
            return
        self.assertNotEqual(ours, REFUSED)
        self.assertNotEqual(ours, theirs, f"this difference is gone: {reason}")
        self.assertEqual(theirs == REFUSED, reason in REFUSED_THERE, theirs)


def prompt_of(server, body):
    try:
        return server.post("/apply-template", body)["prompt"]
    except support.HttpError as error:
        if error.status != 400:
            raise
        return REFUSED


if __name__ == "__main__":
    unittest.main()
