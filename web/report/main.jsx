// The page of `kvkeep bench --html`: draws the report whose JSON is in it.

import {render} from "preact";
import {useState} from "preact/hooks";
import {drawable, Figure, Key, Path, Plot} from "../shared/plot.jsx";
import {fixed, grouped, isNumber, measured, plural, shown} from "../shared/text.js";
import {badness, byWorkload, excess, failed, isAboveBound, isAnswered, isRefused, known, problemsOf, refusalsOf, serverOf, slowness, sumOf, thinned, titleOf} from "./figures.js";

const report = JSON.parse(document.getElementById("report").textContent);
// Long runs are thinned: a browser draws this many without a pause.
const MOST_POINTS = 400, MOST_ROWS = 1000;

const Soft = ({children}) => <p class="soft">{children}</p>;
const Cell = ({style, children}) => <td class={style || undefined}>{children}</td>;
const NameCell = ({text, note, style = "soft"}) => <td class="name">{shown(text)}{note && <span class={style}>{shown(note)}</span>}</td>;

// A title that ends with a blank is of a column of text.
function Table({titles, children}) {
  const heads = titles.map(title => <th class={title.endsWith(" ") ? "name" : undefined}>{title.trim()}</th>);
  return <div class="wide"><table><thead><tr>{heads}</tr></thead>{children}</table></div>;
}
const Section = ({id, title, style, children}) => <section class={style} aria-labelledby={id}><h2 id={id}>{title}</h2>{children}</section>;
const Noted = ({text, note, style = "soft"}) => note ? <>{text}<br/><span class={style}>{note}</span></> : text;

// --- plots ---

// A narrow bar, prefilled, before a wide one, ideal; what sticks out above is the excess.
function tokenBars(run, places, axes) {
  const wide = Math.min(Math.max(Math.min((axes.right - axes.left) / Math.max(places.length, 1), Math.max(axes.slot, 1)) * 0.8, 0.8), 22);
  const narrow = Math.max(wide * 0.5, 0.6);
  const upright = (centre, width, from, to) => drawable(to) > drawable(from)
    ? `M${(centre - width / 2).toFixed(1)} ${axes.y(from).toFixed(1)}V${axes.y(to).toFixed(1)}h${width.toFixed(1)}V${axes.y(from).toFixed(1)}z` : "";
  const all = bar => places.map(place => bar(axes.x(place), run.requests[place])).join("");
  return [<Path style="behind" steps={all((x, request) => upright(x, wide, 0, request.ideal_tokens))}/>,
          <Path style="front" steps={all((x, request) => upright(x, narrow, 0, Math.min(request.prefilled_tokens, request.ideal_tokens)))}/>,
          <Path style="excess" steps={all((x, request) => upright(x, narrow, request.ideal_tokens, request.prefilled_tokens))}/>];
}

function TokensPlot({run}) {
  const places = thinned(run.requests, MOST_POINTS, excess);
  const sizes = places.map(place => run.requests[place]).flatMap(request => [drawable(request.prefilled_tokens), drawable(request.ideal_tokens)]);
  return <Plot description="Prefilled and ideal tokens of each request" largest={Math.max(1, ...sizes)} positions={run.requests.length}>
    {axes => tokenBars(run, places, axes)}</Plot>;
}

function ttftMarks(run, places, axes) {
  let dots = "", crosses = "";
  for (const place of places) {
    const request = run.requests[place], x = axes.x(place);
    if (failed(request)) crosses += `M${(x - 4).toFixed(1)} ${axes.bottom - 4}l8 8m-8 0l8-8`;
    else if (isNumber(request.ttft_ms)) dots += `M${x.toFixed(1)} ${axes.y(request.ttft_ms).toFixed(1)}h0`;  // round line ends make it a dot
  }
  return [<Path style="dot" steps={dots}/>, <Path style="fault" steps={crosses}/>];
}

function TtftPlot({run}) {
  const places = thinned(run.requests, MOST_POINTS, slowness);
  const largest = Math.max(0, ...places.map(i => failed(run.requests[i]) ? 0 : drawable(run.requests[i].ttft_ms)));
  return <Plot description="Milliseconds to the first token of each request" largest={largest} positions={run.requests.length}>
    {axes => ttftMarks(run, places, axes)}</Plot>;
}

// With marks at 1 and at the bound; `longest` fills the width.
function RatioBar({run, longest}) {
  const width = 130, scale = width / Math.max(longest, 1);
  const mark = at => `M${Math.min(drawable(at) * scale, width - 0.5).toFixed(1)} 0V14`;
  return (
    <svg class="bar" viewBox={`0 0 ${width} 14`} aria-hidden="true">
      <rect class={isAboveBound(run) ? "excess" : "front"} y="2" height="10" width={Math.min(drawable(run.totals.ratio) * scale, width).toFixed(1)}/>
      <Path style="grid" steps={mark(1)}/>{run.bound !== null && <Path style="bound" steps={mark(run.bound)}/>}
    </svg>
  );
}

// --- sections ---

