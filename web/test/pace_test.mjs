import assert from "node:assert/strict";
import {test} from "node:test";
import {retryMs, treeIsDue} from "../page/pace.js";
import {inSlices} from "../page/slices.js";

// How often a page asks in so long if every reply is like the first.
function asksWithin(ms, status) {
  let at = 0, asks = 0;
  while (at < ms) at += retryMs(status, ++asks);
  return asks;
}

test("a server that is not there or not ready is asked again soon, one that refuses ever more rarely", () => {
  for (const status of [null, 503, 429]) assert.ok(asksWithin(60_000, status) >= 60, `${status}`);
  for (const status of [401, 403, 404, 500, 501]) {
    assert.ok(retryMs(status, 1) <= 2_000);
    assert.ok(asksWithin(86_400_000, status) < 200, `${status}`);
    assert.ok(retryMs(status, 10_000) <= 600_000, "it never stops");
  }
});

const seen = {stored: "a", used: "1", at: 10_000, tookMs: 50};

test("the tree is asked for when it changed, and not at once again", () => {
  assert.ok(treeIsDue(null, {stored: "a", used: "1"}, 0));
  assert.ok(!treeIsDue(seen, {stored: "b", used: "1"}, 11_900));
  assert.ok(treeIsDue(seen, {stored: "b", used: "1"}, 12_000));
  assert.ok(!treeIsDue(seen, {stored: "a", used: "1"}, 9_000_000));
});

test("requests that stored nothing bring the tree after half a minute", () => {
  assert.ok(!treeIsDue(seen, {stored: "a", used: "2"}, 39_000));
  assert.ok(treeIsDue(seen, {stored: "a", used: "2"}, 40_000));
});

test("a tree that took long takes no more than a tenth of the time", () => {
  const large = {...seen, tookMs: 1_000};
  assert.ok(!treeIsDue(large, {stored: "b", used: "1"}, 19_000));
  assert.ok(treeIsDue(large, {stored: "b", used: "1"}, 20_000));
});

test("work is cut into slices, and its result is that of the work", async () => {
  let at = 0, pauses = [];
  const work = function* () {
    for (let i = 0; i < 20; ++i) { at += 2; yield; }
    return "made";
  };
  assert.equal(await inSlices(work(), () => at, async () => { pauses.push(at); at += 100; }), "made");
  assert.equal(pauses.length, 6);
  assert.equal(pauses[0], 6, "three steps of two milliseconds fill a slice");
  at = 0;
  pauses = [];
  await inSlices((function* () { yield; })(), () => at, async () => pauses.push(at));
  assert.deepEqual(pauses, [], "short work does not wait");
});
