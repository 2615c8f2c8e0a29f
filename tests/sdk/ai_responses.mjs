import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { APICallError, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const provider = (more = {}) => createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, ...more });
const ask = (more = {}) => ({
  model: provider()('local'), maxRetries: 0, maxOutputTokens: 12, temperature: 0,
  providerOptions: { openai: { store: false } }, ...(more.messages ? {} : { prompt: 'Say something.' }), ...more,
});
const collect = async (parts) => {
  const all = [];
  for await (const part of parts) all.push(part);
  return all;
};

// Random weights call nothing of their own accord: the first steps must call, the one behind them may not.
const tools = {
  look: tool({
    description: 'Looks.',
    inputSchema: z.object({ where: z.enum(['left', 'right']), far: z.boolean() }).strict(),
    execute: async () => ({ seen: 'a tree' }),
  }),
};
const loop = ask({
  tools, temperature: 1, maxOutputTokens: 500, stopWhen: stepCountIs(3),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'required' : 'none' }),
});
const checkSteps = (steps) => {
  assert.equal(steps.length, 3);
  for (const step of steps.slice(0, 2)) {
    assert.equal(step.finishReason, 'tool-calls');
    assert.ok(step.toolCalls.length >= 1);
    assert.equal(step.toolResults.length, step.toolCalls.length);
    for (const call of step.toolCalls) tools.look.inputSchema.parse(call.input);
  }
  assert.equal(steps[2].toolCalls.length, 0);
  for (const [before, step] of [[steps[0], steps[1]], [steps[1], steps[2]]]) {
    const known = before.usage.inputTokens + before.usage.outputTokens;
    const cached = step.usage.inputTokenDetails.cacheReadTokens;
    assert.ok(cached >= known - 16, `${cached} of ${known}`);
  }
};

test('generateText and streamText', async () => {
  const whole = await generateText(ask());
  assert.equal(whole.finishReason, 'length');
  assert.equal(whole.usage.outputTokens, 12);
  const stream = streamText(ask());
  const parts = await collect(stream.fullStream);
  assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
  assert.equal(await stream.text, whole.text);
  assert.equal(await stream.finishReason, 'length');
});

test('cached tokens over two turns', async () => {
  const messages = [{ role: 'user', content: `${'Be brief. '.repeat(60)}Begin.` }];
  const first = await generateText(ask({ messages }));
  const next = [...messages, ...first.response.messages, { role: 'user', content: 'Go on.' }];
  const second = await generateText(ask({ messages: next }));
  const known = first.usage.inputTokens + first.usage.outputTokens - 1;
  const cached = second.usage.inputTokenDetails.cacheReadTokens;
  assert.ok(cached >= known, `${cached} of ${known}`);
});

test('tools: a loop of several steps', async () => checkSteps((await generateText(loop)).steps));

test('tools: the same loop, streamed', async () => {
  const stream = streamText(loop);
  const parts = await collect(stream.fullStream);
  assert.deepEqual(parts.filter((part) => part.type === 'error' || part.type === 'tool-error'), []);
  checkSteps(await stream.steps);
});

test('structured output', async () => {
  const schema = z.object({ mood: z.enum(['good', 'bad']), yes: z.boolean() });
  const asked = ask({ maxOutputTokens: 400, temperature: 1, output: Output.object({ schema }) });
  schema.parse((await generateText(asked)).output);
  schema.parse(await streamText(asked).output);
});

test('errors', async () => {
  const fails = (call, status, message) => assert.rejects(call, (error) => {
    assert.ok(APICallError.isInstance(error), `${error}`);
    assert.equal(error.statusCode, status);
    assert.match(error.message, message);
    return true;
  });
  await fails(generateText(ask({ model: provider()('another') })), 404, /another/);
  await fails(generateText(ask({ model: provider({ apiKey: 'wrong' })('local') })), 401, /key/i);
  await fails(generateText(ask({ prompt: 'word '.repeat(4000) })), 400, /context/);
  const parts = await collect(streamText({ ...ask({ prompt: 'word '.repeat(4000) }), onError() {} }).fullStream);
  assert.match(`${parts.find((part) => part.type === 'error').error.message}`, /context/);
});

test('abort', async () => {
  const controller = new AbortController();
  const stream = streamText({ ...ask({ prompt: 'Go on.', maxOutputTokens: 1500, abortSignal: controller.signal }), onError() {} });
  const kinds = [];
  for await (const part of stream.fullStream) {
    kinds.push(part.type);
    if (part.type === 'text-delta') controller.abort();
  }
  assert.ok(kinds.includes('abort'), kinds.join());
  assert.ok((await generateText(ask())).text);
});
