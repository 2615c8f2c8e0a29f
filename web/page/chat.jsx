// A small chat, to see what each message and each edit reuses. It is kept in memory only.

import {useEffect, useRef, useState} from "preact/hooks";
import {TokenBar} from "../shared/bar.jsx";
import {duration, grouped, harmless, shown} from "../shared/text.js";
import {send} from "./api.js";
import {readReply} from "./chat_stream.js";
import {add, branchesAt, change, choose, emptyChat, messagesTo, openCalls, partsOf, pathOf} from "./chat_tree.js";
import {readCause} from "./model.js";
import {Explanation} from "./requests.jsx";
import {Store, useStore} from "./store.js";

const chatStore = new Store(emptyChat());
const settings = new Store({system: "", maxTokens: "512", temperature: "", tools: ""});
const writing = new Store(null);  // the AbortController of the reply that is being written

function requestBody(chat, leaf) {
  const {system, maxTokens, temperature, tools} = settings.value;
  const body = {messages: messagesTo(chat, leaf, system), stream: true, stream_options: {include_usage: true}, timings_per_token: false};
  if (maxTokens !== "") body.max_tokens = Number(maxTokens);
  if (temperature !== "") body.temperature = Number(temperature);
  if (tools.trim() !== "") body.tools = JSON.parse(tools);
  return body;
}

// Asks for an answer to the message `leaf`.
async function answer(leaf) {
  const abort = new AbortController();
  const [chat, id] = add(chatStore.value, leaf, {role: "assistant", content: "", state: "writing"});
  chatStore.set(chat);
  writing.set(abort);
  const note = changes => chatStore.update(now => change(now, id, changes));
  const begin = performance.now();
  let firstMs = null;
  try {
    const reply = await send("v1/chat/completions", {body: requestBody(chat, leaf), signal: abort.signal});
    const show = ({content, reasoning, calls, timings}) => {
      if (firstMs === null && (content || reasoning || calls.length > 0)) firstMs = performance.now() - begin;
      note({content, reasoning, calls, timings, firstMs});
    };
    const whole = await readReply(reply.body, show);
    show(whole);
    note({state: "done", finish: whole.finish, usage: whole.usage});
  } catch (error) {
    note(abort.signal.aborted ? {state: "stopped"} : {state: "failed", error: error.message});
  }
  writing.set(null);
}

function say(parent, message) {
  const [chat, id] = add(chatStore.value, parent, message);
  chatStore.set(chat);
  return answer(id);
}

// Adds the results of calls, one message each, and asks for the answer.
function giveResults(results) {
  let [chat, last] = [chatStore.value, pathOf(chatStore.value).at(-1).id];
  for (const [callId, content] of results) [chat, last] = add(chat, last, {role: "tool", callId, content});
  chatStore.set(chat);
  answer(last);
}

// Most models begin a reply with a blank or an empty line.
const Text = ({text}) => partsOf(text.trimStart()).map((part, i) => part.code ? <pre key={i} tabIndex={0} aria-label={`Code ${shown(part.language, 20)}`}><code>{harmless(part.text)}</code></pre>
  : <p key={i} class="text">{harmless(part.text)}</p>);

function Call({call}) {
  return <div class="call"><p class="soft">calls <b class="mono">{shown(call.name, 120)}</b></p><pre tabIndex={0} aria-label={`Arguments of ${shown(call.name, 60)}`}><code>{harmless(call.arguments)}</code></pre></div>;
}

