// The first view: what runs, what was reused, what it saved, and how full the tiers are.

import {useEffect} from "preact/hooks";
import {Figure, Key, Path, Plot} from "../shared/plot.jsx";
import {ago, bytes, compact, duration, grouped, percent, plural, shown} from "../shared/text.js";
import {TokenBar} from "../shared/bar.jsx";
import {cachedOf} from "../shared/sources.js";
import {Requests} from "./requests.jsx";

const Tile = ({name, value, note}) => <div class="tile"><dt>{name}</dt><dd><b>{value}</b><span class="soft">{note}</span></dd></div>;

function Tiles({cache}) {
  const {totals, running} = cache;
  const cached = cachedOf(totals);
  const saved = [totals.savedEverS !== null && totals.savedEverS > totals.savedS ? `${duration(totals.savedEverS)} ever` : "",
                 `${plural(totals.requests, "request")}`].filter(Boolean).join(" · ");
  return (
    <dl class="tiles">
      <Tile name="Reused of all prompts" value={percent(cached, totals.prompt)} note={`${compact(cached)} of ${compact(totals.prompt)} tokens`}/>
      <Tile name="Time saved since start" value={totals.savedS === null ? "–" : duration(totals.savedS)} note={saved}/>
      <Tile name="Prefilled" value={compact(totals.prefilled)}
            note={totals.again === null ? "tokens" : `tokens, ${totals.again > 0 ? compact(totals.again) : "none"} of them again`}/>
      <Tile name="Now" value={`${running.length} running`} note={`${cache.waiting} waiting`}/>
    </dl>
  );
}

const STAGES = {waiting: "waits", loading: "loads state", prefilling: "reads the prompt", decoding: "writes"};
const CAUSES = {place: "for a place", prefix: "for a prefix that another one computes", cells: "for room in the model's memory", disk: "for the disk", turn: "for its turn",
                encoder: "for the encoder of pictures and sound"};

const stageOf = request => [STAGES[request.stage] ?? shown(request.stage, 20), request.waitsFor ? `waits ${CAUSES[request.waitsFor] ?? `for: ${shown(request.waitsFor, 20)}`}` : ""]
  .filter((text, i, all) => text && !(i === 0 && request.stage === "waiting" && all[1])).join(", ");

function Running({request}) {
  const done = cachedOf(request) + request.prefilled;
  const rate = request.tokensPerS === null ? "" : `${request.tokensPerS.toFixed(1)} tokens/s`;
  return (
    <li class="running">
      <span class="who">#{request.id}<span class="soft"> {stageOf(request)}</span></span>
      <TokenBar counts={request} whole={request.prompt} progress={{name: `Prompt of request ${request.id}`, done}}/>
      <span class="figures">{compact(done)} of {compact(request.prompt)} tokens of the prompt
        {request.sampled > 0 && <>, <b>{grouped(request.sampled)}</b> written</>}
        <span class="soft">{[request.ttftMs === null ? "" : `first token after ${duration(request.ttftMs / 1000)}`, rate].filter(Boolean).map(fact => `, ${fact}`)}</span></span>
    </li>
  );
}

function RunningList({running, waiting}) {
  return (
    <section aria-labelledby="running">
      <h2 id="running">Running</h2>
      {running.length === 0 ? <p class="soft">Nothing runs{waiting > 0 ? `, ${plural(waiting, "request")} wait` : ""}.</p>
        : <ul class="plain">{running.map(request => <Running key={request.id} request={request}/>)}</ul>}
    </section>
  );
}

// Tokens per second between samples.
function ratesOf(samples) {
  return samples.slice(1).map((sample, i) => {
    const before = samples[i], over = Math.max(sample.at - before.at, 0.001);
    const rate = key => Math.max(0, (sample[key] - before[key]) / over);
    return {at: sample.at, cached: cachedOf({memory: rate("memory"), ram: rate("ram"), disk: rate("disk"), shared: rate("shared")}), prefilled: rate("prefilled"), sampled: rate("sampled")};
  });
}

const line = (axes, rates, key) => rates.map((rate, i) => `${i === 0 ? "M" : "L"}${axes.x(i).toFixed(1)} ${axes.y(rate[key]).toFixed(1)}`).join("");

function RatePlot({title, description, rates, series}) {
  const largest = Math.max(1, ...rates.flatMap(rate => series.map(([key]) => rate[key])));
  const span = rates.length > 1 ? rates.at(-1).at - rates[0].at : 0;
  const labels = span > 1 ? [{at: 0, text: `${duration(Math.round(span))} ago`}, {at: rates.length - 1, text: "now"}] : [];
  return (
    <Figure title={title} caption={series.map(([key, name]) => <Key style={key} text={name}/>)}>
      <Plot description={description} largest={largest} positions={Math.max(rates.length, 1)} labels={labels}>
        {axes => series.map(([key]) => <Path style={`curve ${key}`} steps={line(axes, rates, key)}/>)}
      </Plot>
    </Figure>
  );
}

