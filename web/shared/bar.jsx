// Tokens by where they came from, as one horizontal bar.

import {SOURCES} from "./sources.js";
import {grouped} from "./text.js";

// `counts` by source; `whole` fills the width. With `progress` ({name, done}) the bar says how much of it is done.
export function TokenBar({counts, whole, progress}) {
  const parts = SOURCES.filter(([source]) => counts[source] > 0);
  const text = parts.map(([source, name]) => `${grouped(counts[source])} ${name}`).join(", ");
  const role = progress ? {role: "progressbar", "aria-label": progress.name, "aria-valuemin": 0, "aria-valuemax": whole,
                           "aria-valuenow": progress.done, "aria-valuetext": text || "not begun"}
                        : {role: "img", "aria-label": text || "no tokens"};
  return (
    <span class="tokens" {...role} title={text}>
      {parts.map(([source]) => <span key={source} class={`part ${source}`} style={{width: `${100 * counts[source] / Math.max(whole, 1)}%`}}></span>)}
    </span>
  );
}

export const Legend = ({sources = SOURCES}) =>
  <p class="legend">{sources.map(([source, name]) => <span key={source}><span class={`key ${source}`}></span>{name}</span>)}</p>;
