import assert from "node:assert/strict";
import {test} from "node:test";
import {ago, bytes, compact, duration, fixed, grouped, harmless, measured, percent, plural, shown} from "../shared/text.js";

const all = (read, cases) => { for (const [value, text] of cases) assert.equal(read(value), text, `${value}`); };

test("figures are read at a glance", () => {
  all(compact, [[0, "0"], [999, "999"], [1_000, "1k"], [12_345, "12.3k"], [999_700, "1M"], [4_560_000, "4.56M"], [NaN, "–"], [null, "–"]]);
  all(bytes, [[0, "0 B"], [1_023, "1023 B"], [1_024, "1 KiB"], [2_104_533_975, "1.96 GiB"], [undefined, "–"]]);
  all(grouped, [[24_860, "24,860"], [null, "–"]]);
  all(measured, [[0, "0.000"], [0.0012345, "0.00123"], [7.905, "7.905"], [98.35, "98.35"], [1291.4, "1291"]]);
  assert.equal(fixed(1e15, 1), "1.000e+15");
  assert.equal(percent(1, 3), "33.3 %");
  assert.equal(percent(0, 0), "–");
  assert.deepEqual([plural(1, "node"), plural(2, "node")], ["1 node", "2 nodes"]);
});

test("times have two units at most, and never sixty of one", () => {
  all(duration, [[0, "0 ms"], [0.085, "85 ms"], [0.9996, "1 s"], [1.24, "1.24 s"], [99.96, "1 min 40 s"], [252, "4 min 12 s"], [3_599.6, "1 h"],
                 [11_400, "3 h 10 min"], [187_200, "2 d 4 h"], [-0, "0 ms"], [Infinity, "–"]]);
  for (let seconds = 100; seconds < 400_000; seconds = seconds * 1.01 + 0.37) assert.doesNotMatch(duration(seconds), /\b(60 s|60 min|24 h)/, `${seconds}`);
  all(ago, [[0, "now"], [12, "10 s ago"], [59.9, "55 s ago"], [60, "1 min ago"], [7_300, "2 h ago"], [200_000, "2 d ago"]]);
});

test("text of strangers is one short harmless line", () => {
  assert.equal(shown("a\u0000b\u202ec\u001b[31m"), "a\ufffdb\ufffdc\ufffd[31m");
  assert.equal(shown("one\ntwo\tthree"), "one two three");
  assert.equal([...shown("\u{1f600}".repeat(5_000), 10)].length, 10);
  assert.equal(harmless("one\ntwo\u0007"), "one\ntwo\ufffd");
  assert.equal(shown(null), "");
});
