// The page at "/": three views of one server.

import {render} from "preact";
import {useEffect, useRef, useState} from "preact/hooks";
import {duration, shown} from "../shared/text.js";
import {ChatView} from "./chat.jsx";
import {ConfirmDialog} from "./confirm.jsx";
import {askForKey, KeyDialog} from "./key_dialog.jsx";
import {live, watch} from "./live.js";
import {LiveView} from "./live_view.jsx";
import {PrefixesView} from "./prefixes.jsx";
import {useStore} from "./store.js";

const VIEWS = {live: "Live", prefixes: "Prefixes", chat: "Chat"};
const STATES = {starting: "connects", live: "live", lost: "no connection", refused: "refused", paused: "paused"};

const viewOfAddress = () => location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "live";

function useView() {
  const [view, setView] = useState(viewOfAddress());
  useEffect(() => {
    const follow = () => setView(viewOfAddress());
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return view;
}

// Digits choose a view, where nothing is being typed.
function useDigits() {
  useEffect(() => {
    const press = event => {
      const typing = event.target.closest?.("input, textarea, dialog[open]");
      const view = Object.keys(VIEWS)[Number(event.key) - 1];
      if (view && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) location.hash = view;
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Top({view, state}) {
  const {cache} = state;
  const facts = cache ? [cache.model, cache.memoryClass, cache.uptimeS === null ? "" : `up ${duration(cache.uptimeS)}`].filter(Boolean).join(" · ") : "";
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={event => { event.preventDefault(); document.getElementById("main").focus(); }}>To the content</a>
      <span class="brand">kvkeep</span>
      <nav aria-label="Views">{Object.entries(VIEWS).map(([name, title], i) =>
        <a key={name} href={`#${name}`} aria-current={name === view ? "page" : undefined} aria-keyshortcuts={`${i + 1}`}>{title}</a>)}</nav>
      <span class="server soft">{shown(facts, 120)}</span>
      <span class={`state ${state.state}`} role="status"><span class="dot" aria-hidden="true"></span>{STATES[state.state]}</span>
    </header>
  );
}

function Lost({state}) {
  if (state.state !== "lost" && state.state !== "refused") return null;
  const text = state.state === "lost" ? "The server does not answer. This page goes on by itself as soon as it does."
    : state.status === 401 ? "The server refuses to show anything without one of its API keys." : `The server refuses: ${state.why}`;
  return (
    <div class="banner">
      <p role="alert">{shown(text)}</p>
      {state.status === 401 && <p class="buttons"><button type="button" class="main" onClick={askForKey}>Enter the key…</button></p>}
    </div>
  );
}

function App() {
  const state = useStore(live), view = useView();
  const main = useRef(null), first = useRef(true);
  useDigits();
  useEffect(() => {
    document.title = `${VIEWS[view]} – kvkeep`;
    if (!first.current) main.current.focus();
    first.current = false;
  }, [view]);
  return (
    <>
      <Top view={view} state={state}/>
      <Lost state={state}/>
      <main id="main" ref={main} tabIndex={-1}>
        <h1 class="hidden">{VIEWS[view]}</h1>
        {view === "live" ? <LiveView live={state}/> : view === "prefixes" ? <PrefixesView/> : <ChatView/>}
      </main>
      <KeyDialog/><ConfirmDialog/>
    </>
  );
}

const root = document.getElementById("page");
root.replaceChildren();
render(<App/>, root);
watch.begin();
