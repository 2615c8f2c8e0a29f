import assert from "node:assert/strict";
import {test} from "node:test";
import {EventLines, emptyReply, withEvent} from "../page/chat_stream.js";
import {add, branchesAt, change, choose, emptyChat, messagesTo, openCalls, partsOf, pathOf} from "../page/chat_tree.js";

const user = content => ({role: "user", content});
const assistant = (content, more = {}) => ({role: "assistant", content, state: "done", ...more});
const contents = chat => pathOf(chat).map(node => node.content);

test("an edit is a branch, and no branch is lost", () => {
  let [chat, first] = add(emptyChat(), 0, user("a"));
  let reply, second, other;
  [chat, reply] = add(chat, first, assistant("A"));
  [chat, second] = add(chat, reply, user("b"));
  [chat, other] = add(chat, reply, user("c"));
  assert.deepEqual(contents(chat), ["a", "A", "c"]);
  assert.deepEqual(branchesAt(chat, other), {all: [second, other], place: 1});
  [chat] = add(chat, other, assistant("C"));
  chat = choose(chat, second);
  assert.deepEqual(contents(chat), ["a", "A", "b"]);
  chat = choose(chat, other);
  assert.deepEqual(contents(chat), ["a", "A", "c", "C"], "a branch comes back with what followed it");
  const [edited, again] = add(chat, 0, user("x"));
  assert.deepEqual(contents(edited), ["x"]);
  assert.equal(branchesAt(edited, again).all.length, 2);
  assert.deepEqual(contents(chat), ["a", "A", "c", "C"], "the chat before is as it was");
});

test("what is sent for a message is the way to it", () => {
  let [chat, first] = add(emptyChat(), 0, user("a"));
  let caller, result;
  [chat, caller] = add(chat, first, assistant("", {reasoning: "hm", calls: [{id: "1", name: "f", arguments: "{}"}]}));
  [chat, result] = add(chat, caller, {role: "tool", callId: "1", content: "r"});
  [chat] = add(chat, 0, user("other"));
  assert.deepEqual(messagesTo(chat, result, "S"), [
    {role: "system", content: "S"}, {role: "user", content: "a"},
    {role: "assistant", content: "", reasoning_content: "hm", tool_calls: [{id: "1", type: "function", function: {name: "f", arguments: "{}"}}]},
    {role: "tool", tool_call_id: "1", content: "r"}]);
  assert.deepEqual(messagesTo(chat, first, ""), [{role: "user", content: "a"}]);
  assert.deepEqual(change(chat, 99, {content: "?"}), chat, "a message that is gone stays gone");
});

test("a reply that was broken off is sent as far as it came, and no empty turn", () => {
  for (const state of ["failed", "stopped"]) {
    let [chat, first] = add(emptyChat(), 0, user("a"));
    let reply, second;
    [chat, reply] = add(chat, first, assistant("", {state, error: "no room"}));
    [chat, second] = add(chat, reply, user("b"));
    assert.deepEqual(messagesTo(chat, second, ""), [user("a"), user("b")]);
    chat = change(chat, reply, {content: "half", calls: [{id: "1", name: "f", arguments: '{"pa'}]});
    assert.deepEqual(messagesTo(chat, second, ""), [user("a"), {role: "assistant", content: "half"}, user("b")]);
    chat = change(chat, reply, {content: "", reasoning: "hm"});
    assert.deepEqual(messagesTo(chat, second, "")[1], {role: "assistant", content: "", reasoning_content: "hm"});
    chat = change(chat, reply, {state: "done", reasoning: "", calls: []});
    assert.deepEqual(messagesTo(chat, second, "")[1], {role: "assistant", content: ""}, "the model may have said nothing");
  }
});

test("calls are open until each has its result", () => {
  let [chat, first] = add(emptyChat(), 0, user("a"));
  let caller, result;
  [chat, caller] = add(chat, first, assistant("", {state: "writing", calls: [{id: "1", name: "f"}, {id: "2", name: "g"}]}));
  assert.deepEqual(openCalls(chat), []);
  chat = change(chat, caller, {state: "done"});
  assert.deepEqual(openCalls(chat).map(call => call.id), ["1", "2"]);
  [chat, result] = add(chat, caller, {role: "tool", callId: "1", content: ""});
  assert.deepEqual(openCalls(chat).map(call => call.id), ["2"]);
  [chat, result] = add(chat, result, {role: "tool", callId: "2", content: ""});
  assert.deepEqual(openCalls(chat), []);
  [chat] = add(chat, result, assistant("done"));
  assert.deepEqual(openCalls(chat), []);
});

test("code is told from text, whatever is missing", () => {
  assert.deepEqual(partsOf("a\n```js\nb\n```\nc"), [{code: false, text: "a"}, {code: true, language: "js", text: "b"}, {code: false, text: "c"}]);
  assert.deepEqual(partsOf("```\nb"), [{code: true, language: "", text: "b"}]);
  assert.deepEqual(partsOf("```"), [{code: true, language: "", text: ""}]);
  assert.deepEqual(partsOf("a ``` b"), [{code: false, text: "a ``` b"}]);
  assert.deepEqual(partsOf(""), []);
});

test("a stream is the same wherever its bytes are cut", () => {
  const events = [{id: "x", choices: [{delta: {reasoning_content: "hm"}}]}, {choices: [{delta: {content: "a"}}]}, {choices: [{delta: {content: "\nb"}}]},
                  {choices: [{delta: {tool_calls: [{index: 0, id: "1", function: {name: "f", arguments: "{"}}]}}]},
                  {choices: [{delta: {tool_calls: [{index: 0, function: {arguments: "}"}}]}, finish_reason: "tool_calls"}], timings: {cache_n: 3}}];
  const text = ": comment\n\n" + events.map(event => `data: ${JSON.stringify(event)}\n\n`).join("") + "data: [DONE]\n\n";
  const whole = {content: "a\nb", reasoning: "hm", calls: [{id: "1", name: "f", arguments: "{}"}], timings: {cache_n: 3}, usage: null, finish: "tool_calls", id: "x"};
  for (let size = 1; size <= text.length; ++size) {
    const lines = new EventLines();
    let reply = emptyReply();
    for (let at = 0; at < text.length; at += size) for (const event of lines.take(text.slice(at, at + size))) reply = withEvent(reply, event);
    assert.deepEqual(reply, whole, `pieces of ${size}`);
  }
  assert.throws(() => withEvent(emptyReply(), {error: {message: "no room"}}), /no room/);
});
