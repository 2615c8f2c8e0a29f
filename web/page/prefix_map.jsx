// The map of all stored prefixes, on a canvas: one element for ten thousand nodes. The list next to it says the same to
// keyboards and screen readers.

import {useEffect, useMemo, useRef, useState} from "preact/hooks";
import {bytes, grouped} from "../shared/text.js";
import {nodeAt, rectanglesOf} from "./prefix_layout.js";

const HEIGHT = 260;
const STRENGTHS = 8;
// Cold state is pale, state in use is strong.
const strengthOf = node => Math.round((STRENGTHS - 1) * Math.min(Math.max(node.heat, 0), 1));
const opacityOf = strength => 0.35 + 0.65 * strength / (STRENGTHS - 1);

function themeColours(element) {
  const style = getComputedStyle(element), colour = name => style.getPropertyValue(`--${name}`).trim();
  return {memory: colour("memory"), ram: colour("ram"), disk: colour("disk"), none: colour("line"), text: colour("text")};
}

function begun(canvas, width, scale) {
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(HEIGHT * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

// All rectangles. Those of one colour and strength are drawn together: a change of either costs more than a rectangle.
function drawAll(canvas, rectangles, width, scale) {
  const context = begun(canvas, width, scale), colours = themeColours(canvas), groups = new Map();
  for (const one of rectangles) {
    const tier = one.node.tiers[0] ?? "none", name = `${tier} ${strengthOf(one.node)}`;
    if (!groups.has(name)) groups.set(name, {colour: colours[tier] ?? colours.none, opacity: opacityOf(strengthOf(one.node)), members: []});
    groups.get(name).members.push(one);
  }
  for (const {colour, opacity, members} of groups.values()) {
    context.fillStyle = colour;
    context.globalAlpha = opacity;
    // A gap of one pixel between neighbours that have room for it.
    for (const one of members) context.fillRect(one.x, one.y, one.width - (one.width > 3 ? 1 : 0), one.height - (one.height > 3 ? 1 : 0));
  }
}

function drawChosen(canvas, chosen, width, scale) {
  const context = begun(canvas, width, scale);
  if (!chosen) return;
  context.strokeStyle = themeColours(canvas).text;
  context.lineWidth = 2;
  context.strokeRect(chosen.x + 1, chosen.y + 1, Math.max(chosen.width - 2, 2), Math.max(chosen.height - 2, 2));
}

function useWidth(element) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

// Changes when the system goes from light to dark or back.
function useScheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(dark.matches);
  useEffect(() => {
    const follow = event => setDark(event.matches);
    dark.addEventListener("change", follow);
    return () => dark.removeEventListener("change", follow);
  }, []);
  return isDark;
}

const PLACES = {ram: "in RAM", disk: "on disk"};

export function PrefixMap({tree, focus, selected, onSelect}) {
  const frame = useRef(null), all = useRef(null), chosen = useRef(null);
  const [hint, setHint] = useState(null);
  const width = useWidth(frame), scheme = useScheme(), scale = devicePixelRatio || 1;
  const rectangles = useMemo(() => width > 0 ? rectanglesOf(tree, focus, width, HEIGHT) : [], [tree, focus, width]);
  useEffect(() => drawAll(all.current, rectangles, width, scale), [rectangles, scheme]);
  // On a canvas of its own, so that another choice does not draw all again.
  useEffect(() => drawChosen(chosen.current, rectangles.find(({node}) => node === selected), width, scale), [rectangles, selected, scheme]);
  const at = event => {
    const box = chosen.current.getBoundingClientRect();
    return nodeAt(rectangles, event.clientX - box.left, event.clientY - box.top);
  };
  const point = event => {
    const node = at(event);
    setHint(node && `tokens ${grouped(node.begin)} to ${grouped(node.end)}, ${bytes(node.bytes)} ${node.tiers.map(tier => PLACES[tier]).join(" and ") || "in no tier"}`);
  };
  const size = {width: `${width}px`, height: `${HEIGHT}px`};
  return (
    <div class="map" ref={frame}>
      <div class="canvases" style={{height: size.height}} aria-hidden="true">
        <canvas ref={all} style={size}></canvas>
        <canvas ref={chosen} style={size} onPointerMove={point} onPointerLeave={() => setHint(null)} onClick={event => onSelect(at(event))}></canvas>
      </div>
      <p class="hint soft" aria-hidden="true">{hint ?? "Tokens go to the right; conversations that share a beginning lie below each other."}</p>
    </div>
  );
}