function ListOf({id, title, style, lines}) {
  if (lines.length === 0) return null;
  return (
    <Section id={id} title={title} style={style}>
      <ul>{lines.slice(0, MOST_ROWS).map(line => <li>{shown(line)}</li>)}</ul>
      {lines.length > MOST_ROWS && <Soft>{grouped(lines.length - MOST_ROWS)} more are in the JSON.</Soft>}
    </Section>
  );
}

function ProblemList() {
  const lines = problemsOf(report);
  return <ListOf id="problems" title={plural(lines.length, "problem")} style="problems" lines={lines}/>;
}
const RefusalList = () => <ListOf id="refusals" title="Not played: the server refuses a request of the workload" lines={refusalsOf(report)}/>;

function Setting() {
  const {machine} = report;
  const rows = [["Machine", `${machine.logical_cpus} × ${shown(machine.processor)}, ${fixed(machine.memory_bytes / 2 ** 30, 0)} GiB of memory, ${shown(machine.system)}`],
                ["Meanwhile", shown(report.other_work ?? "")], ["kvkeep", shown(report.kvkeep_version)],
                ["libllama", shown(report.libllama_version)], ["Model", shown(report.model)]];
  return (
    <section aria-label="What was run"><dl>
      {rows.filter(([, text]) => text !== "").map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}
      {report.servers.map(server => <><dt>Server</dt><dd>{`${shown(server.name, 120)}, version ${shown(server.version, 120)}: `}<code>{shown(server.flags)}</code></dd></>)}
    </dl></section>
  );
}

const countedBy = run => run.counted_by === "engine" ? "" : run.sum_was_counted ? "as claimed, sum counted" : "as claimed";

function SummaryRow({run, workload, longest}) {
  const above = isAboveBound(run), bad = above ? "bad" : "", {ratio, ttft_ms: ttft} = run.totals;
  const count = tokens => isAnswered(run) ? grouped(tokens) : "–";
  const failures = run.requests.filter(failed).length;
  const trouble = isRefused(run) ? <Noted text={grouped(run.requests.length)} note="refused"/>
    : <Noted text={grouped(run.requests.length)} note={failures ? `${grouped(failures)} failed` : ""} style="bad"/>;
  return (
    <tr>{workload}<NameCell text={serverOf(run)}/><Cell style={bad}>{ratio === null ? "–" : fixed(ratio, 3)}</Cell>
      <Cell>{ratio !== null && <RatioBar run={run} longest={longest}/>}</Cell>
      <Cell style={bad}><Noted text={run.bound === null ? "" : measured(run.bound)} note={above ? "exceeded" : ""} style="bad"/></Cell>
      <Cell>{trouble}</Cell>
      <Cell><Noted text={count(run.totals.prefilled_tokens)} note={countedBy(run)}/></Cell><Cell>{count(run.totals.ideal_tokens)}</Cell>
      <Cell>{count(sumOf(run, "cached_tokens"))}</Cell>
      <Cell>{ttft ? <Noted text={fixed(ttft.median, 1)} note={`${fixed(ttft.low_quartile, 1)} to ${fixed(ttft.high_quartile, 1)}`}/> : "–"}</Cell>
      <Cell>{isNumber(run.server_cpu_seconds) ? measured(run.server_cpu_seconds) : "–"}</Cell></tr>
  );
}

function Summary() {
  if (report.runs.length === 0) return null;
  // One very bad ratio must not make all others look alike.
  const longest = Math.min(4, Math.max(1.25, ...report.runs.map(run => drawable(run.totals.ratio))));
  const head = runs => <th class="name" scope="rowgroup" rowSpan={runs.length}><Noted text={shown(titleOf(runs[0]), 120)} note={shown(runs[0].workload, 120)}/></th>;
  return (
    <Section id="summary" title="Prefilled tokens / tokens never computed before">
      <Soft>1.00 is perfect: nothing that was ever computed is computed again. The solid mark stands at 1, the dashed one at
        the bound. TTFT is the wall time to the first token, median and quartiles; CPU is the time of the server's
        process; tokens are counted at the engine unless it says that the server claims them.</Soft>
      <Table titles={["Workload ", "Server ", "Ratio", "", "Bound", "Requests", "Prefilled", "Ideal", "Cached", "TTFT ms", "CPU s"]}>
        {byWorkload(report).map(runs => <tbody>{runs.map((run, i) => <SummaryRow run={run} longest={longest} workload={i === 0 && head(runs)}/>)}</tbody>)}
      </Table>
    </Section>
  );
}

function Verdict({part}) {
  if (part.unmeasurable) return <Cell style="soft">not measurable here</Cell>;
  if (part.holds === null) return <Cell/>;
  return part.holds ? <Cell style="good">met</Cell> : <Cell style="bad">missed</Cell>;
}

