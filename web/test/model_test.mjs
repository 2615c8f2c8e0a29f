import assert from "node:assert/strict";
import {test} from "node:test";
import {dialectOf, forgottenOf, readCache, readCause, readExplained, readOffenders, readTree, warmedOf} from "../page/model.js";

test("a reply of /cache becomes figures", () => {
  const read = readCache({model: "m", now: 1_060.5, started: 1_000, segments: 3, tokens: 90, points: 0,
    tiers: [{name: "ram", used_bytes: 5, budget_bytes: 10}, {name: "disk", used_bytes: 7, budget_bytes: 70, stopped: true, shared: true, keeper: false},
            {name: "shared", lookups: 1, loaded_bytes: 1024, published_bytes: 2048, failures: 1}],
    prompt_tokens: {memory: 100, ram: 20, disk: 3, prefill: 40, new: 32, again: 8}, saved: {tokens: 123, seconds: 12.5, ever: {seconds: 90}}, requests: {accepted: 7, waiting: 2},
    cells: {total: 4096, used: 100, shared: 30}, tenants: [{number: 2, own: true, salted: true, requests: 3, prompt_tokens: 10, cached_tokens: 9, ram_bytes: 2048, disk_bytes: 4096, last: 1_050}],
    running: [{task: 5, prompt_tokens: 50, memory_tokens: 20, prefilled_tokens: 30, predicted_tokens: 9, queue_ms: 10, prompt_ms: 75, predicted_ms: 400, state: "decoding", waits_for: null},
              {task: 6, state: "waiting", waits_for: "place"}],
    ended: [{id: "a", kind: "chat", ended: 1_059, end: "error"}]});
  assert.equal(read.uptimeS, 60.5);
  assert.equal(read.totals.prompt, 163);
  assert.equal(read.totals.again, 8);
  assert.equal(read.totals.savedEverS, 90);
  assert.deepEqual(read.running.map(one => one.stage), ["decoding", "waiting"]);
  assert.deepEqual([read.running[0].ttftMs, read.running[0].tokensPerS, read.running[1].ttftMs], [85, 20, null]);
  assert.equal(read.ended[0].failed, true);
  assert.deepEqual(read.running.map(one => one.waitsFor), ["", "place"]);
  assert.deepEqual(read.tiers.map(one => [one.name, one.unit, one.used, one.budget]),
                   [["memory", "tokens", 100, 4096], ["ram", "bytes", 5, 10], ["disk", "bytes", 7, 70], ["shared", "bytes", null, null]]);
  assert.match(read.tiers[0].note, /30 shared/);
  assert.match(read.tiers[2].note, /stopped.*shared.*by another/);
  assert.equal(read.tiers[3].note, "1 KiB loaded, 2 KiB published; 1 failed call");
  assert.deepEqual(read.tenants.map(one => [one.number, one.own, one.salted, one.cached, one.prompt, one.ram, one.disk]), [[2, true, true, 9, 10, 2048, 4096]]);
  assert.equal(read.problems.length, 1);
  assert.match(read.problems[0], /--kv-disk-reserve-mb\. Make room/);
});

test("problems that the server names are shown", () => {
  assert.deepEqual(readCache({problems: ["An audit failed."]}).problems, ["An audit failed."]);
  assert.deepEqual(readCache({problems: []}).problems, []);
});

test("a reply of another version, or of nothing, is shown as far as it goes", () => {
  for (const reply of [{}, {tiers: 3, running: {}, ended: [{}], prompt_tokens: [], requests: "x", model: 7}, {tiers: [{}], running: [{}]}]) {
    const read = readCache(reply);
    assert.equal(read.model, "");
    assert.equal(read.totals.prompt, 0);
    assert.equal(read.uptimeS, null);
    assert.equal(read.totals.again, null);
  }
  assert.equal(readExplained({}).size, 0);
  assert.deepEqual(readOffenders({}), []);
  assert.deepEqual(readTree({}), {nodes: [], next: null});
});

test("each reason has a sentence", () => {
  assert.equal(readCause({}), null);
  assert.equal(readCause({cache_break: null}).kind, "none");
  const found = readCause({cache_break: {kind: "volatile-text", what: "date", at: 8, place: "system", lost_tokens: 40, lost_ms: 500, advice: "Move it.",
                                         lost: {cause: "disk-budget", t: 5}, text: {before: "is ", here: "4", there: null}}});
  assert.equal(found.short, "volatile text: date");
  assert.deepEqual([found.before, found.here, found.there, found.lostS, found.lostWhy], ["is ", "4", null, 0.5, "its place on disk was full (--kv-disk-space-mb)"]);
  assert.equal(readCause({cache_break: {kind: "new-kind-of-break"}}).title, "new kind of break.");
  assert.equal(readCause({cache_break: {kind: "evicted", lost: {cause: "new-cause", t: 5}}}).lostWhy, "new cause");
  assert.equal(readExplained({requests: [{id: "a", client: null, route: "chat", cache_break: null}]}).get("a").client, "chat");
});

