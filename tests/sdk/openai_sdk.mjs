import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const thinker = new OpenAI({ baseURL: process.env.THINKER_URL, apiKey: 'none', maxRetries: 0 });
const { completions } = client.chat;
const user = (content) => ({ role: 'user', content });
const ask = (more = {}) => ({
  model: 'local', max_tokens: 12, temperature: 0, messages: [user('Say something.')], ...more,
});

// Random weights call nothing of their own accord: calls are required, and held to these schemas.
const tool = (name, properties, more = {}) => ({
  type: 'function',
  function: {
    name,
    description: `May ${name}.`,
    parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
    ...more,
  },
});
const look = tool('look', { where: { type: 'string', enum: ['left', 'right'] }, far: { type: 'boolean' } });
const stop = tool('stop', {});
const askTools = (more = {}) => ask({
  max_tokens: 400, temperature: 1, seed: 5, tools: [look, stop], tool_choice: 'required', parallel_tool_calls: false, ...more,
});
const checkCall = (call) => {
  assert.equal(call.type, 'function');
  assert.match(call.id, /^call_\w+$/);
  const read = JSON.parse(call.function.arguments);
  if (call.function.name === 'stop') return assert.deepEqual(read, {});
  assert.equal(call.function.name, 'look');
  assert.ok(['left', 'right'].includes(read.where) && typeof read.far === 'boolean', call.function.arguments);
  return assert.equal(Object.keys(read).length, 2);
};

const token = async (text) => {
  const { tokens } = await client.post(new URL('/tokenize', process.env.BASE_URL).href, { body: { content: text, parse_special: true } });
  assert.equal(tokens.length, 1, text);
  return tokens[0];
};

const collect = async (stream) => {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
};

// What clients break on when it is not there.
const checkChunks = (chunks, { usage = false } = {}) => {
  const finishes = [];
  chunks.forEach((chunk, place) => {
    assert.match(chunk.id, /^chatcmpl-/);
    assert.equal(chunk.id, chunks[0].id);
    assert.equal(chunk.object, 'chat.completion.chunk');
    assert.equal(chunk.model, 'local');
    assert.ok(Number.isInteger(chunk.created));
    if (usage && place === chunks.length - 1) return;
    assert.equal(chunk.usage ?? null, null);
    assert.equal(chunk.choices.length, 1);
    const [choice] = chunk.choices;
    assert.equal(choice.index, 0);
    assert.equal(finishes.length, 0, 'nothing follows the finish reason');
    if (choice.finish_reason) finishes.push(choice.finish_reason);
  });
  assert.equal(chunks[0].choices[0].delta.role, 'assistant');
  assert.equal(finishes.length, 1, 'one finish reason');
  if (usage) {
    const last = chunks.at(-1);
    assert.deepEqual(last.choices, []);
    assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens);
    assert.ok(Number.isInteger(last.usage.prompt_tokens_details.cached_tokens));
  }
  return finishes[0];
};
const joined = (chunks, field) => chunks.map((chunk) => chunk.choices[0]?.delta[field] ?? '').join('');

// Calls as the protocol has clients put them together: by index, the id and the name in the first piece.
const callsOf = (chunks) => {
  const calls = [];
  for (const piece of chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? [])) {
    assert.ok(Number.isInteger(piece.index));
    if (calls[piece.index] === undefined) {
      assert.equal(piece.index, calls.length, 'indices count up');
      assert.ok(piece.id && piece.function.name);
      assert.equal(piece.type, 'function');
      calls.push({ id: piece.id, type: piece.type, function: { name: piece.function.name, arguments: '' } });
    }
    calls[piece.index].function.arguments += piece.function.arguments ?? '';
  }
  return calls;
};

test('create', async () => {
  const { data, request_id: requestId } = await completions.create(ask()).withResponse();
  assert.equal(data.object, 'chat.completion');
  assert.match(data.id, /^chatcmpl-/);
  assert.match(requestId, /^req_/);
  assert.equal(data.choices.length, 1);
  assert.equal(data.choices[0].index, 0);
  assert.equal(data.choices[0].message.role, 'assistant');
  assert.ok(data.choices[0].message.content.length > 10);
  assert.ok(!('tool_calls' in data.choices[0].message));
  assert.equal(data.choices[0].finish_reason, 'length');
  assert.equal(data.usage.completion_tokens, 12);
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + 12);
});

