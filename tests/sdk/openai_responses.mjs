import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const thinker = new OpenAI({ baseURL: process.env.THINKER_URL, apiKey: 'none', maxRetries: 0 });
const { responses } = client;
const user = (content) => ({ role: 'user', content });
const ask = (more = {}) => ({
  model: 'local', store: false, max_output_tokens: 12, temperature: 0, input: 'Say something.', ...more,
});

// Random weights call nothing of their own accord: calls are required, and held to these schemas.
const tool = (name, properties, more = {}) => ({
  type: 'function',
  name,
  description: `May ${name}.`,
  parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
  strict: false,
  ...more,
});
const look = tool('look', { where: { type: 'string', enum: ['left', 'right'] }, far: { type: 'boolean' } });
const stop = tool('stop', {});
const askTools = (more = {}) => ask({
  max_output_tokens: 400, temperature: 1, seed: 5, tools: [look, stop], tool_choice: 'required', parallel_tool_calls: false,
  ...more,
});
const checkCall = (call) => {
  assert.equal(call.type, 'function_call');
  assert.equal(call.status, 'completed');
  assert.match(call.call_id, /^call_\w+$/);
  assert.ok(call.id);
  const read = JSON.parse(call.arguments);
  if (call.name === 'stop') return assert.deepEqual(read, {});
  assert.equal(call.name, 'look');
  return assert.ok(['left', 'right'].includes(read.where) && typeof read.far === 'boolean', call.arguments);
};
const callsOf = (response) => response.output.filter((item) => item.type === 'function_call');

const token = async (text) => {
  const { tokens } = await client.post(new URL('/tokenize', process.env.BASE_URL).href, { body: { content: text, parse_special: true } });
  assert.equal(tokens.length, 1, text);
  return tokens[0];
};

const collect = async (stream) => {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
};

// What clients put replies together from: numbered events, items that are opened, filled and closed, and the whole at last.
const checkEvents = (events) => {
  assert.deepEqual(events.slice(0, 2).map((event) => event.type), ['response.created', 'response.in_progress']);
  events.forEach((event, place) => assert.equal(event.sequence_number, place));
  const { response } = events.at(-1);
  assert.ok(['response.completed', 'response.incomplete'].includes(events.at(-1).type));
  assert.equal(response.id, events[0].response.id);
  const items = [];
  const pieces = new Map();
  for (const event of events) {
    const at = event.output_index;
    if (event.type === 'response.output_item.added') {
      assert.equal(at, items.length, 'indices count up');
      assert.ok(event.item.id && event.item.type);
      items.push({ id: event.item.id });
    } else if (event.type.endsWith('.delta')) {
      assert.equal(event.item_id, items[at].id);
      pieces.set(at, (pieces.get(at) ?? '') + event.delta);
    } else if (event.type === 'response.output_item.done') {
      assert.equal(event.item.id, items[at].id);
      items[at].done = event.item;
    }
  }
  assert.deepEqual(items.map((item) => item.done), response.output);
  response.output.forEach((item, at) => {
    const whole = item.arguments ?? (item.content?.[0] ?? item.summary?.[0]).text;
    assert.equal(pieces.get(at) ?? '', whole);
  });
  return response;
};

test('create', async () => {
  const { data, request_id: requestId } = await responses.create(ask()).withResponse();
  assert.equal(data.object, 'response');
  assert.match(data.id, /^resp_/);
  assert.match(requestId, /^req_/);
  assert.equal(data.status, 'incomplete');
  assert.equal(data.incomplete_details.reason, 'max_output_tokens');
  assert.equal(data.error, null);
  assert.equal(data.output[0].role, 'assistant');
  assert.ok(data.output_text.length > 10);
  assert.equal(data.usage.output_tokens, 12);
  assert.equal(data.usage.total_tokens, data.usage.input_tokens + 12);
});

test('stream: the same response, event by event', async () => {
  const whole = await responses.create(ask());
  const streamed = checkEvents(await collect(await responses.create(ask({ stream: true }))));
  assert.equal(streamed.output[0].content[0].text, whole.output_text);
  assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
  let text = '';
  const helper = responses.stream(ask()).on('response.output_text.delta', (event) => { text += event.delta; });
  const final = await helper.finalResponse();
  assert.equal(text, whole.output_text);
  assert.equal(final.output_text, whole.output_text);
});

test('cached tokens over two turns', async () => {
  const input = [user([{ type: 'input_text', text: 'Begin.' }])];
  const more = { instructions: 'Be brief. '.repeat(60), prompt_cache_key: 'a', truncation: 'auto' };
  const first = await responses.create(ask({ input, ...more }));
  const next = [...input, ...first.output, user('Go on.')];
  const second = await responses.create(ask({ input: next, ...more }));
  const known = first.usage.input_tokens + first.usage.output_tokens - 1;
  const cached = second.usage.input_tokens_details.cached_tokens;
  assert.ok(cached >= known, `${cached} of ${known}`);
  assert.ok(cached < second.usage.input_tokens);
});

test('tools: required, whole and streamed', async () => {
  for (let seed = 0; seed < 4; seed += 1) {
    const response = await responses.create(askTools({ seed }));
    assert.equal(response.status, 'completed');
    assert.equal(response.output.length, 1);
    checkCall(response.output[0]);
    const streamed = checkEvents(await collect(await responses.create(askTools({ seed, stream: true }))));
    assert.equal(streamed.output.length, 1);
    checkCall(streamed.output[0]);
  }
});

