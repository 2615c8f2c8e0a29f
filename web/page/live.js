// Asks the server for its state while somebody looks. The server answers from counters and lists that it keeps anyway; the
// engine's thread is not needed.

import {ask, keyState, ReplyError} from "./api.js";
import {readCache, readExplained, readOffenders} from "./model.js";
import {retryMs} from "./pace.js";
import {Store} from "./store.js";

const BUSY_MS = 500;     // between two looks while a request runs
const IDLE_MS = 2_000;   // otherwise
const OFFENDERS_MS = 10_000;
const LAST_REQUESTS = 64;
const MOST_SAMPLES = 300;

// state: "starting", "live", "lost" (no server), "refused" (status says how: 401 is no or a wrong key) or "paused" (nobody
// looks).
export const live = new Store({state: "starting", why: "", status: null, cache: null, requests: [], offenders: [], samples: []});

// A server that began anew counts from 0: its samples do not go on from the former one's.
function withSample(samples, cache) {
  const next = {at: performance.now() / 1000, ...cache.totals}, last = samples.at(-1);
  if (last && (next.requests < last.requests || next.prompt < last.prompt)) return [next];
  return [...samples.slice(1 - MOST_SAMPLES), next];
}

class Watch {
  #timer = 0;
  #asking = false;
  #failures = 0;       // in a row
  #again = false;      // to look at once after this look
  #refusals = new Map();  // routes that the server does not have: when to ask again, and how often it refused
  #explained = new Map();
  #explainedFor = "";  // the requests that had ended then
  #offendersAt = -Infinity;

  begin() {
    document.addEventListener("visibilitychange", () => this.now());
    keyState.follow(state => state === "" && this.#withNewKey());
    this.now();
  }

  #withNewKey() {
    this.#failures = 0;
    this.#again = this.#asking;  // with the old key
    this.now();
  }

  // Looks at once, and then again and again.
  now() {
    clearTimeout(this.#timer);
    if (this.#asking) return;
    if (document.hidden) return live.update(state => ({...state, state: state.state === "live" ? "paused" : state.state}));
    this.#asking = true;
    this.#look().then(wait => {
      this.#asking = false;
      this.#timer = setTimeout(() => this.now(), this.#again ? 0 : wait);
      this.#again = false;
    });
  }

  async #look() {
    try {
      const cache = await ask("cache?hottest=0").then(readCache);
      const [explained, offenders] = await Promise.all([this.#explanations(cache.ended), this.#offenders()]);
      const requests = cache.ended.map(one => ({client: one.kind, cause: null, ...one, ...explained.get(one.id)}));
      this.#failures = 0;
      live.update(before => ({state: "live", why: "", status: null, cache, requests, offenders, samples: withSample(before.samples, cache)}));
      return cache.running.length > 0 || cache.waiting > 0 ? BUSY_MS : IDLE_MS;
    } catch (error) {
      this.#explainedFor = "";
      const status = error instanceof ReplyError ? error.status : null;
      live.update(before => ({...before, state: status === null ? "lost" : "refused", why: error.message, status}));
      return retryMs(status, ++this.#failures);
    }
  }

  // An operator may turn routes off; the others still show what they can.
  async #optional(path, read, otherwise) {
    const refusals = this.#refusals.get(path);
    if (refusals && performance.now() < refusals.until) return otherwise;
    try {
      const found = read(await ask(path));
      this.#refusals.delete(path);
      return found;
    } catch (error) {
      if (!(error instanceof ReplyError && [404, 501].includes(error.status))) throw error;
      const times = (refusals?.times ?? 0) + 1;
      this.#refusals.set(path, {times, until: performance.now() + retryMs(error.status, times)});
      return otherwise;
    }
  }

  async #explanations(ended) {
    const now = ended.map(one => one.key).join(" ");
    if (now !== this.#explainedFor) this.#explained = await this.#optional(`cache/explain?last=${LAST_REQUESTS}`, readExplained, new Map());
    this.#explainedFor = now;
    return this.#explained;
  }

  async #offenders() {
    if (performance.now() - this.#offendersAt < OFFENDERS_MS) return live.value.offenders;
    this.#offendersAt = performance.now();
    return this.#optional("cache/offenders", readOffenders, []);
  }
}

export const watch = new Watch();