test('stream: the same message, chunk by chunk', async () => {
  const whole = await completions.create(ask());
  const chunks = await collect(await completions.create(ask({ stream: true, stream_options: { include_usage: true } })));
  assert.equal(checkChunks(chunks, { usage: true }), whole.choices[0].finish_reason);
  assert.equal(joined(chunks, 'content'), whole.choices[0].message.content);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  const without = await collect(await completions.create(ask({ stream: true })));
  checkChunks(without);
  assert.equal(joined(without, 'content'), whole.choices[0].message.content);
});

test('stream: ends with [DONE]', async () => {
  const response = await completions.create(ask({ stream: true })).asResponse();
  assert.match(response.headers.get('content-type'), /^text\/event-stream/);
  assert.ok((await response.text()).endsWith('data: [DONE]\n\n'));
});

test('stream helper', async () => {
  const whole = await completions.create(ask());
  let text = '';
  const stream = completions.stream(ask({ stream_options: { include_usage: true } }))
    .on('content', (piece) => { text += piece; });
  const final = await stream.finalChatCompletion();
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(await stream.finalContent(), text);
  assert.equal(final.choices[0].finish_reason, 'length');
  assert.deepEqual(await stream.totalUsage(), { ...whole.usage, prompt_tokens_details: final.usage.prompt_tokens_details });
});

test('stop', async () => {
  const whole = (await completions.create(ask())).choices[0].message.content;
  const stopText = whole.slice(Math.floor(whole.length / 2)).slice(0, 2);
  const cut = await completions.create(ask({ stop: [stopText] }));
  assert.equal(cut.choices[0].finish_reason, 'stop');
  assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stopText)));
});

test('what the API has and means nothing here', async () => {
  const reply = await completions.create(ask({
    messages: [{ role: 'developer', content: 'Be brief.' }, user([{ type: 'text', text: 'Hello' }])],
    store: false, metadata: { a: 'b' }, user: 'somebody', service_tier: 'auto', n: 1, logprobs: false,
    prompt_cache_key: 'a', safety_identifier: 'b', verbosity: 'low', max_tokens: undefined, max_completion_tokens: 3,
  }));
  assert.equal(reply.usage.completion_tokens, 3);
});

test('cached tokens over two turns', async () => {
  const messages = [{ role: 'system', content: 'Be brief. '.repeat(60) }, user('Begin.')];
  const first = await completions.create(ask({ messages }));
  const next = [...messages, first.choices[0].message, user('Go on.')];
  const second = await completions.create(ask({ messages: next }));
  const known = first.usage.prompt_tokens + first.usage.completion_tokens - 1;
  const cached = second.usage.prompt_tokens_details.cached_tokens;
  assert.ok(cached >= known, `${cached} of ${known}`);
  assert.ok(cached < second.usage.prompt_tokens);
  const chunks = await collect(await completions.create(
    ask({ messages: next, stream: true, stream_options: { include_usage: true } })));
  assert.equal(chunks.at(-1).usage.prompt_tokens_details.cached_tokens, second.usage.prompt_tokens - 1);
});

test('tools: required', async () => {
  for (let seed = 0; seed < 4; seed += 1) {
    const reply = await completions.create(askTools({ seed }));
    const [choice] = reply.choices;
    assert.equal(choice.finish_reason, 'tool_calls');
    assert.equal(choice.message.content, null);
    assert.equal(choice.message.tool_calls.length, 1);
    checkCall(choice.message.tool_calls[0]);
  }
});

test('tools: by name, whole and streamed', async () => {
  const named = askTools({ tool_choice: { type: 'function', function: { name: 'look' } } });
  const chunks = await collect(await completions.create({ ...named, stream: true }));
  assert.equal(checkChunks(chunks), 'tool_calls');
  const helped = await completions.stream(named).finalMessage();
  const whole = (await completions.create(named)).choices[0].message;
  for (const calls of [callsOf(chunks), helped.tool_calls, whole.tool_calls]) {
    assert.deepEqual(calls.map((call) => call.function.name), ['look']);
    checkCall(calls[0]);
  }
});

