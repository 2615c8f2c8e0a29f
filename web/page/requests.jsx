// The last requests, one bar each, with the explanation of its reuse one click away.

import {useState} from "preact/hooks";
import {Legend, TokenBar} from "../shared/bar.jsx";
import {cachedOf, SOURCES} from "../shared/sources.js";
import {ago, compact, duration, grouped, harmless, shown} from "../shared/text.js";

// Both sides of the first difference, after the text that they share.
function Difference({cause}) {
  if (cause.here === null && cause.there === null) return null;
  const side = (name, text, style) => text === null ? null : <div><dt>{name}</dt><dd class="mono"><span class="soft">{harmless(cause.before)}</span><mark class={style}>{harmless(text) || " "}</mark></dd></div>;
  return <dl class="difference">{side("this prompt", cause.here, "here")}{side("known before", cause.there, "there")}</dl>;
}

const costOf = cause => [cause.lostTokens > 0 ? `${grouped(cause.lostTokens)} tokens` : "", cause.lostS > 0 ? duration(cause.lostS) : ""]
  .filter(Boolean).join(", ");

export function Explanation({request}) {
  const {cause} = request;
  if (cause === null) return <p class="soft">The server keeps no explanation of this request.</p>;
  const cost = costOf(cause);
  return (
    <>
      <p><b>{shown(cause.title)}</b>{cause.where ? ` In ${shown(cause.where)}` : ""}{cause.at !== null ? `${cause.where ? "," : " At"} token ${grouped(cause.at)}.` : ""}</p>
      <Difference cause={cause}/>
      {cause.hidesText && <p class="soft">The server hides the texts that differ: without API keys it shows them only if it is started with <code>--explain-text</code>.</p>}
      {cause.lostWhy && <p>It left the cache{cause.lostAt ? ` on ${new Date(1000 * cause.lostAt).toLocaleString()}` : ""}: {shown(cause.lostWhy, 80)}.</p>}
      {cost && <p>It cost {cost}.</p>}
      {cause.advice && <p class="advice">{shown(cause.advice)}</p>}
    </>
  );
}

function Facts({request}) {
  const tokens = SOURCES.filter(([source]) => request[source] > 0).map(([source, name]) => `${grouped(request[source])} ${source === "prefilled" ? "" : source === "memory" ? "from the " : "from "}${name}`);
  const facts = [["prompt", tokens.join(", ")], ["id", request.id], ["end", request.end], ["reason", request.reason], ["first token after", request.ttftMs === null ? "" : duration(request.ttftMs / 1000)],
                 ["reply", request.sampled > 0 ? `${grouped(request.sampled)} tokens` : ""],
                 ["rate", request.tokensPerS === null ? "" : `${request.tokensPerS.toFixed(1)} tokens/s`]];
  return <dl class="facts">{facts.filter(([, text]) => text).map(([name, text]) => <div><dt>{name}</dt><dd>{shown(text, 120)}</dd></div>)}</dl>;
}

function Request({request, longest, now}) {
  const [open, setOpen] = useState(false);
  const panel = `why-${request.key.replace(/[^\w.-]/g, "-")}`;
  const cached = cachedOf(request);
  return (
    <li class={`request${request.failed ? " failed" : ""}`}>
      <button type="button" aria-expanded={open} aria-controls={panel} onClick={() => setOpen(!open)}>
        <span class="who">{shown(request.client, 40)}</span>
        <TokenBar counts={request} whole={longest}/>
        <span class="figures"><b>{compact(cached)}</b> cached, <b>{compact(request.prefilled)}</b> prefilled</span>
        <span class="when soft">{ago(now - request.at)}</span>
        <span class="why">{request.failed ? `failed: ${shown(request.end, 60)}` : shown(request.cause?.short ?? "", 60)}</span>
        <span class="figures soft">{request.ttftMs === null ? "" : `first token after ${duration(request.ttftMs / 1000)}`}</span>
      </button>
      <div id={panel} class="explanation" hidden={!open}>{open && <><Explanation request={request}/><Facts request={request}/></>}</div>
    </li>
  );
}

export function Requests({requests, now}) {
  const longest = Math.max(1, ...requests.map(request => request.prompt));
  return (
    <section aria-labelledby="requests">
      <h2 id="requests">Last requests</h2>
      {requests.length === 0 ? <p class="soft">None has ended yet. Send one from a client, or from the chat of this page.</p>
        : <><Legend sources={SOURCES.filter(([source]) => source !== "shared" || requests.some(one => one.shared > 0))}/><ul class="requests">{requests.map(request => <Request key={request.key} request={request} longest={longest} now={now}/>)}</ul></>}
    </section>
  );
}
