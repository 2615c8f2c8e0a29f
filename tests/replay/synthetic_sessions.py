"""Sessions in the shape in which agents send them, with words made up here: what a recording would hold, a request a line.

Claude: a number in a line before everything else that differs from conversation to conversation, what it knows of the
repository in the first message, marks that move to the newest message, thoughts sent back with a signature. Open: a request
for a title first, tools behind the system prompt, thoughts in a field.
"""

import json
import random

WORDS = "river stone light paper house green seven table music winter garden morning window letter bridge".split()


def words(count, seed):
    source = random.Random(seed)
    return " ".join(source.choice(WORDS) for _ in range(count))


def line(t, path, body, headers, kind="main", turn=1):
    return json.dumps({"t": t, "client": "synthetic", "kind": kind, "turn": turn, "method": "POST", "path": path,
                       "headers": {"anthropic-version": "2023-06-01", **headers}, "body": body})


COMMITS = "0a1b2c3 First steps"


class Claude:
    """One conversation; each ask() is a request with everything before it."""

    PATH = "/v1/messages?beta=true"

    def __init__(self, number, task, repository=COMMITS, agent=None, summary=None, session=None):
        """`agent`: the name of a sub-agent; `session`: of the conversation that this one goes on from."""
        self.number, self.agent, self.thinks = number, agent, False
        self.headers = {"x-claude-code-session-id": session or f"{number} {task} {len(repository)}",
                        **({"x-claude-code-agent-id": agent} if agent else {})}
        known = [{"type": "text", "text": words(60, "rules")},
                 {"type": "text", "text": f"gitStatus: at the start\n\nStatus:\n(clean)\n\nRecent commits:\n{repository}"},
                 {"type": "text", "text": f"<system-reminder>\n{words(80, 'reminders')}\n</system-reminder>"}]
        said = [{"role": "user", "content": summary}, {"role": "assistant", "content": "I know."}] if summary else []
        self.messages = [*said, {"role": "user", "content": [*known, {"type": "text", "text": task}]}]
        self.lines = []

    def system(self):
        header = f"x-anthropic-billing-header: cc_version=2.1.329.{self.number};"
        words_of = "You help an agent. " + words(60, "helper") if self.agent else words(300, "system")
        return [{"type": "text", "text": header},
                {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": words_of, "cache_control": {"type": "ephemeral"}}]

    def tools(self):
        names = ["Read", "Grep"] if self.agent else ["Task", "Read", "Grep", "Edit"]
        return [{"name": name, "description": words(50, name),
                 "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}} for name in names]

    def ask(self, t, kind="main"):
        messages = json.loads(json.dumps(self.messages))
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        self.lines.append(line(t, self.PATH, {"model": "any", "max_tokens": 32000, "system": self.system(), "tools": self.tools(),
                                              "messages": messages, "stream": True},
                               self.headers, kind, len(self.lines) + 1))
        return self

    def call(self, *results):
        """The assistant calls, in parallel where there are several results; they come back."""
        number = len(self.messages)
        thought = [{"type": "thinking", "thinking": words(20, number), "signature": "c2lnbmVk"}] if self.thinks else []
        self.messages.append({"role": "assistant", "content": thought + [{"type": "text", "text": "I look."}] + [
            {"type": "tool_use", "id": f"toolu_{number}_{i}", "name": "Read", "input": {"path": f"{number}/{i}"}}
            for i in range(len(results))]})
        self.messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}_{i}", "content": result}
            for i, result in enumerate(results)]})
        return self

    def answer(self, text, task):
        self.messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
        self.messages.append({"role": "user", "content": [{"type": "text", "text": task}]})
        return self