test('tools: by name; several at once', async () => {
  const named = await responses.create(askTools({ tool_choice: { type: 'function', name: 'look' } }));
  assert.deepEqual(callsOf(named).map((call) => call.name), ['look']);
  // How many calls a reply has is chance: seeds until one has several.
  for (let seed = 0; seed < 40; seed += 1) {
    const events = await collect(await responses.create(
      askTools({ parallel_tool_calls: true, seed, max_output_tokens: 700, stream: true })));
    const calls = callsOf(checkEvents(events));
    if (calls.length < 2 || events.at(-1).type !== 'response.completed') continue;
    calls.forEach(checkCall);
    assert.equal(new Set(calls.map((call) => call.call_id)).size, calls.length);
    return;
  }
  assert.fail('no reply with several calls');
});

test('tools: a conversation goes on behind the results', async () => {
  const input = [user('Look around.')];
  const tools = [look, stop, { type: 'web_search' }, { type: 'namespace', name: 'far', tools: [tool('reach', {})] }];
  const first = await responses.create(askTools({ input, tools, parallel_tool_calls: true, max_output_tokens: 700 }));
  const results = callsOf(first).map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: 'A tree.' }));
  assert.ok(results.length >= 1);
  const second = await responses.create(askTools({
    input: [...input, ...first.output, ...results], tools, tool_choice: 'auto', max_output_tokens: 4 }));
  const known = first.usage.input_tokens + first.usage.output_tokens;
  const cached = second.usage.input_tokens_details.cached_tokens;
  assert.ok(cached >= known - 16, `${cached} of ${known}`);
});

test('tools: strict, parsed by the SDK', async () => {
  const parameters = z.object({ colour: z.enum(['red', 'blue']), count: z.number().int() });
  const choose = zodResponsesFunction({ name: 'choose', parameters });
  const response = await responses.parse(askTools({ tools: [choose] }));
  parameters.parse(response.output[0].parsed_arguments);
});

test('structured output, parsed by the SDK', async () => {
  const Report = z.object({ mood: z.enum(['good', 'bad']), tags: z.array(z.enum(['a', 'b'])).max(3), yes: z.boolean() });
  const asked = ask({ max_output_tokens: 400, temperature: 1, seed: 1, text: { format: zodTextFormat(Report, 'report') } });
  const response = await responses.parse(asked);
  assert.equal(response.status, 'completed');
  Report.parse(response.output_parsed);
  const streamed = await responses.stream(asked).finalResponse();
  Report.parse(streamed.output_parsed);
});

test('thoughts, streamed and sent back', async () => {
  // Made to write nothing but tags: a thought that begins and, after some tries, ends, and then text.
  const bias = { [await token('<think>')]: 100, [await token('</think>')]: 99 };
  for (let seed = 0; seed < 40; seed += 1) {
    const input = [user('Hm?')];
    const asked = ask({ input, temperature: 1, max_output_tokens: 60, logit_bias: bias, seed, include: ['reasoning.encrypted_content'] });
    const first = checkEvents(await collect(await thinker.responses.create({ ...asked, stream: true })));
    const kinds = first.output.map((item) => item.type);
    if (kinds.join() !== 'reasoning,message') continue;
    assert.match(first.output[0].summary[0].text, /^(<\/?think>)+$/);
    assert.ok(first.output[0].encrypted_content);
    assert.ok(first.usage.output_tokens_details.reasoning_tokens > 0);
    const second = await thinker.responses.create({ ...asked, input: [...input, ...first.output, user('And?')] });
    assert.ok(second.usage.input_tokens_details.cached_tokens >= first.usage.input_tokens - 1);
    return;
  }
  assert.fail('no thought that ended');
});

test('counting tokens', async () => {
  const { input, model, tools } = askTools();
  const { input_tokens: count } = await responses.inputTokens.count({ input, model, tools });
  assert.equal((await responses.create(askTools())).usage.input_tokens, count);
});

const fails = (call, kind, status, type, { message = /./, code, param } = {}) => assert.rejects(call, (error) => {
  assert.ok(error instanceof kind, `${error}`);
  assert.equal(error.status, status);
  assert.equal(error.type, type);
  if (code) assert.equal(error.code, code);
  if (param) assert.equal(error.param, param);
  assert.match(error.requestID, /^req_/);
  assert.match(error.message, message);
  return true;
});

test('errors', async () => {
  const bad = (more, which) => fails(responses.create(ask(more)), OpenAI.BadRequestError, 400, 'invalid_request_error', which);
  await bad({ input: 3 }, { param: 'input' });
  await bad({ temperature: 'warm' }, { param: 'temperature' });
  await bad({ previous_response_id: 'resp_1' }, { message: /previous_response_id/ });
  await bad({ input: [{ type: 'item_reference', id: 'msg_1' }] }, { message: /nothing is stored/ });
  await bad({ input: 'word '.repeat(4000) }, { code: 'context_length_exceeded', message: /context/ });
  await fails(responses.create(ask({ model: 'another' })), OpenAI.NotFoundError, 404, 'invalid_request_error', { message: /another/ });
  await fails(responses.retrieve('resp_1'), OpenAI.NotFoundError, 404, 'invalid_request_error');
  const stranger = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'wrong', maxRetries: 0 });
  await fails(stranger.responses.create(ask()), OpenAI.AuthenticationError, 401, 'authentication_error');
  await assert.rejects(responses.stream(ask({ input: 'word '.repeat(4000) })).finalResponse(), /context/);
});

test('abort', async () => {
  const endless = ask({ max_output_tokens: 1500, input: 'Go on.' });
  const stream = await responses.create({ ...endless, stream: true });
  for await (const event of stream) if (event.type === 'response.output_text.delta') break;
  stream.controller.abort();
  const controller = new AbortController();
  const whole = responses.create(endless, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  assert.equal((await responses.create(ask())).object, 'response');
});
