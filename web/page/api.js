// Requests to the server that delivered this page, with the API key if it wants one.

import {Store} from "./store.js";

const KEY_NAME = "kvkeep-key";

// "": no key is needed, as far as known; "wanted": the server refused a request without a key; "wrong": with this one.
export const keyState = new Store("");

// The key is kept for this tab, until it is closed.
let key = "";
try {
  key = sessionStorage.getItem(KEY_NAME) ?? "";
} catch {
  // Storage is turned off: the key then lasts until the page is left.
}

export function giveKey(text) {
  key = text;
  try {
    sessionStorage.setItem(KEY_NAME, key);
  } catch {
    // As above.
  }
  keyState.set("");
}

export class ReplyError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusal(reply) {
  try {
    const {error} = await reply.json();
    return new ReplyError(reply.status, error?.message ?? String(error));
  } catch {
    return new ReplyError(reply.status, `status ${reply.status}`);
  }
}

// Returns the reply, whose status is 2xx. Throws ReplyError for another one, TypeError if there is no server. Paths are
// relative, so that the page works below a proxy's path, too.
export async function send(path, {body, signal} = {}) {
  const headers = {};
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const sentKey = key;
  const reply = await fetch(path, {method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
                                   credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body)});
  if (reply.ok) return reply;
  if (reply.status === 401 && sentKey === key) keyState.set(key ? "wrong" : "wanted");
  throw await refusal(reply);
}

export const ask = async (path, options) => (await send(path, options)).json();
