"""Requests in the shape in which clients send them, with words made up here: the last one differs from those before as the
client makes it differ. {name: (headers, first request, second request...)}, a request being (path, body).
"""

import json

from synthetic_sessions import words

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GIT = "gitStatus: at the start\nCurrent branch: main\n\nStatus:\n{}\n\nRecent commits:\n0a1b2c3 First steps"
SYSTEM = {"role": "system", "content": words(200, "system")}
GO, AND = {"role": "user", "content": "Go."}, {"role": "user", "content": "And?"}


def text(content):
    return {"type": "text", "text": content}


def messages(system, *blocks, more=()):
    """Claude Code: everything that it knows is blocks of the first message."""
    return MESSAGES, {"system": [text("x-anthropic-billing-header: cc_version=1.2.3.abc;"), text(system)],
                      "messages": [{"role": "user", "content": [text(block) for block in blocks]}, *more]}


def chat(*sent, tools=("bash", "edit", "read", "write")):
    return CHAT, {"messages": list(sent), "tools": [
        {"type": "function", "function": {"name": name, "description": words(50, name),
                                          "parameters": {"type": "object", "properties": {}}}} for name in tools]}


def another_day(day):
    return messages(words(200, "system"), words(80, "environment"),
                    f"<system-reminder>\nToday's date is 2026-11-{day}.\n</system-reminder>", words(90, "rules"), "What is it?")


def git_in_system(status):
    return messages(words(200, "system") + "\n" + GIT.format(status), words(120, "environment"), "What is it?")


def git_before_late_system(status):
    return messages(words(100, "system"), words(80, "environment"), GIT.format(status), "What is it?",
                    more=[{"role": "system", "content": words(200, "late")}])


def git_within_system(commits):
    return chat({"role": "system", "content": f"{words(200, 'system')}\nRecent commits:\n{commits}\n{words(100, 'rest')}"}, GO)


def resumed(*reminders):
    return chat(SYSTEM, {"role": "user", "content": [text(one) for one in (words(60, "environment"), *reminders, words(80, "folders"))]},
                {"role": "assistant", "content": "Fine."}, GO, {"role": "assistant", "content": words(120, "answer")}, AND)


def thought(**fields):
    return chat(SYSTEM, GO, {"role": "assistant", "content": words(60, "answer"), **fields}, {"role": "user", "content": words(60, "more")})


def called(arguments, result=words(90, "result"), task="Go."):
    return chat(SYSTEM, {"role": "user", "content": task}, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "edit", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "c1", "content": result}, {"role": "assistant", "content": words(110, "after")}, AND)


def answered(answer, thought=None, system=""):
    fields = {"reasoning_content": thought} if thought else {}
    return chat({"role": "system", "content": words(200, "system") + system}, GO, {"role": "assistant", "content": answer, **fields},
                {"role": "user", "content": words(110, "more")})


def described_alike(*names):
    return CHAT, {"messages": [SYSTEM, GO], "tools": [
        {"name": name, "description": words(50, "described"), "input_schema": {"id": {"type": "string"}}} for name in names]}


def with_schema(schema):
    return CHAT, {"messages": [SYSTEM, GO], "tools": [{"name": "find", "description": words(50, "find"), "parameters": schema},
                                                      {"name": "read", "description": words(50, "read"), "parameters": {}}]}


def powered_by(name):
    return chat({"role": "system", "content": f"{words(90, 'system')}\nYou are powered by the model named {name}.\n{words(110, 'rest')}"}, GO)


def small_tools(*names):
    return CHAT, {"messages": [SYSTEM, GO], "tools": [{"name": name, "description": f"does {name}"} for name in names]}


def responses(task, *outputs):
    def item(role, content):
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": content}]}
    items = [item("developer", words(200, "developer")), item("user", words(40, "environment")), item("user", task)]
    for number, output in enumerate(outputs):
        items += [{"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": '{"cmd":"ls"}'},
                  {"type": "function_call_output", "call_id": f"c{number}", "output": output}]
    return RESPONSES, {"input": items, "tools": [{"type": "function", "name": name, "description": words(50, name), "parameters": {}}
                                                 for name in ("shell", "plan")]}