function Parts() {
  if (report.parts.length === 0) return null;
  const row = part => <tr><NameCell text={part.name}/><Cell>{measured(part.median)}</Cell><NameCell text={part.unit}/>
    <Cell>{measured(part.low_quartile)} to {measured(part.high_quartile)}</Cell><Cell>{grouped(part.samples)}</Cell><Cell>{shown(part.goal)}</Cell><Verdict part={part}/></tr>;
  return <Section id="parts" title="Parts"><Table titles={["Figure ", "Median", "Unit ", "Quartiles", "Samples", "Goal", ""]}><tbody>{report.parts.map(row)}</tbody></Table></Section>;
}

function runLine(run) {
  if (isRefused(run)) return `Refused at ${run.refused}.`;
  if (!isAnswered(run)) return `${plural(run.requests.length, "request")}, none was answered.`;
  const {totals} = run, failures = run.requests.filter(failed).length;
  let line = `${plural(run.requests.length, "request")}, ${grouped(totals.prompt_tokens)} tokens in prompts, ` +
    `${grouped(totals.ideal_tokens)} never computed before, ${grouped(totals.prefilled_tokens)} prefilled`;
  if (totals.ratio !== null) line += `: ratio ${fixed(totals.ratio, 3)}`;
  if (failures) line += `; ${grouped(failures)} failed`;
  if (run.kills) line += `; ${plural(run.kills, "deliberate kill")}`;
  if (run.counted_by === "reply") line += "; tokens as the server's replies say";
  if (run.sum_was_counted) line += "; their sum was counted at its engine";
  return line + ".";
}

const timeOf = value => value === 0 ? "" : fixed(value, 1);
const bad = is => is ? "bad" : "";

function RequestRow({request, place}) {
  const count = tokens => <Cell>{grouped(known(request, tokens))}</Cell>;
  const claimed = request.claimed_prefill;
  return (
    <tr><Cell>{grouped(place + 1)}</Cell><NameCell text={request.label} note={request.error} style="error"/>
      <Cell style={bad(failed(request))}>{request.status === 0 ? "none" : String(request.status)}</Cell>
      {count(request.prompt_tokens)}{count(request.cached_tokens)}
      <Cell style={bad(excess(request) > 0)}>{grouped(known(request, request.prefilled_tokens))}</Cell>{count(request.ideal_tokens)}
      <Cell style={bad(claimed !== null && claimed !== request.prefilled_tokens)}>{claimed === null ? "" : grouped(claimed)}</Cell>
      <Cell>{shown(request.cache_source, 120)}</Cell>{count(request.reply_tokens)}
      <Cell>{timeOf(request.ttft_ms)}</Cell><Cell>{timeOf(request.total_ms)}</Cell><Cell>{timeOf(request.decode_tokens_per_second)}</Cell></tr>
  );
}

// Filled when it is opened: a report may hold a hundred thousand requests.
function RequestTable({run}) {
  const [opened, setOpened] = useState(false);
  const titles = ["#", "Request ", "Status", "Prompt", "Cached", "Prefilled", "Ideal", "Claimed", "From", "Reply", "TTFT ms", "Total ms", "Tokens/s"];
  return (
    <details onToggle={() => setOpened(true)}><summary>All figures of each request</summary>
      {opened && <Table titles={titles}><tbody>{thinned(run.requests, MOST_ROWS, badness).map(place => <RequestRow request={run.requests[place]} place={place}/>)}</tbody></Table>}
    </details>
  );
}

function ThinningNote({run}) {
  const count = run.requests.length;
  if (count <= MOST_POINTS) return null;
  const rows = count > MOST_ROWS ? ` and the table ${grouped(MOST_ROWS)}` : "";
  return <Soft>{`Of ${grouped(count)} requests the plots show ${MOST_POINTS}${rows}: of each group of neighbours the worst ` +
                "(failed, furthest above its ideal, or slowest)."}</Soft>;
}

function Article({run}) {
  const heads = <><h3>{`${shown(titleOf(run), 120)} – ${shown(serverOf(run), 240)}`}</h3><Soft>{runLine(run)}</Soft><ThinningNote run={run}/></>;
  if (run.requests.length === 0) return <article>{heads}</article>;
  const tokenKeys = [" ", <Key style="behind" text="ideal"/>, <Key style="front" text="prefilled"/>, <Key style="excess" text="prefilled above the ideal"/>];
  return (
    <article>{heads}
      <div class="plots">
        <Figure title="Tokens per request" caption={tokenKeys}><TokensPlot run={run}/></Figure>
        <Figure title="Time to the first token, ms" caption=", per request; a cross is a failed one"><TtftPlot run={run}/></Figure>
      </div>
      <RequestTable run={run}/>
    </article>
  );
}

const Report = () => (
  <>
    <header><h1>{shown(report.title, 120)}</h1>
      {report.finding && <p><b>{shown(report.finding)}</b>: tokens prefilled for each token that was never computed before</p>}<Soft>Started {shown(report.started, 120)}</Soft></header>
    <main><ProblemList/><Setting/><Summary/><RefusalList/><Parts/>
      {report.runs.length > 0 && <Section id="runs" title="Runs">{byWorkload(report).flat().map(run => <Article run={run}/>)}</Section>}</main>
  </>
);

document.title = shown(report.title, 120);
render(<Report/>, document.getElementById("page"));
