// Long work of the page's one thread, in slices between which the browser draws and answers.

const SLICE_MS = 5;  // with what the browser itself does, well within a frame of 16 ms

const nextTask = () => globalThis.scheduler?.yield ? scheduler.yield() : new Promise(resolve => setTimeout(resolve, 0));

// Runs a generator to its end and resolves to what it returns. `now` and `pause` are given by tests.
export async function inSlices(steps, now = () => performance.now(), pause = nextTask) {
  for (let begin = now();;) {
    const {value, done} = steps.next();
    if (done) return value;
    if (now() - begin < SLICE_MS) continue;
    await pause();
    begin = now();
  }
}
