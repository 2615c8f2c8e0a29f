// The server's replies as the views see them (docs/cache-api.md, docs/explain.md). Pure; a field that a reply lacks is null,
// "", 0 or [], so that a page of one version works with a server of another.

import {cachedOf} from "../shared/sources.js";
import {bytes, grouped, plural} from "../shared/text.js";
import {Prefix} from "./prefix_layout.js";

const number = value => typeof value === "number" && Number.isFinite(value) ? value : null;
const count = value => Math.max(0, number(value) ?? 0);
const text = value => typeof value === "string" ? value : "";
const list = value => Array.isArray(value) ? value : [];

// Tokens of a request by where they came from.
const tokensOf = one => ({prompt: count(one.prompt_tokens), memory: count(one.memory_tokens), ram: count(one.ram_tokens), disk: count(one.disk_tokens), shared: count(one.shared_tokens),
                          prefilled: count(one.prefilled_tokens), sampled: count(one.predicted_tokens)});

// From the request's arrival on; null before the first token.
const ttftOf = one => count(one.predicted_tokens) > 0 ? count(one.queue_ms) + count(one.prompt_ms) : null;
const rateOf = one => count(one.predicted_ms) > 0 && one.predicted_tokens > 1 ? 1000 * (one.predicted_tokens - 1) / one.predicted_ms : null;

const readRunning = one => ({id: count(one.task), ...tokensOf(one), ttftMs: ttftOf(one), tokensPerS: rateOf(one),
                             stage: text(one.state), waitsFor: text(one.waits_for)});

const readEnded = one => ({key: `${text(one.id)} ${count(one.ended)}`, id: text(one.id), at: count(one.ended), kind: text(one.kind), ...tokensOf(one),
                           ttftMs: ttftOf(one), tokensPerS: rateOf(one), end: text(one.end), failed: one.end === "error", reason: text(one.cache_miss_reason)});

// `unit`: of `used` and `budget`; a tier of other programs has no size of its own, only what passed.
const readTier = tier => ({name: text(tier.name), unit: "bytes", used: number(tier.used_bytes), budget: number(tier.budget_bytes), note: noteOf(tier)});
function noteOf(tier) {
  const others = tier.shared ? `shared with other servers, ${tier.keeper ? "kept by this one" : "kept by another"}` : "";
  const passed = number(tier.published_bytes) === null ? "" : `${bytes(count(tier.loaded_bytes))} loaded, ${bytes(count(tier.published_bytes))} published`;
  const failed = count(tier.failures) > 0 ? plural(tier.failures, "failed call") : "";
  return [tier.stopped ? "stopped: too little free space" : "", others, passed, failed].filter(Boolean).join("; ");
}

// The model's own memory is counted in tokens.
function memoryOf(cells) {
  if (number(cells?.total) === null) return [];
  const note = count(cells.shared) > 0 ? `${grouped(cells.shared)} shared by several conversations` : "";
  return [{name: "memory", unit: "tokens", used: count(cells.used), budget: count(cells.total), note}];
}

const readTenant = one => ({number: count(one.number), own: one.own === true, salted: one.salted === true, requests: count(one.requests), prompt: count(one.prompt_tokens),
                            cached: count(one.cached_tokens), prefilled: count(one.prefilled_tokens), sampled: count(one.predicted_tokens), ram: number(one.ram_bytes), disk: number(one.disk_bytes), at: count(one.last)});

const problemsOf = reply => [
  ...list(reply.tiers).filter(tier => tier.stopped).map(() => "Nothing is stored on disk: the file system is full, or has less free space than --kv-disk-reserve-mb. Make room; storing then goes on by itself."),
  ...list(reply.problems).map(text),
];