function Rates({samples}) {
  const rates = ratesOf(samples);
  if (rates.length < 2) return null;
  return (
    <section aria-labelledby="rates">
      <h2 id="rates">Tokens per second</h2>
      <div class="plots">
        <RatePlot title="Prompts" description="Tokens of prompts per second: cached and prefilled" rates={rates}
                  series={[["cached", "cached"], ["prefilled", "prefilled"]]}/>
        <RatePlot title="Replies" description="Tokens of replies per second" rates={rates} series={[["sampled", "written"]]}/>
      </div>
    </section>
  );
}

const TIER_NAMES = {memory: "model's memory", ram: "RAM", disk: "disk", shared: "shared tier"};

const sizeOf = (tier, size) => tier.unit === "tokens" ? plural(size, "token") : bytes(size);

function Tier({tier}) {
  const name = TIER_NAMES[tier.name] ?? shown(tier.name, 40), id = `tier-${tier.name}`;
  return (
    <li class="tier">
      <span class="who" id={id}><span class={`key ${tier.name}`}></span>{name}</span>
      {tier.used !== null && <meter class={tier.name} aria-labelledby={id} min="0" max={Math.max(tier.budget ?? 0, tier.used, 1)} value={tier.used}></meter>}
      <span class="figures">{tier.used !== null && <b>{sizeOf(tier, tier.used)}</b>}{tier.used === null || tier.budget === null ? "" : ` of ${sizeOf(tier, tier.budget)}`}
        {tier.note && <span class="soft">{tier.used === null ? "" : ", "}{shown(tier.note, 120)}</span>}</span>
    </li>
  );
}

const Tiers = ({tiers}) => <section aria-labelledby="tiers"><h2 id="tiers">Tiers</h2><ul class="plain">{tiers.map(tier => <Tier key={tier.name} tier={tier}/>)}</ul></section>;

function Offenders({offenders, now}) {
  if (offenders.length === 0) return null;
  return (
    <section aria-labelledby="offenders">
      <h2 id="offenders">Why prompts are prefilled again</h2>
      <ul class="plain">{offenders.map(one => (
        <li class="offender" key={one.key}>
          <p><b>{shown(one.title, 200)}</b> <span class="soft">{shown(one.client || "clients without a name", 60)}</span></p>
          {one.line && <p class="mono">{shown(one.line, 120)}</p>}
          <p>In {one.times}: {compact(one.tokens)} tokens {one.how}{one.seconds > 0 ? `, ${duration(one.seconds)}` : ""}.
            {one.at !== null && <span class="soft"> Last seen {ago(now - one.at)}.</span>}</p>
          {one.advice && <p class="advice">{shown(one.advice)}</p>}
        </li>))}</ul>
    </section>
  );
}

// Clients that share nothing with each other. One alone is no news.
function Tenants({tenants, now}) {
  if (tenants.length < 2) return null;
  return (
    <section aria-labelledby="tenants">
      <h2 id="tenants">Tenants</h2>
      <div class="wide narrow-names" tabIndex={0} role="region" aria-labelledby="tenants">
        <table>
          <thead><tr><th scope="col" class="name">tenant</th><th scope="col">requests</th><th scope="col">reused</th><th scope="col">state</th><th scope="col">last</th></tr></thead>
          <tbody>{tenants.map(one => (
            <tr key={one.number}>
              <th scope="row" class="name">{one.number}<span class="soft">{[one.own ? "you" : "", one.salted ? "" : "no salt"].filter(Boolean).map(word => ` ${word}`).join(",")}</span></th>
              <td>{grouped(one.requests)}</td><td>{percent(one.cached, one.prompt)}<br/><span class="soft">{compact(one.prefilled)} prefilled</span></td><td>{bytes(one.ram)}{one.disk > 0 && <><br/><span class="soft">{bytes(one.disk)} on disk</span></>}</td><td>{ago(now - one.at)}</td>
            </tr>))}</tbody>
        </table>
      </div>
    </section>
  );
}

function Problems({problems}) {
  if (problems.length === 0) return null;
  return <section class="problems" aria-labelledby="problems"><h2 id="problems">{plural(problems.length, "problem")}</h2>
    <ul>{problems.map(problem => <li>{shown(problem)}</li>)}</ul></section>;
}

export function LiveView({live}) {
  const {cache, requests, offenders, samples} = live;
  // The time until there is something to read, for those who measure the page.
  useEffect(() => { if (cache) performance.mark("figures"); }, [cache === null]);
  if (cache === null) return <p class="soft">{live.state === "starting" ? "Asking the server…" : "No figures yet."}</p>;
  return (
    <>
      <Problems problems={cache.problems}/>
      <Tiles cache={cache}/>
      <div class="columns">
        <div><RunningList running={cache.running} waiting={cache.waiting}/><Requests requests={requests} now={Date.now() / 1000}/></div>
        <div><Tiers tiers={cache.tiers}/><Rates samples={samples}/><Offenders offenders={offenders} now={Date.now() / 1000}/><Tenants tenants={cache.tenants} now={Date.now() / 1000}/></div>
      </div>
    </>
  );
}
