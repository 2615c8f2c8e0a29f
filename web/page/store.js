// A value that components follow.

import {useEffect, useState} from "preact/hooks";

export class Store {
  #value;
  #followers = new Set();

  constructor(value) { this.#value = value; }
  get value() { return this.#value; }
  set(value) {
    this.#value = value;
    for (const follower of [...this.#followers]) follower(value);
  }
  update(change) { this.set(change(this.#value)); }
  // Returns a function that ends it.
  follow(follower) {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

export function useStore(store) {
  const [, draw] = useState(0);
  useEffect(() => store.follow(() => draw(count => count + 1)), [store]);
  return store.value;
}