export function readCache(reply) {
  const sources = reply.prompt_tokens ?? {}, prefilled = count(sources.prefill);
  const cached = {memory: count(sources.memory), ram: count(sources.ram), disk: count(sources.disk), shared: count(sources.shared)};
  const started = number(reply.started), now = number(reply.now);
  return {
    model: text(reply.model), memoryClass: text(reply.memory_class), uptimeS: started === null || now === null ? null : Math.max(0, now - started),
    waiting: count(reply.requests?.waiting),
    // Changes with what is stored, and with what was used of it.
    stored: JSON.stringify([reply.segments, reply.tokens, reply.points, list(reply.tiers).map(tier => tier.used_bytes)]),
    used: JSON.stringify([reply.requests?.accepted, list(reply.ended)[0]?.id]),
    totals: {requests: count(reply.requests?.accepted), ...cached, prefilled, prompt: cachedOf(cached) + prefilled, sampled: count(reply.predicted_tokens),
             savedS: number(reply.saved?.seconds), savedEverS: number(reply.saved?.ever?.seconds), again: number(sources.again)},
    tiers: [...memoryOf(reply.cells), ...list(reply.tiers).map(readTier)],
    tenants: list(reply.tenants).map(readTenant),
    running: list(reply.running).map(readRunning),
    ended: list(reply.ended).map(readEnded),
    problems: problemsOf(reply),
  };
}

// What each kind of break means, in one sentence.
const KINDS = {
  "new-content": "Only new text was prefilled.",
  "nothing-known": "No known prompt begins like this one.",
  "volatile-text": "A text that changes each time stands before text that stayed the same.",
  "message-changed": "An earlier message was edited, inserted or removed.",
  "tools-reordered": "The same tools came in another order.",
  "tools-changed": "Tools were redescribed, added or removed.",
  "call-reserialised": "A call came back with the same arguments in other words.",
  "thinking-dropped": "A turn came back without its thinking.",
  "template-rewrote-history": "The chat template writes an earlier turn differently than before.",
  "other-settings": "The prompt is known for another model or other flags only.",
  "other-salt": "The prompt is known with another cache salt only.",
  "evicted": "The prompt was known, but its state has left all tiers.",
  "damaged": "Stored state was damaged.",
  "load-failed": "Stored state could not be read.",
  "load-too-slow": "Prefilling was faster than loading.",
  "no-room": "The model's memory had no room for more.",
  "no-point": "This model can go on only from points, and no deeper one is kept.",
  "cache-off": "The request does not use the cache.",
  "prompt-scored": "The request asked for the probabilities of its prompt.",
  "not-cacheable": "This model's state cannot be cached.",
};
// Why state left the last tier.
const LOSSES = {
  "ram-budget": "RAM was full (--cache-ram)",
  "disk-budget": "its place on disk was full (--kv-disk-space-mb)",
  "expired": "nobody used it for too long (--kv-cache-ttl-hours)",
  "damaged": "its file was damaged",
  "refused": "the model's memory did not take it",
  "removed-elsewhere": "another server or program removed its file",
  "forgotten": "somebody told the server to forget it",
};
// Kinds whose prompts differ in a text, which the server may show.
const DIFFERENCES = new Set(["new-content", "volatile-text", "message-changed", "tools-reordered", "tools-changed", "call-reserialised", "thinking-dropped",
                             "template-rewrote-history"]);
const SHORT = {"new-content": "new text", "nothing-known": "nothing known"};
const words = kind => kind.replaceAll("-", " ");

function causeOf(found) {
  const kind = text(found.kind), what = text(found.what), changed = found.text ?? {};
  const hidesText = found.text === undefined && DIFFERENCES.has(kind) && count(found.lost_tokens) > 0;
  const side = value => typeof value === "string" ? value : null;
  return {kind, short: what && what !== "text" ? `${words(kind)}: ${words(what)}` : SHORT[kind] ?? words(kind), title: KINDS[kind] ?? `${words(kind)}.`,
          where: text(found.place), at: number(found.at), before: text(changed.before), here: side(changed.here), there: side(changed.there), hidesText,
          lostTokens: count(found.lost_tokens), lostS: count(found.lost_ms) / 1000, lostWhy: found.lost ? LOSSES[found.lost.cause] ?? words(text(found.lost.cause)) : "",
          lostAt: number(found.lost?.t), advice: text(found.advice)};
}
const WHOLE = {kind: "none", short: "all known", title: "The whole prompt was known; only its end was computed.", where: "", at: null, before: "", here: null,
               there: null, hidesText: false, lostTokens: 0, lostS: 0, lostWhy: "", lostAt: null, advice: ""};

