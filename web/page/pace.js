// When to ask the server again. Pure.

const RETRY_MS = 1_000;          // while there is no server, or it is not ready
const REFUSED_MS = 2_000;        // after the first refusal; twice as long after each further one, because the server logs it
const MOST_REFUSED_MS = 600_000;
const NOT_READY = new Set([429, 502, 503, 504]);

// After so many failures in a row, the last with this status (null: no reply).
export function retryMs(status, failures) {
  if (status === null || NOT_READY.has(status)) return RETRY_MS;
  return Math.min(REFUSED_MS * 2 ** (failures - 1), MOST_REFUSED_MS);
}

const TREE_MS = 2_000;     // between two times that the tree is asked for
const TREE_SHARE = 10;     // a large tree is asked for and drawn in at most a tenth of the time
const USED_MS = 30_000;    // requests that stored nothing changed only how lately the tree's nodes were used

// Whether the tree must be asked for again. `seen`: {stored, used, at, tookMs} of the last time, null: never.
export function treeIsDue(seen, {stored, used}, now) {
  if (seen === null) return true;
  const age = now - seen.at;
  if (age < Math.max(TREE_MS, TREE_SHARE * seen.tookMs)) return false;
  return stored !== seen.stored || (used !== seen.used && age >= USED_MS);
}