def with_tools(*names):
    return chat({"role": "system", "content": words(100, "system")}, GO, tools=names)


REMINDER = "\n<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"
EDIT = {"file_path": "src/app.py", "old_string": "def first():\n    return the + old + words\n\n\ndef second():",
        "new_string": "def first(self):\n    return other + new + lines\n\n\ndef second(self):"}
NAMED = {"session-id": "one"}
SHAPES = {
    "another day": ({}, another_day(20), another_day(21)),
    "git at the end of the system prompt": ({}, git_in_system("(clean)"), git_in_system("M src/app.py")),
    "git before a late system prompt": ({}, git_before_late_system("(clean)"), git_before_late_system("M src/app.py")),
    "commits within the system prompt": ({}, git_within_system("0a1b2c3 First steps"), git_within_system("4d5e6f7 Second step")),
    "a resumed conversation without its date": ({}, resumed("Today is Friday, November 20, 2026."), resumed()),
    "an answer without its thought": ({}, thought(reasoning_content=words(50, "thought")), thought()),
    "a call with defaults": ({}, called('{"file_path":"a.py","new_string":"x"}'),
                             called('{"replace_all":false,"file_path":"a.py","new_string":"x"}')),
    "a call with its arguments the other way round": ({}, called(json.dumps(EDIT)), called(json.dumps(dict(reversed(EDIT.items()))))),
    "a call with other blanks": ({}, called('{"path":"a.py","line":"two"}'), called('{"path": "a.py", "line": "two"}')),
    "a tool with its keys in another order": ({}, with_schema({"type": "object", "properties": {}}),
                                              with_schema({"properties": {}, "type": "object"})),
    "another model": ({}, powered_by("Ada Small"), powered_by("Bell Large")),
    "another model each time": ({}, powered_by("Ada Small"), powered_by("Bell Large"), powered_by("Curie")),
    "a call without its last argument": ({}, called('{"command":"ls","timeout":120000}'), called('{"command":"ls"}')),
    "a call with another form of a number": ({}, called('{"timeout":1000}'), called('{"timeout":1000.0}')),
    "a system text without its end": ({}, answered("Fine.", system=" Be brief."), answered("Fine.")),
    "an answer without its end": ({}, answered("Fine. So be it."), answered("Fine.")),
    "an answer without its blank": ({}, answered("Fine. "), answered("Fine.")),
    "a thought that ends earlier": ({}, answered("Fine.", "I see, or so"), answered("Fine.", "I see")),
    "a short result emptied": ({}, called('{"a":1}', "done"), called('{"a":1}', "")),
    "a result without its reminder": ({}, called('{"a":1}', "done" + REMINDER), called('{"a":1}', "done")),
    "a question without its reminder": ({}, called('{"a":1}', task="Go." + REMINDER), called('{"a":1}', task="Go.")),
    "a tool put in before one of the same schema": ({}, described_alike("read", "find"), described_alike("look", "read", "find")),
    "three small tools in another order": ({}, small_tools("a", "b", "c"), small_tools("c", "b", "a")),
    "another task": ({}, responses("Go.", words(90, "output")), responses("Stay here.", words(90, "output"))),
    "a result left out later": (NAMED, responses("Go.", words(60, "output"), words(150, "next")),
                                responses("Go.", "[left out]", words(150, "next"))),
    "tools of a sub-agent": ({}, with_tools("bash", "task", "todo", "write"), with_tools("bash", "todo", "write")),
    "tools in another order": ({}, with_tools("bash", "task", "todo", "write"), with_tools("bash", "write", "todo", "task")),
    "a tool described anew": ({}, with_tools("bash", "task", "todo", "write"), with_tools("bash", "test", "todo", "write")),
}


def lines(name):
    headers, *requests = SHAPES[name]
    return [json.dumps({"t": number, "client": "synthetic", "method": "POST", "path": path, "headers": headers, "body": body})
            for number, (path, body) in enumerate(requests)]