// Of the `timings` of a reply, or of an explained request; null: the server says nothing of it.
export const readCause = holder => holder.cache_break === undefined ? null : holder.cache_break === null ? WHOLE : causeOf(holder.cache_break);

// What is known of requests by their ids: {client, cause}.
export const readExplained = reply =>
  new Map(list(reply.requests).map(one => [text(one.id), {client: text(one.client) || text(one.route), cause: readCause(one)}]));

// Sentences about what an order did.
export const forgottenOf = reply => count(reply.prefixes) === 0 ? "Nothing was stored that had to be forgotten."
  : `The server forgot ${plural(count(reply.prefixes), "prefix", "prefixes")} of ${plural(count(reply.tokens), "token")}: ${bytes(count(reply.ram_bytes))} in RAM, ${bytes(count(reply.disk_bytes))} on disk.`;

// The API of which a body is a request, as the server is to read it. As apps/warm_request.cc has it.
export function dialectOf(body) {
  if ("input" in body) return "responses";
  const isOfMessages = "system" in body || list(body.tools).some(tool => "input_schema" in Object(tool));
  return isOfMessages ? "messages" : "chat";
}

export const warmedOf = reply =>
  `The prompt is warm: ${grouped(count(reply.cached_tokens))} of its ${plural(count(reply.prompt_tokens), "token")} were stored before, ${grouped(count(reply.prefilled_tokens))} were prefilled.`;

// "12 of 40 requests"; a server that counts no requests of this client says 0.
const timesOf = (times, requests) => requests < times ? plural(times, "request") : `${grouped(times)} of ${plural(requests, "request")}`;

// Of requests that went past the cache nobody knows what was computed before.
const PAST_THE_CACHE = new Set(["cache-off", "prompt-scored", "not-cacheable"]);

export const readOffenders = reply => list(reply.offenders).map((one, i) => ({
  key: `${i}`, title: [words(text(one.kind)), text(one.what)].filter(Boolean).join(": ") + (one.place ? `, in ${text(one.place)}` : ""), line: text(one.line),
  client: text(one.client), times: timesOf(count(one.times), count(one.requests)), at: number(one.last), tokens: count(one.lost_tokens), seconds: count(one.lost_ms) / 1000,
  how: PAST_THE_CACHE.has(one.kind) ? "prefilled without the cache" : "prefilled again", advice: text(one.advice)}));

// 1 for state that was used just now, less by a quarter for each ten times as long.
const heatOf = idleS => Math.min(1, Math.max(0, 1 - Math.log10(1 + idleS / 60) / 4));

const TIERS_OF = [[], ["ram"], ["disk"], ["ram", "disk"]];

function readPrefix(one, now) {
  const idleS = Math.max(0, now - count(one.last_use));
  const tiers = TIERS_OF[(one.ram_bytes > 0 ? 1 : 0) + (one.disk_bytes > 0 ? 2 : 0)];
  return new Prefix(count(one.number), count(one.parent), count(one.begin), count(one.end), Math.max(count(one.ram_bytes), count(one.disk_bytes)), heatOf(idleS),
                    {name: text(one.id), tiers, idleS, uses: count(one.hits), points: count(one.points), pinned: one.pinned === true, kept: count(one.kept_until) > now});
}

export const readTree = reply => ({nodes: list(reply.prefixes).map(one => readPrefix(one, count(reply.now))), next: number(reply.next)});