test("a text that the server hides is told from a text that is not there", () => {
  const hides = cache_break => readCause({cache_break}).hidesText;
  assert.ok(hides({kind: "volatile-text", at: 8, lost_tokens: 40}));
  assert.ok(!hides({kind: "new-content", at: 8, lost_tokens: 0}), "nothing is lost by it");
  assert.ok(!hides({kind: "volatile-text", at: 8, lost_tokens: 40, text: {before: "", here: "4", there: null}}));
  assert.ok(!hides({kind: "evicted", at: 8, lost_tokens: 40}), "no text differs");
  assert.ok(!hides(null), "nothing differs");
});

test("prefixes are hot when they were used just now", () => {
  const {nodes, next} = readTree({now: 1_000_000, next: 7, prefixes: [{number: 1, parent: 0, id: "ab", begin: 0, end: 9, ram_bytes: 5, disk_bytes: 9, last_use: 1_000_000, hits: 2, pinned: true, kept_until: 2e6},
                                                                      {number: 2, parent: 1, last_use: 0, pinned: false, kept_until: 2e6}]});
  assert.equal(next, 7);
  assert.equal(nodes[0].heat, 1);
  assert.deepEqual([nodes[0].tiers, nodes[0].bytes, nodes[0].pinned], [["ram", "disk"], 9, true]);
  assert.ok(nodes[1].heat < 0.1 && !nodes[1].pinned && nodes[1].kept);
});

test("what is stored is told from what was used", () => {
  const reply = {segments: 3, tokens: 90, points: 0, tiers: [{name: "ram", used_bytes: 5}], requests: {accepted: 7}, ended: [{id: "a"}]};
  const first = readCache(reply), used = readCache({...reply, requests: {accepted: 8}, ended: [{id: "b"}]});
  assert.equal(used.stored, first.stored);
  assert.notEqual(used.used, first.used);
  for (const change of [{segments: 4}, {tokens: 91}, {points: 1}, {tiers: [{name: "ram", used_bytes: 6}]}]) {
    const stored = readCache({...reply, ...change});
    assert.notEqual(stored.stored, first.stored, JSON.stringify(change));
    assert.equal(stored.used, first.used);
  }
});

test("an offender says how often, of what is counted, and when it was seen", () => {
  const [known, uncounted, old] = readOffenders({offenders: [{kind: "volatile-text", what: "date", place: "system", times: 12, requests: 40, last: 50}, {times: 12, requests: 0}, {times: 1, requests: 1}]});
  assert.deepEqual([known.title, known.times, known.at], ["volatile text: date, in system", "12 of 40 requests", 50]);
  assert.deepEqual([uncounted.times, uncounted.at], ["12 requests", null]);
  assert.equal(old.times, "1 of 1 request");
  const [off, evicted] = readOffenders({offenders: [{kind: "cache-off"}, {kind: "evicted"}]});
  assert.deepEqual([off.how, evicted.how], ["prefilled without the cache", "prefilled again"]);
});

test("what an order did is told in sentences", () => {
  assert.equal(forgottenOf({prefixes: 1, tokens: 2_000, ram_bytes: 1024, disk_bytes: 2048}), "The server forgot 1 prefix of 2,000 tokens: 1 KiB in RAM, 2 KiB on disk.");
  assert.match(forgottenOf({prefixes: 2, tokens: 1}), /2 prefixes of 1 token:/);
  assert.equal(forgottenOf({}), "Nothing was stored that had to be forgotten.");
  assert.equal(warmedOf({prompt_tokens: 120, cached_tokens: 20, prefilled_tokens: 100}),
               "The prompt is warm: 20 of its 120 tokens were stored before, 100 were prefilled.");
});

test("a request is warmed as one of its own API", () => {
  assert.equal(dialectOf({prompt: "x"}), "chat");
  assert.equal(dialectOf({messages: [], tools: [{type: "function", function: {}}, null]}), "chat");
  assert.equal(dialectOf({messages: [], system: "s"}), "messages");
  assert.equal(dialectOf({messages: [], tools: [{name: "a", input_schema: {}}]}), "messages");
  assert.equal(dialectOf({input: "x", tools: [{}]}), "responses");
  assert.equal(dialectOf({messages: 1, tools: "x"}), "chat");
});