class Open:
    """The same for a client of Chat Completions."""

    PATH = "/v1/chat/completions"

    def __init__(self, task):
        self.messages = [{"role": "system", "content": words(250, "open")}, {"role": "user", "content": task}]
        self.headers = {"x-session-id": task}
        self.lines = []

    def title(self, t):
        self.lines.append(line(t, self.PATH, {"max_tokens": 8192, "messages": [
            {"role": "system", "content": words(80, "title")}, self.messages[1]]}, self.headers, "title", 0))
        return self

    def ask(self, t):
        tools = [{"type": "function", "function": {"name": name, "description": words(50, name),
                                                   "parameters": {"type": "object", "properties": {}}}}
                 for name in ("bash", "edit", "read")]
        self.lines.append(line(t, self.PATH, {"max_tokens": 8192, "messages": list(self.messages), "tools": tools,
                                              "stream_options": {"include_usage": True}},
                               self.headers, "main", len(self.lines)))
        return self

    def call(self, *results):
        number = len(self.messages)
        calls = [{"id": f"call_{number}_{i}", "type": "function", "function": {"name": "bash", "arguments": '{"n":%d}' % i}}
                 for i in range(len(results))]
        self.messages.append({"role": "assistant", "content": "", "reasoning_content": words(20, number), "tool_calls": calls})
        self.messages += [{"role": "tool", "tool_call_id": calls[i]["id"], "content": result}
                          for i, result in enumerate(results)]
        return self

    def answer(self, text, task):
        self.messages += [{"role": "assistant", "content": text, "reasoning_content": words(20, text)},
                          {"role": "user", "content": task}]
        return self


COMMITTED = "4d5e6f7 One step more\n" + COMMITS
TASK, OTHER_TASK = "What does this do?", "Where is the last test?"


def loop(conversation, begin_s):
    """A task, two rounds of tools, and the answer."""
    conversation.ask(begin_s).call(words(60, "first")).ask(begin_s + 0.1)
    return conversation.call(words(40, "second"), words(50, "third")).ask(begin_s + 0.2)


def claude_sessions():
    """{name: lines}, in the order in which they are played."""
    fresh = loop(Claude("bbc", TASK), 0)
    other = loop(Claude("ef1", OTHER_TASK), 10)
    committed = loop(Claude("bbc", TASK, COMMITTED), 20)
    continued = Claude("bbc", TASK, COMMITTED)
    continued.messages = committed.messages
    continued.answer("All of it.", words(30, "next")).ask(30).call(words(40, "again")).ask(30.1)
    compacted = Claude("576", TASK, COMMITTED, summary=words(200, "summary"),
                       session=committed.headers["x-claude-code-session-id"]).ask(40)
    compacted.call(words(30, "after")).ask(40.1)
    thinking = Claude("bbc", "Think first.")
    thinking.thinks = True
    loop(thinking, 50)
    thinking.answer("So it is.", "And then?").ask(50.3)
    return {"fresh": fresh.lines, "other task": other.lines, "after a commit": committed.lines, "continued": continued.lines,
            "after /compact": compacted.lines, "thinking": thinking.lines, "sub-agents": with_agents()}


def with_agents():
    """A main conversation that starts two agents at once and goes on beside them."""
    main = Claude("a11", "Ask two others.").ask(60)
    agents = [Claude("a6b", f"Count the {WORDS[i]}.", agent=f"agent {i}").ask(60.1, "sub") for i in range(2)]
    main.call("started", "started").ask(60.1)
    for agent in agents:
        agent.call(words(50, "found")).ask(60.2, "sub")
    main.answer("They work.", "One said " + words(30, "said")).ask(60.3)
    lines = [*main.lines, *(one for agent in agents for one in agent.lines)]
    return sorted(lines, key=lambda one: json.loads(one)["t"])


def open_sessions():
    fresh = loop(Open(TASK).title(0), 0.1)
    other = loop(Open(OTHER_TASK).title(10), 10.1)
    continued = Open(OTHER_TASK)
    continued.messages = other.messages
    continued.answer("There.", words(30, "more")).ask(20).call(words(30, "last")).ask(20.1)
    return {"fresh": fresh.lines, "other task": other.lines, "continued": continued.lines}
