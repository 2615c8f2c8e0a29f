// The view of what is stored: the map, the list, and what can be done with a prefix.

import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {Legend} from "../shared/bar.jsx";
import {SOURCES, tierNames} from "../shared/sources.js";
import {ago, bytes, grouped, plural, shown} from "../shared/text.js";
import {ask} from "./api.js";
import {confirmed} from "./confirm.jsx";
import {live} from "./live.js";
import {dialectOf, forgottenOf, readTree, warmedOf} from "./model.js";
import {retryMs, treeIsDue} from "./pace.js";
import {PrefixList} from "./prefix_list.jsx";
import {PrefixMap} from "./prefix_map.jsx";
import {closedAtFirst, layingOut, rowsOf} from "./prefix_layout.js";
import {inSlices} from "./slices.js";

const OPEN_AT_FIRST = 200;
// Small pages: each is read in one go, between two frames.
const PAGE = 2_000, MOST_PAGES = 25;

async function fetchTree() {
  const nodes = [];
  let next = 0;
  for (let page = 0; page < MOST_PAGES && next !== null; ++page) {
    const read = readTree(await ask(`cache/tree?limit=${PAGE}&after=${next}`));
    nodes.push(...read.nodes);
    next = read.next;
  }
  return {tree: await inSlices(layingOut(nodes)), isWhole: next === null};
}

// Follows the tree while the view is open: asks for it again when the server's figures say that it changed.
class TreeWatch {
  #show;
  #seen = null;
  #asking = false;
  #isAskedFor = false;
  #failures = 0;
  #notBefore = -Infinity;

