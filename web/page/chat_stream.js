// Reads a streamed reply of /v1/chat/completions.

// Cuts text that arrives in pieces into the JSON of its `data:` lines.
export class EventLines {
  #rest = "";

  // Returns the parsed events that are complete now; "[DONE]" ends them.
  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    return lines.filter(line => line.startsWith("data: ") && line.trim() !== "data: [DONE]").map(line => JSON.parse(line.slice(6)));
  }
}

const grown = (before, more) => (before ?? "") + (more ?? "");

// The reply so far, with one more event. Pure.
export function withEvent(reply, event) {
  if (event.error) throw new Error(event.error.message ?? "the reply broke off");
  const next = {...reply, timings: event.timings ?? reply.timings, usage: event.usage ?? reply.usage, id: event.id ?? reply.id};
  const choice = event.choices?.[0];
  if (!choice) return next;
  const delta = choice.delta ?? {};
  next.content = grown(next.content, delta.content);
  next.reasoning = grown(next.reasoning, delta.reasoning_content);
  next.finish = choice.finish_reason ?? next.finish;
  for (const call of delta.tool_calls ?? []) {
    const calls = [...next.calls];
    const before = calls[call.index] ?? {id: "", name: "", arguments: ""};
    calls[call.index] = {id: call.id ?? before.id, name: grown(before.name, call.function?.name), arguments: grown(before.arguments, call.function?.arguments)};
    next.calls = calls;
  }
  return next;
}

export const emptyReply = () => ({content: "", reasoning: "", calls: [], timings: null, usage: null, finish: null, id: ""});

// Gives the reply so far to `show` as often as the browser draws, at most.
export async function readReply(body, show) {
  const lines = new EventLines(), reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let reply = emptyReply(), due = 0;
  for (;;) {
    const {done, value} = await reader.read();
    if (done) break;
    for (const event of lines.take(value)) reply = withEvent(reply, event);
    due ||= requestAnimationFrame(() => { due = 0; show(reply); });
  }
  cancelAnimationFrame(due);
  return reply;
}
