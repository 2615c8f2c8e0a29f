"""Pairs of requests in the shape in which clients send them, with words made up here: the second one differs from the first
as the client makes it differ. {name: (headers, first request, second request)}, a request being (path, body).
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


def called(arguments):
    return chat(SYSTEM, GO, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "edit", "arguments": arguments}}]},
        {"role": "tool", "tool_call_id": "c1", "content": words(90, "result")}, AND)


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