test('tools: several calls at once', async () => {
  // How many calls a reply has is chance: seeds until one has several.
  for (let seed = 0; seed < 40; seed += 1) {
    const chunks = await collect(await completions.create(
      askTools({ parallel_tool_calls: true, seed, max_tokens: 700, stream: true })));
    const finish = checkChunks(chunks);
    const calls = callsOf(chunks);
    calls.forEach(checkCall);
    assert.equal(new Set(calls.map((call) => call.id)).size, calls.length);
    if (finish !== 'tool_calls' || calls.length < 2) continue;
    const whole = (await completions.create(askTools({ parallel_tool_calls: true, seed, max_tokens: 700 }))).choices[0];
    whole.message.tool_calls.forEach(checkCall);
    return;
  }
  assert.fail('no reply with several calls');
});

test('tools: a conversation goes on behind the results', async () => {
  for (const parallel of [false, true]) {
    const first = await completions.create(askTools({ parallel_tool_calls: parallel, max_tokens: 700 }));
    const calls = first.choices[0].message.tool_calls;
    const results = calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: [{ type: 'text', text: 'A tree.' }] }));
    const messages = [...askTools().messages, first.choices[0].message, ...results];
    const second = await completions.create(askTools({ messages, tool_choice: 'auto', max_tokens: 4 }));
    const known = first.usage.prompt_tokens + first.usage.completion_tokens;
    const cached = second.usage.prompt_tokens_details.cached_tokens;
    assert.ok(cached >= known - 16, `${cached} of ${known}`);
    assert.equal(second.choices[0].finish_reason, 'length');
  }
});

test('tools: the SDK runs them', async () => {
  const seen = [];
  const function_ = {
    name: 'look', description: 'Looks.', parameters: look.function.parameters, parse: JSON.parse,
    function: (input) => { seen.push(input); return 'A tree.'; },
  };
  const runner = completions.runTools(askTools({
    tools: [{ type: 'function', function: function_ }], tool_choice: { type: 'function', function: { name: 'look' } },
  }));
  const results = [];
  runner.on('functionToolCallResult', (result) => results.push(result));
  await runner.done();
  assert.equal(seen.length, 1);
  assert.deepEqual(results, ['A tree.']);
});

test('tools: strict, parsed by the SDK', async () => {
  const choose = zodFunction({ name: 'choose', parameters: z.object({ colour: z.enum(['red', 'blue']), count: z.number().int() }) });
  const reply = await completions.parse(askTools({ tools: [choose] }));
  const parsed = reply.choices[0].message.tool_calls[0].function.parsed_arguments;
  assert.ok(['red', 'blue'].includes(parsed.colour) && Number.isInteger(parsed.count));
});

const Report = z.object({
  mood: z.enum(['good', 'bad']), tags: z.array(z.enum(['a', 'b'])).max(3), nested: z.object({ yes: z.boolean() }), note: z.null(),
});
const askReport = (more = {}) => ask({
  max_tokens: 400, temperature: 1, seed: 1, response_format: zodResponseFormat(Report, 'report'), ...more,
});

test('structured output: parsed by the SDK, whole and streamed', async () => {
  const reply = await completions.parse(askReport());
  assert.equal(reply.choices[0].finish_reason, 'stop');
  Report.parse(reply.choices[0].message.parsed);
  const final = await completions.stream(askReport()).finalChatCompletion();
  assert.deepEqual(final.choices[0].message.parsed, reply.choices[0].message.parsed);
});

