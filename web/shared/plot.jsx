// Plots as SVG: axes with round ticks, and what the caller draws on them. Colours are the theme's classes.

import {isNumber, grouped} from "./text.js";

const WIDTH = 560, HEIGHT = 180, LEFT = 58, RIGHT = 552, TOP = 10, BOTTOM = 154;

export const drawable = value => isNumber(value) ? Math.min(Math.max(value, 0), 1e15) : 0;

// Distance of an axis's ticks: 1, 2 or 5 times a power of ten, at most so many of them.
export function tickStep(largest, most) {
  const least = drawable(largest) / most;
  if (least <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find(factor => factor * power >= least * (1 - 1e-9)) ?? 10) * power;
}

export function axisLabel(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(6)}M`;
  return value >= 1e4 ? `${+(value / 1e3).toPrecision(6)}k` : `${+value.toPrecision(6)}`;
}

// A path, or nothing if it has no steps.
export const Path = ({style, steps}) => steps ? <path class={style} d={steps}/> : null;

const Label = ({x, y, anchor, text}) => <text x={x.toFixed(1)} y={y.toFixed(1)} text-anchor={anchor}>{text}</text>;

// Labels below the axis, at round positions from 1 on.
function positionLabels(positions, x) {
  const every = Math.max(1, tickStep(positions, 8)), numbers = every === 1 ? [] : [1];
  for (let number = every; number <= positions; number += every) numbers.push(number);
  return numbers.map(number => ({at: x(number - 1), text: grouped(number)}));
}

// `children(axes)` draws: axes.x(position) is the middle of its place, axes.slot wide; axes.y(value) a height.
// `labels`: what stands below the axis, as {at: position, text}; otherwise the positions' numbers.
export function Plot({description, largest, positions, labels, children}) {
  const step = tickStep(largest, 4), top = Math.max(step, Math.ceil(drawable(largest) / step) * step);
  const slot = (RIGHT - LEFT) / Math.max(positions, 1);
  const axes = {slot, left: LEFT, right: RIGHT, bottom: BOTTOM, x: position => LEFT + (position + 0.5) * slot,
                y: value => BOTTOM - drawable(value) / top * (BOTTOM - TOP)};
  const ticks = Array.from({length: Math.floor(top / step * (1 + 1e-9)) + 1}, (_, i) => i * step);
  const below = labels?.map(({at, text}) => ({at: axes.x(at), text})) ?? positionLabels(positions, axes.x);
  return (
    <svg class="plot" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={description}>
      <Path style="grid" steps={ticks.map(tick => `M${LEFT} ${axes.y(tick).toFixed(1)}H${RIGHT}`).join("")}/>
      {ticks.map(tick => <Label x={LEFT - 6} y={axes.y(tick) + 4} anchor="end" text={axisLabel(tick)}/>)}
      {below.map(({at, text}) => <Label x={at} y={BOTTOM + 17} anchor="middle" text={text}/>)}
      {children(axes)}
    </svg>
  );
}

export function Figure({title, caption, children}) {
  return <figure>{children}<figcaption><b>{title}</b>{caption}</figcaption></figure>;
}

export const Key = ({style, text}) => <><span class={`key ${style}`}></span>{text}</>;