  constructor(show) { this.#show = show; }

  // Looks whether the tree changed; with `isAskedFor` it did.
  async look(isAskedFor = false) {
    this.#isAskedFor ||= isAskedFor;
    const {state, cache} = live.value, at = performance.now();
    if (this.#asking || state !== "live" || !(this.#isAskedFor || at >= this.#notBefore && treeIsDue(this.#seen, cache, at))) return;
    this.#asking = true;
    this.#isAskedFor = false;
    try {
      const found = await fetchTree();
      this.#show({...found, why: ""});
      this.#seen = {stored: cache.stored, used: cache.used, at, tookMs: performance.now() - at};
      this.#failures = 0;
    } catch (error) {
      this.#show(before => ({...before, why: error.message}));
      this.#notBefore = performance.now() + retryMs(error.status ?? null, ++this.#failures);
    }
    this.#asking = false;
    if (this.#isAskedFor) this.look();
  }
}

function useTree() {
  const [state, setState] = useState({tree: null, isWhole: true, why: ""});
  const watch = useRef(null);
  useEffect(() => {
    let isOpen = true;
    watch.current = new TreeWatch(change => isOpen && setState(change));
    watch.current.look();
    const end = live.follow(() => watch.current.look());
    return () => { isOpen = false; end(); };
  }, []);
  return [state, () => watch.current.look(true)];
}

// docs/cache-api.md, "POST /cache/clear".
const OWN_STATE = "All state of this page's tenant";
const OTHER_STATE = "Other tenants (other salts or keys), a shared tier and sampled turns keep what they have.";

function Selected({node, act, onFocus, isFocus}) {
  const clear = async () => {
    const agreed = await confirmed({title: "Forget this prefix?", action: "Forget it",
      text: `Tokens ${grouped(node.begin)} to ${grouped(node.end)} and all that continues them, ${bytes(node.allBytes)} together, leave the model's memory, RAM and disk. The next prompt with them is read again.`});
    if (agreed) act("cache/clear", {id: node.name}, forgottenOf);
  };
  const pin = () => act(node.pinned ? "cache/unpin" : "cache/pin", {id: node.name}, ({pinned}) => pinned ? "The prefix is pinned." : "The prefix is no longer pinned.");
  return (
    <section aria-labelledby="selected" class="card">
      <h3 id="selected">Tokens {grouped(node.begin)} to {grouped(node.end)}</h3>
      <dl class="facts">
        <div><dt>size</dt><dd>{bytes(node.bytes)}, {bytes(node.allBytes)} with what continues it</dd></div>
        <div><dt>tiers</dt><dd>{tierNames(node.tiers) || "none"}</dd></div>
        <div><dt>last used</dt><dd>{ago(node.idleS)}</dd></div>
        <div><dt>used</dt><dd>{plural(node.uses, "time")} since the start</dd></div>
        {node.points > 0 && <div><dt>points</dt><dd>{grouped(node.points)}</dd></div>}
        <div><dt>id</dt><dd class="mono">{shown(node.name, 64)}</dd></div>
      </dl>
      <p class="buttons">
        <button type="button" onClick={() => onFocus(isFocus ? null : node)}>{isFocus ? "Show all" : "Show only this"}</button>
        <button type="button" onClick={pin}>{node.pinned ? "Unpin" : "Pin"}</button>
        <button type="button" class="danger" onClick={clear}>Forget…</button>
      </p>
    </section>
  );
}

function Warm({act}) {
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const warm = event => {
    event.preventDefault();
    try {
      const body = text.trimStart().startsWith("{") ? JSON.parse(text) : {prompt: text};
      act(`cache/warm?dialect=${dialectOf(body)}`, body, warmedOf);
      setWrong("");
    } catch (error) {
      setWrong(error.message);
    }
  };
  return (
    <details class="card">
      <summary>Warm a prompt</summary>
      <form onSubmit={warm}>
        <p class="soft" id="warm-note">The server reads the text ahead of time and keeps it. A request's body in JSON is read as that request.</p>
        <label>Text or request
          <textarea rows="4" value={text} required aria-describedby="warm-note warm-error" onInput={event => setText(event.currentTarget.value)}></textarea>
        </label>
        <p class="error" id="warm-error" role="alert">{wrong}</p>
        <p class="buttons"><button type="submit">Warm it</button></p>
      </form>
    </details>
  );
}

function Clear({act}) {
  const [hours, setHours] = useState("24");
  const clear = async (title, text, body) => {
    if (await confirmed({title, text, action: "Forget it"})) act("cache/clear", body, forgottenOf);
  };
  const clearOld = event => {
    event.preventDefault();
    const age = Number(hours);
    clear("Forget old state?", `${OWN_STATE} that no request used for ${plural(age, "hour")} and that nobody keeps leaves the model's memory, RAM and disk. ${OTHER_STATE}`, {unused_s: Math.round(age * 3600)});
  };
  return (
    <details class="card">
      <summary>Forget old state, or all of it</summary>
      <form onSubmit={clearOld}>
        <label>Hours without use
          <input type="number" min="0" step="any" value={hours} required onInput={event => setHours(event.currentTarget.value)}/>
        </label>
        <p class="buttons">
          <button type="submit" class="danger">Forget what is older…</button>
          <button type="button" class="danger" onClick={() => clear("Forget everything?", `${OWN_STATE}, with any LoRA scales, leaves the model's memory, RAM and disk. Every next prompt of it is read whole. ${OTHER_STATE}`, {all: true})}>Forget everything…</button>
        </p>
      </form>
    </details>
  );
}

export function PrefixesView() {
  const [{tree, isWhole, why}, again] = useTree();
  const [closed, setClosed] = useState(null);
  const [selectedId, select] = useState(null);
  const [focusId, setFocus] = useState(null);
  const [said, say] = useState("");
  const shut = useMemo(() => closed ?? (tree ? closedAtFirst(tree, OPEN_AT_FIRST) : new Set()), [tree, closed]);
  const rows = useMemo(() => tree ? rowsOf(tree, shut) : [], [tree, shut]);
  if (tree === null) return <p class="soft">{why ? `The tree cannot be shown: ${shown(why)}` : live.value.state === "refused" ? "No tree is shown." : "Asking the server…"}</p>;
  const selected = tree.byId.get(selectedId) ?? null, focus = tree.byId.get(focusId) ?? null;
  const toggle = node => setClosed(new Set(shut.has(node.id) ? [...shut].filter(id => id !== node.id) : [...shut, node.id]));
  // A node that is chosen on the map is shown in the list: what hides it opens.
  const pick = node => {
    if (!node) return select(null);
    const hiding = [];
    for (let above = node.above; above; above = above.above) if (shut.has(above.id)) hiding.push(above.id);
    if (hiding.length > 0) setClosed(new Set([...shut].filter(id => !hiding.includes(id))));
    return select(node.id);
  };
  const act = async (path, body, saidOf) => {
    say("Asking the server…");
    try {
      say(saidOf(await ask(path, {body})));
      again();
    } catch (error) {
      say(error.status === undefined ? "The server does not answer: this may not have been done." : `The server refused this: ${error.message}`);
    }
  };
  return (
    <>
      <h2>Stored prefixes</h2>
      <p class="soft">{plural(tree.order.length, "node")}{isWhole ? "" : ", and more that are not shown"}, {plural(tree.leaves, "end")} of conversations</p>
      <p class="status" role="status">{shown(said)}</p>
      {tree.order.length === 0 ? <p class="soft">Nothing is stored yet.</p> : (
        <>
          <Legend sources={SOURCES.filter(([source]) => ["ram", "disk"].includes(source))}/>
          <PrefixMap tree={tree} focus={focus} selected={selected} onSelect={pick}/>
          <div class="columns">
            <PrefixList tree={tree} rows={rows} closed={shut} selected={selected} onSelect={pick} onToggle={toggle}/>
            <div>{selected ? <Selected node={selected} act={act} isFocus={focus === selected} onFocus={node => setFocus(node?.id ?? null)}/>
              : <p class="soft card">Choose a prefix to see, pin or forget it.</p>}</div>
          </div>
        </>)}
      <Warm act={act}/><Clear act={act}/>
    </>
  );
}