test('structured output: any object, and what the length cuts off', async () => {
  const reply = await completions.create(ask({ response_format: { type: 'json_object' }, max_tokens: 600, temperature: 1, seed: 2 }));
  if (reply.choices[0].finish_reason === 'stop') JSON.parse(reply.choices[0].message.content);
  assert.match(reply.choices[0].message.content, /^\s*\{/);
  await assert.rejects(completions.parse(askReport({ max_tokens: 2 })), OpenAI.LengthFinishReasonError);
});

// Made to write nothing but tags: a thought that begins and, after some tries, ends, and then text or a call.
const thinking = async (more, closing = 99) => {
  const bias = { [await token('<think>')]: 100, [await token('</think>')]: closing };
  return ask({ temperature: 1, max_tokens: 60, logit_bias: bias, ...more });
};

test('thoughts, whole, streamed and sent back', async () => {
  const tags = /^(<\/?think>)+$/;
  for (let seed = 0; seed < 40; seed += 1) {
    const body = await thinking({ seed });
    const whole = await thinker.chat.completions.create(body);
    const { message } = whole.choices[0];
    if (!message.reasoning_content || !message.content) continue;
    assert.match(message.reasoning_content, tags);
    assert.match(message.content, tags);
    const { completion_tokens: all, completion_tokens_details: { reasoning_tokens: thought } } = whole.usage;
    assert.ok(thought > 0 && thought < all, `${thought} of ${all}`);
    const chunks = await collect(await thinker.chat.completions.create({ ...body, stream: true }));
    checkChunks(chunks);
    const kinds = chunks.map(({ choices: [{ delta }] }) => (delta.reasoning_content ? 't' : delta.content ? 'c' : '')).join('');
    assert.match(kinds, /^t+c+$/);
    assert.match(joined(chunks, 'reasoning_content'), tags);
    const next = { messages: [...body.messages, message, user('And?')] };
    const second = await thinker.chat.completions.create({ ...body, ...next });
    assert.ok(second.usage.prompt_tokens_details.cached_tokens >= whole.usage.prompt_tokens - 1);
    return;
  }
  assert.fail('no thought that ended');
});

// Under a call's grammar tags are no text, so that a thought needs some other tokens before it may end.
test('thoughts before a call', async () => {
  for (let seed = 0; seed < 40; seed += 1) {
    const more = { seed, tools: [look], tool_choice: 'required', parallel_tool_calls: false, max_tokens: 400 };
    const body = await thinking(more, 10);
    const { message } = (await thinker.chat.completions.create(body)).choices[0];
    if (!message.reasoning_content || !message.tool_calls) continue;
    checkCall(message.tool_calls[0]);
    const result = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'A tree.' };
    const next = await thinker.chat.completions.create({ ...body, messages: [...body.messages, message, result], tool_choice: 'none' });
    assert.ok(!next.choices[0].message.tool_calls);
    return;
  }
  assert.fail('no call behind a thought');
});

const fails = (call, kind, status, type, message = /./) => assert.rejects(call, (error) => {
  assert.ok(error instanceof kind, `${error}`);
  assert.equal(error.status, status);
  assert.equal(error.type, type);
  assert.equal(error.code, status);
  assert.match(error.requestID, /^req_/);
  assert.match(error.message, message);
  return true;
});

test('errors', async () => {
  const bad = (more, message) => fails(completions.create(ask(more)), OpenAI.BadRequestError, 400, 'invalid_request_error', message);
  await bad({ messages: [] }, /messages/);
  await bad({ temperature: 'warm' }, /temperature/);
  await bad({ tool_choice: 'required' }, /tools/);
  await bad({ n: 1000 }, /'n'/);
  await bad({ max_tokens: 1.5, stream: true }, /max_tokens/);
  await bad({ response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { not: {} } } } }, /not/);
  const long = ask({ messages: [user('word '.repeat(4000))] });
  for (const stream of [false, true]) {
    await fails(completions.create({ ...long, stream }), OpenAI.BadRequestError, 400, 'exceed_context_size_error', /context size/);
  }
  await fails(completions.create(ask({ messages: [user('x'.repeat(1_200_000))] })), OpenAI.APIError, 413, 'invalid_request_error');
  await fails(completions.create(ask({ model: 'another' })), OpenAI.NotFoundError, 404, 'not_found_error', /another/);
  await fails(client.get('/nothing'), OpenAI.NotFoundError, 404, 'not_found_error');
  const stranger = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'wrong', maxRetries: 0 });
  await fails(stranger.chat.completions.create(ask()), OpenAI.AuthenticationError, 401, 'authentication_error');
});

test('models', async () => {
  const models = await collect(client.models.list());
  assert.deepEqual(models.map((model) => [model.id, model.object]), [['local', 'model']]);
  assert.equal((await client.models.retrieve('local')).id, 'local');
});

