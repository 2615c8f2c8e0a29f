// A chat as a tree of messages: an edit makes a branch next to the message that it changes, and nothing is lost. Pure:
// each function returns a new chat.

export const emptyChat = () => ({nodes: {}, chosen: {}, next: 1});
const ROOT = 0;

// The ids of the messages that answer `parent` (0: the first ones), in the order in which they were made.
export const childrenOf = (chat, parent) => Object.values(chat.nodes).filter(node => node.parent === parent).map(node => node.id);

// Adds a message below `parent` and shows it. Returns the chat and the message's id.
export function add(chat, parent, message) {
  const id = chat.next;
  return [{nodes: {...chat.nodes, [id]: {...message, id, parent}}, chosen: {...chat.chosen, [parent]: id}, next: id + 1}, id];
}

export const change = (chat, id, changes) =>
  chat.nodes[id] ? {...chat, nodes: {...chat.nodes, [id]: {...chat.nodes[id], ...changes}}} : chat;

// The messages that are shown: from the first one on, at each branching the chosen one.
export function pathOf(chat) {
  const path = [];
  for (let id = chat.chosen[ROOT]; id !== undefined; id = chat.chosen[id]) path.push(chat.nodes[id]);
  return path;
}

// Shows another branch at the place of `id`.
export const choose = (chat, id) => ({...chat, chosen: {...chat.chosen, [chat.nodes[id].parent]: id}});

// All branches at the place of `id`, and which of them it is.
export function branchesAt(chat, id) {
  const all = childrenOf(chat, chat.nodes[id].parent);
  return {all, place: all.indexOf(id)};
}

// Calls of a reply that was broken off may lack their end, and get no results.
const isDone = node => node.state === "done";

function sent(node) {
  if (node.role === "tool") return {role: "tool", tool_call_id: node.callId, content: node.content};
  if (node.role !== "assistant") return {role: node.role, content: node.content};
  const message = {role: "assistant", content: node.content};
  if (node.reasoning) message.reasoning_content = node.reasoning;
  if (isDone(node) && node.calls?.length > 0) message.tool_calls = node.calls.map(call => ({id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
  return message;
}

// A reply that failed or was stopped before its first word is no turn: an empty one would change the prompt.
const isTurn = node => node.role !== "assistant" || isDone(node) || node.content !== "" || Boolean(node.reasoning);

// What is sent to get an answer to the message `leaf`.
export function messagesTo(chat, leaf, systemPrompt) {
  const messages = [];
  for (let node = chat.nodes[leaf]; node; node = chat.nodes[node.parent]) if (isTurn(node)) messages.unshift(sent(node));
  return systemPrompt ? [{role: "system", content: systemPrompt}, ...messages] : messages;
}

// The calls of the last message that have no result yet.
export function openCalls(chat) {
  const path = pathOf(chat);
  const answered = new Set(path.filter(node => node.role === "tool").map(node => node.callId));
  const caller = path.findLast(node => node.role !== "tool");
  if (caller?.role !== "assistant" || !isDone(caller)) return [];
  return (caller.calls ?? []).filter(call => !answered.has(call.id));
}

// A text in parts: {code: false, text} or {code: true, language, text}, at lines of three backticks.
export function partsOf(text) {
  const parts = [];
  for (const [i, part] of text.split(/^```/m).entries()) {
    if (i % 2 === 0) {
      if (part.trim() !== "") parts.push({code: false, text: part.replace(/^\n+|\n+$/g, "")});
      continue;
    }
    const end = part.indexOf("\n");
    parts.push({code: true, language: (end < 0 ? part : part.slice(0, end)).trim(), text: end < 0 ? "" : part.slice(end + 1).replace(/\n$/, "")});
  }
  return parts;
}