// What the cache did for a reply.
function Reused({node}) {
  const {timings} = node;
  if (!timings) return null;
  const tokens = timings.cache_tokens ?? {};
  const counts = {memory: tokens.memory ?? 0, ram: tokens.ram ?? 0, disk: tokens.disk ?? 0, shared: tokens.shared ?? 0, prefilled: timings.prompt_n ?? 0};
  const prompt = (timings.cache_n ?? 0) + counts.prefilled;
  const cause = readCause(timings);
  const rate = timings.predicted_n > 1 && timings.predicted_ms > 0 ? `${(1000 * (timings.predicted_n - 1) / timings.predicted_ms).toFixed(1)} tokens/s` : "";
  return (
    <div class="reused">
      <TokenBar counts={counts} whole={prompt}/>
      <p><b>{grouped(timings.cache_n ?? 0)}</b> of {grouped(prompt)} tokens reused, {grouped(counts.prefilled)} prefilled
        <span class="soft">{[node.firstMs === null ? "" : `first token after ${duration(node.firstMs / 1000)}`, rate].filter(Boolean).map(fact => `, ${fact}`)}</span></p>
      {cause && <details><summary>{shown(cause.short, 80) || "Why not more"}</summary><Explanation request={{cause}}/></details>}
    </div>
  );
}

function Branches({chat, node}) {
  const {all, place} = branchesAt(chat, node.id);
  if (all.length < 2) return null;
  const step = by => chatStore.set(choose(chat, all[place + by]));
  return (
    <span class="branches" role="group" aria-label="Branches">
      <button type="button" aria-label="Branch before" disabled={place === 0} onClick={() => step(-1)}>‹</button>
      <span>{place + 1} / {all.length}</span>
      <button type="button" aria-label="Branch after" disabled={place === all.length - 1} onClick={() => step(1)}>›</button>
    </span>
  );
}

function Editor({node, onEnd}) {
  const [text, setText] = useState(node.content);
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const save = event => {
    event.preventDefault();
    onEnd();
    say(node.parent, {role: "user", content: text});
  };
  return (
    <form onSubmit={save} onKeyDown={event => event.key === "Escape" && onEnd()}>
      <label><span class="hidden">Changed message</span>
        <textarea ref={field} rows="3" value={text} required onInput={event => setText(event.currentTarget.value)}></textarea></label>
      <p class="buttons"><button type="button" onClick={onEnd}>Cancel</button><button class="main" type="submit">Send as a branch</button></p>
    </form>
  );
}

const NAMES = {user: "You", assistant: "Model", tool: "Result"};
const ENDS = {stopped: "Stopped.", writing: "writes…"};

function Message({chat, node, busy}) {
  const [edits, setEdits] = useState(false);
  return (
    <article class={`message ${node.role}`} aria-label={NAMES[node.role]}>
      <header><b>{NAMES[node.role]}</b><span class="soft">{ENDS[node.state] ?? (node.finish === "length" ? "cut off at the token limit" : "")}</span><Branches chat={chat} node={node}/></header>
      {node.reasoning && <details open={node.state === "writing" && !node.content}><summary>Reasoning</summary><Text text={node.reasoning}/></details>}
      {edits ? <Editor node={node} onEnd={() => setEdits(false)}/> : <Text text={node.content}/>}
      {(node.calls ?? []).map(call => <Call key={call.id} call={call}/>)}
      {node.state === "failed" && <p class="error" role="alert">{shown(node.error)}</p>}
      {node.role === "assistant" && <Reused node={node}/>}
      {!busy && !edits && <p class="buttons small">
        {node.role === "user" && <button type="button" onClick={() => setEdits(true)}>Edit</button>}
        {node.role === "assistant" && <button type="button" onClick={() => answer(node.parent)}>Again</button>}
      </p>}
    </article>
  );
}

function Results({calls}) {
  const [texts, setTexts] = useState({});
  const give = event => {
    event.preventDefault();
    giveResults(calls.map(call => [call.id, texts[call.id] ?? ""]));
  };
  return (
    <form class="composer" onSubmit={give}>
      {calls.map(call => <label key={call.id}>Result of {shown(call.name, 60)}
        <textarea rows="2" value={texts[call.id] ?? ""} onInput={event => setTexts({...texts, [call.id]: event.currentTarget.value})}></textarea></label>)}
      <p class="buttons"><button class="main" type="submit">Send the results</button></p>
    </form>
  );
}

