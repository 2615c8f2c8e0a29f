// The stored prefixes as a tree of rows, of which only those in view exist.

import {useEffect, useRef, useState} from "preact/hooks";
import {tierNames} from "../shared/sources.js";
import {bytes, grouped, percent} from "../shared/text.js";

const ROW = 34;       // pixels
const HEIGHT = 16 * ROW;
const BEYOND = 4;     // rows outside of the view that are there, so that scrolling shows no gaps

const rowId = node => `prefix-${node.id}`;

// Only those in view exist, so that each says how many siblings it has, and which of them it is.
const siblingsOf = (node, tree) => ({"aria-setsize": (node.above?.children ?? tree.roots).length, "aria-posinset": node.sibling});

// Only branchings move a row to the right, or a long conversation would leave the frame; to a screen reader its pieces are
// below each other.
function Row({node, tree, place, isOpen, isActive, total, onPick, onToggle}) {
  const tiers = tierNames(node.tiers) || "no tier";
  const isLeaf = node.children.length === 0;
  return (
    <div role="treeitem" id={rowId(node)} class={`row${isActive ? " active" : ""}`} aria-level={node.depth + 1} {...siblingsOf(node, tree)} aria-selected={isActive}
         aria-expanded={isLeaf ? undefined : isOpen} style={{top: `${place * ROW}px`, "--level": Math.min(node.level, 12)}}
         onClick={() => onPick(node)} onDblClick={() => onToggle(node)}>
      <span class="twist" aria-hidden="true" onClick={event => { event.stopPropagation(); onToggle(node); }}>{isLeaf ? "" : isOpen ? "▾" : "▸"}</span>
      <span class="span">{grouped(node.begin)}–{grouped(node.end)}</span>
      <span class="label"><span class="count">{grouped(node.end - node.begin)} tokens</span>{node.pinned || node.kept ? <span class="chip">{node.pinned ? "pinned" : "kept"}</span> : null}</span>
      <span class="tiers">{node.tiers.map(tier => <span key={tier} class={`key ${tier}`} aria-hidden="true"></span>)}<span class="hidden">{tiers}</span></span>
      <span class="heat" title="how recently it was used"><span class="fill" style={{width: `${Math.round(100 * node.heat)}%`}}></span><span class="hidden">heat {percent(node.heat, 1)}</span></span>
      <span class="size" title={`${percent(node.allBytes, total)} of all, with what continues it`}>{bytes(node.allBytes)}</span>
    </div>
  );
}

// Keys as in any tree: up and down, left closes or goes to the parent, right opens or goes to the first child. Where
// nothing is selected, down selects the first row.
function moved(key, rows, place, isOpen, isSelected) {
  const node = rows[place];
  switch (key) {
    case "ArrowDown": return {to: isSelected ? Math.min(place + 1, rows.length - 1) : 0};
    case "ArrowUp": return {to: Math.max(place - 1, 0)};
    case "PageDown": return {to: Math.min(place + 14, rows.length - 1)};
    case "PageUp": return {to: Math.max(place - 14, 0)};
    case "Home": return {to: 0};
    case "End": return {to: rows.length - 1};
    case "ArrowRight": return node.children.length === 0 ? {to: place} : isOpen(node) ? {to: place + 1} : {toggle: node};
    case "ArrowLeft":
      if (node.children.length > 0 && isOpen(node)) return {toggle: node};
      return {to: node.above ? rows.indexOf(node.above) : place};
    case " ": case "Enter": return node.children.length > 0 ? {toggle: node} : {to: place};
    default: return null;
  }
}

export function PrefixList({tree, rows, closed, selected, onSelect, onToggle}) {
  const frame = useRef(null);
  const [top, setTop] = useState(0);
  const isShown = rows.includes(selected);
  const place = Math.max(rows.indexOf(selected), 0);
  const total = rows.filter(node => !node.above).reduce((sum, node) => sum + node.allBytes, 0);
  const isOpen = node => !closed.has(node.id);
  // The selected row comes into view, wherever it was selected.
  useEffect(() => {
    if (!isShown) return;
    const box = frame.current, at = place * ROW;
    if (at < box.scrollTop) box.scrollTop = at;
    if (at + ROW > box.scrollTop + box.clientHeight) box.scrollTop = at + ROW - box.clientHeight;
  }, [selected, isShown, place]);
  const press = event => {
    const move = rows.length > 0 && !event.ctrlKey && !event.metaKey && !event.altKey ? moved(event.key, rows, place, isOpen, isShown) : null;
    if (!move) return;
    event.preventDefault();
    if (move.toggle) onToggle(move.toggle);
    else onSelect(rows[move.to]);
  };
  const first = Math.max(Math.floor(top / ROW) - BEYOND, 0);
  const last = Math.min(Math.ceil((top + HEIGHT) / ROW) + BEYOND, rows.length);
  // The row that keys act on is always there, for screen readers.
  const places = [];
  for (let at = first; at < last; ++at) places.push(at);
  if (rows.length > 0 && (place < first || place >= last)) places.push(place);
  return (
    <div class="list" ref={frame} role="tree" tabIndex={0} aria-label="Stored prefixes" onKeyDown={press}
         aria-activedescendant={rows.length > 0 ? rowId(rows[place]) : undefined}
         style={{maxHeight: `${HEIGHT}px`}} onScroll={event => setTop(event.currentTarget.scrollTop)}>
      <div class="all" role="presentation" style={{height: `${rows.length * ROW}px`}}>
        {places.map(at => <Row key={rows[at].id} node={rows[at]} tree={tree} place={at} isOpen={isOpen(rows[at])} isActive={rows[at] === selected} total={total}
                               onPick={onSelect} onToggle={onToggle}/>)}
      </div>
    </div>
  );
}