test('embeddings', async () => {
  const ask_for = (more) => client.embeddings.create({ model: 'local', input: ['first text', 'second text'], ...more });
  const { data, usage, object } = await ask_for();  // the library asks for base64 and decodes it
  assert.equal(object, 'list');
  assert.deepEqual(data.map((one) => [one.object, one.index, one.embedding.length]), [['embedding', 0, 128], ['embedding', 1, 128]]);
  assert.ok(usage.prompt_tokens >= 4 && usage.total_tokens === usage.prompt_tokens);
  const plain = (await ask_for({ encoding_format: 'float' })).data;
  plain[1].embedding.forEach((value, i) => assert.ok(Math.abs(value - data[1].embedding[i]) < 1e-6));
  assert.equal((await ask_for({ dimensions: 8, input: 'one' })).data[0].embedding.length, 8);
  assert.equal((await ask_for({ input: [[1, 2], [3]] })).data.length, 2);
  await fails(ask_for({ dimensions: 1000 }), OpenAI.BadRequestError, 400, 'invalid_request_error', /dimensions/);
  await fails(ask_for({ input: [''] }), OpenAI.BadRequestError, 400, 'invalid_request_error', /empty/);
  await fails(ask_for({ model: 'another' }), OpenAI.NotFoundError, 404, 'not_found_error', /another/);
});

test('completions, the older API', async () => {
  const whole = await client.completions.create({ model: 'local', prompt: 'Once', max_tokens: 5, temperature: 0 });
  const chunks = await collect(await client.completions.create(
    { model: 'local', prompt: 'Once', max_tokens: 5, temperature: 0, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0].text);
  assert.equal(whole.choices[0].finish_reason, 'length');
});

test('several replies, whole and streamed', async () => {
  const body = ask({ n: 3, temperature: 1, seed: 4 });
  const whole = await completions.create(body);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.equal(whole.usage.completion_tokens, 36);
  assert.equal(new Set(whole.choices.map((choice) => choice.message.content)).size, 3);
  const texts = ['', '', ''];
  for (const chunk of await collect(await completions.create({ ...body, stream: true }))) {
    for (const { index, delta } of chunk.choices) texts[index] += delta.content ?? '';
  }
  assert.deepEqual(texts, whole.choices.map((choice) => choice.message.content));
});

test('probabilities of tokens', async () => {
  const { choices: [{ logprobs, message }] } = await completions.create(ask({ logprobs: true, top_logprobs: 4 }));
  assert.equal(logprobs.content.length, 12);
  assert.equal(Buffer.concat(logprobs.content.map(({ bytes }) => Buffer.from(bytes))).toString(), message.content);
  for (const { token: likeliest, logprob, top_logprobs: top } of logprobs.content) {
    assert.equal(top.length, 4);
    assert.deepEqual([top[0].token, top[0].logprob], [likeliest, logprob]);  // at temperature 0
  }
  await fails(completions.create(ask({ top_logprobs: 4 })), OpenAI.BadRequestError, 400, 'invalid_request_error', /logprobs/);
});

test('completions, the older API: prompts, replies, echo and scores', async () => {
  const old = (more) => client.completions.create({ model: 'local', max_tokens: 4, temperature: 0, ...more });
  const both = await old({ prompt: ['Once', 'Twice'], n: 2 });
  assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  assert.equal(both.choices[2].text, (await old({ prompt: 'Twice' })).choices[0].text);
  const { choices: [echoed] } = await old({ prompt: 'Once upon', echo: true, logprobs: 2 });
  assert.ok(echoed.text.startsWith('Once upon'));
  assert.equal(echoed.logprobs.tokens.join(''), echoed.text);
  assert.equal(echoed.logprobs.token_logprobs[0], null);
  echoed.logprobs.text_offset.forEach((offset, i) => assert.ok(echoed.text.slice(offset).startsWith(echoed.logprobs.tokens[i])));
});

test('abort', async () => {
  const endless = ask({ max_tokens: 1500, messages: [user('Go on.')] });
  const stream = await completions.create({ ...endless, stream: true });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) break;
  stream.controller.abort();
  const helper = completions.stream(endless);
  await new Promise((resolve) => { helper.once('content', resolve); });
  helper.abort();
  await assert.rejects(helper.done(), OpenAI.APIUserAbortError);
  const controller = new AbortController();
  const whole = completions.create(endless, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.equal((await completions.create(ask())).object, 'chat.completion');
});