function Composer({parent, abort}) {
  const [text, setText] = useState("");
  const post = event => {
    event.preventDefault();
    if (text.trim() === "" || abort) return;
    setText("");
    say(parent, {role: "user", content: text});
  };
  const press = event => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) post(event);
    if (event.key === "Escape" && abort) abort.abort();
  };
  return (
    <form class="composer" onSubmit={post}>
      <label>Message <span class="soft">(Enter sends, Shift+Enter begins a new line, Escape stops a reply)</span>
        <textarea rows="3" value={text} onInput={event => setText(event.currentTarget.value)} onKeyDown={press}></textarea></label>
      <p class="buttons">
        <button type="button" onClick={() => chatStore.set(emptyChat())} disabled={abort !== null}>New chat</button>
        {abort ? <button class="main" type="button" onClick={() => abort.abort()}>Stop</button> : <button class="main" type="submit">Send</button>}
      </p>
    </form>
  );
}

// "" if the text is a list of tools, or none.
function wrongTools(text) {
  if (text.trim() === "") return "";
  try {
    return Array.isArray(JSON.parse(text)) ? "" : "This is no list of tools.";
  } catch (error) {
    return error.message;
  }
}

function Settings() {
  const now = useStore(settings);
  const set = name => event => settings.set({...now, [name]: event.currentTarget.value});
  const wrong = wrongTools(now.tools);
  return (
    <details class="card">
      <summary>System prompt, sampling, tools</summary>
      <label>System prompt<textarea rows="3" value={now.system} onInput={set("system")}></textarea></label>
      <div class="pair">
        <label>Most tokens of a reply<input type="number" min="1" value={now.maxTokens} onInput={set("maxTokens")}/></label>
        <label>Temperature<input type="number" min="0" step="0.1" placeholder="the server's" value={now.temperature} onInput={set("temperature")}/></label>
      </div>
      <label>Tools, a list in JSON as OpenAI's API has it
        <textarea class="mono" rows="3" value={now.tools} aria-invalid={wrong !== ""} aria-describedby="tools-error" onInput={set("tools")}></textarea></label>
      <p class="error" id="tools-error" role="alert">{shown(wrong, 120)}</p>
    </details>
  );
}

export function ChatView() {
  const chat = useStore(chatStore), abort = useStore(writing);
  const path = pathOf(chat), calls = openCalls(chat);
  const end = useRef(null), follows = useRef(true), wrote = useRef(false);
  // A reply that grows stays in view, unless its reader has scrolled up. How far the end is away tells nothing once it grows,
  // and the event of the reader's scrolling may come later than that.
  const top = useRef(window.scrollY);
  const note = () => {
    const distance = document.documentElement.scrollHeight - window.scrollY - window.innerHeight;
    if (distance < 50) follows.current = true;
    else if (window.scrollY < top.current) follows.current = false;
    top.current = window.scrollY;
  };
  useEffect(() => {
    window.addEventListener("scroll", note, {passive: true});
    return () => window.removeEventListener("scroll", note);
  }, []);
  useEffect(() => {
    note();
    // Also once after its end: then it gets its figures and buttons, which would lie behind the composer.
    if ((abort || wrote.current) && follows.current) end.current.scrollIntoView({block: "end"});
    wrote.current = abort !== null;
  }, [chat, abort]);
  return (
    <div class="chat">
      <h2>Chat</h2>
      <Settings/>
      {path.map(node => <Message key={node.id} chat={chat} node={node} busy={abort !== null}/>)}
      <p class="hidden" role="status">{abort ? "The model writes." : path.at(-1)?.role === "assistant" ? "The reply is there." : ""}</p>
      {calls.length > 0 ? <Results calls={calls}/> : <Composer parent={path.at(-1)?.id ?? 0} abort={abort}/>}
      <div ref={end}></div>
    </div>
  );
}
