import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateObject, generateText, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const provider = (more = {}) => createOpenAICompatible({
  name: 'kvkeep', baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, includeUsage: true,
  supportsStructuredOutputs: true, ...more,
});
const model = provider()('local');
const thinker = provider({ baseURL: process.env.THINKER_URL })('local');
const ask = (more = {}) => ({
  model, maxRetries: 0, maxOutputTokens: 12, temperature: 0, ...(more.messages ? {} : { prompt: 'Say something.' }), ...more,
});
const extra = (fields) => ({ providerOptions: { kvkeep: fields } });
const quiet = { onError() {} };

const token = async (text) => {
  const response = await fetch(new URL('/tokenize', process.env.BASE_URL), {
    method: 'POST', headers: { authorization: `Bearer ${process.env.API_KEY}` },
    body: JSON.stringify({ content: text, parse_special: true }),
  });
  const { tokens } = await response.json();
  assert.equal(tokens.length, 1, text);
  return tokens[0];
};
const collect = async (parts) => {
  const all = [];
  for await (const part of parts) all.push(part);
  return all;
};

// Random weights call nothing of their own accord: the first step must call, the ones behind it may not.
const looked = [];
const tools = {
  look: tool({
    description: 'Looks.',
    inputSchema: z.object({ where: z.enum(['left', 'right']), far: z.boolean() }).strict(),
    execute: async (input) => { looked.push(input); return { seen: 'a tree' }; },
  }),
};
const loop = ask({
  tools, temperature: 1, maxOutputTokens: 500, stopWhen: stepCountIs(3),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber < 2 ? 'required' : 'none' }),
});

test('generateText', async () => {
  const result = await generateText(ask());
  assert.ok(result.text.length > 10);
  assert.equal(result.finishReason, 'length');
  assert.equal(result.usage.outputTokens, 12);
  assert.deepEqual(result.warnings ?? [], []);
});

test('streamText: the same text, part by part', async () => {
  const whole = await generateText(ask());
  const stream = streamText(ask());
  const parts = await collect(stream.fullStream);
  assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
  assert.equal(await stream.text, whole.text);
  assert.equal(await stream.finishReason, 'length');
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
});

test('cached tokens over two turns', async () => {
  const messages = [{ role: 'user', content: `${'Be brief. '.repeat(60)}Begin.` }];
  const first = await generateText(ask({ messages }));
  const next = [...messages, ...first.response.messages, { role: 'user', content: 'Go on.' }];
  const second = await generateText(ask({ messages: next }));
  const known = first.usage.inputTokens + first.usage.outputTokens - 1;
  const cached = second.usage.inputTokenDetails.cacheReadTokens;
  assert.ok(cached >= known, `${cached} of ${known}`);
  const stream = streamText(ask({ messages: next }));
  await stream.consumeStream();
  assert.equal((await stream.usage).inputTokenDetails.cacheReadTokens, second.usage.inputTokens - 1);
});

const checkSteps = (steps) => {
  assert.equal(steps.length, 3);
  for (const step of steps.slice(0, 2)) {
    assert.equal(step.finishReason, 'tool-calls');
    assert.ok(step.toolCalls.length >= 1);
    assert.equal(step.toolResults.length, step.toolCalls.length);
    for (const call of step.toolCalls) {
      assert.equal(call.toolName, 'look');
      assert.ok(!call.invalid);
      tools.look.inputSchema.parse(call.input);
    }
  }
  assert.ok(['length', 'stop'].includes(steps[2].finishReason));
  assert.equal(steps[2].toolCalls.length, 0);
  for (const [before, step] of [[steps[0], steps[1]], [steps[1], steps[2]]]) {
    // Arguments come back as the SDK writes them; what was sampled is known all the same.
    const known = before.usage.inputTokens + before.usage.outputTokens;
    const cached = step.usage.inputTokenDetails.cacheReadTokens;
    assert.ok(cached >= known - 16, `${cached} of ${known}`);
  }
};

test('tools: a loop of several steps', async () => {
  looked.length = 0;
  const { steps } = await generateText(loop);
  checkSteps(steps);
  assert.equal(looked.length, steps[0].toolCalls.length + steps[1].toolCalls.length);
});

test('tools: the same loop, streamed', async () => {
  looked.length = 0;
  const stream = streamText(loop);
  const parts = await collect(stream.fullStream);
  assert.deepEqual(parts.filter((part) => part.type === 'error' || part.type === 'tool-error'), []);
  const steps = await stream.steps;
  checkSteps(steps);
  assert.equal(parts.filter((part) => part.type === 'tool-input-start').length, looked.length);
});

test('tools: by name, strict', async () => {
  const { toolCalls } = await generateText(ask({
    tools: { ...tools, stop: tool({ inputSchema: z.object({}).strict(), strict: true }) },
    toolChoice: { type: 'tool', toolName: 'stop' }, maxOutputTokens: 200,
  }));
  assert.deepEqual(toolCalls.map((call) => [call.toolName, call.input]), [['stop', {}]]);
});

const Report = z.object({ mood: z.enum(['good', 'bad']), tags: z.array(z.enum(['a', 'b'])).max(3), yes: z.boolean() });

test('structured output', async () => {
  const asked = ask({ maxOutputTokens: 400, temperature: 1, seed: 3 });
  Report.parse((await generateObject({ ...asked, schema: Report })).object);
  const { output } = await generateText({ ...asked, output: Output.object({ schema: Report }) });
  Report.parse(output);
  const stream = streamText({ ...asked, output: Output.object({ schema: Report }) });
  const partial = await collect(stream.partialOutputStream);
  Report.parse(partial.at(-1));
  assert.deepEqual(await stream.output, partial.at(-1));
  const choice = await generateText({ ...asked, output: Output.choice({ options: ['one', 'two'] }) });
  assert.ok(['one', 'two'].includes(choice.output));
});

test('thoughts, sent back with the turn', async () => {
  const bias = { [await token('<think>')]: 100, [await token('</think>')]: 99 };
  for (let seed = 0; seed < 40; seed += 1) {
    const asked = { ...ask({ model: thinker, temperature: 1, seed, maxOutputTokens: 60 }), ...extra({ logit_bias: bias }) };
    const first = await generateText(asked);
    if (!first.reasoningText || !first.text) continue;
    assert.match(first.reasoningText, /^(<\/?think>)+$/);
    const { reasoningTokens, textTokens } = first.usage.outputTokenDetails;
    assert.ok(reasoningTokens > 0 && textTokens > 0, `${reasoningTokens} and ${textTokens}`);
    const { prompt, ...rest } = asked;
    const messages = [{ role: 'user', content: prompt }, ...first.response.messages, { role: 'user', content: 'And?' }];
    const stream = streamText({ ...rest, messages });
    const parts = await collect(stream.fullStream);
    assert.deepEqual(parts.filter((part) => part.type === 'error'), []);
    assert.ok((await stream.usage).inputTokenDetails.cacheReadTokens >= first.usage.inputTokens - 1);
    return;
  }
  assert.fail('no thought that ended');
});

test('errors', async () => {
  const fails = (call, status, message) => assert.rejects(call, (error) => {
    assert.ok(APICallError.isInstance(error), `${error}`);
    assert.equal(error.statusCode, status);
    assert.match(error.message, message);
    assert.equal(error.isRetryable, false);
    return true;
  });
  await fails(generateText(ask({ model: provider()('another') })), 404, /another/);
  await fails(generateText(ask({ model: provider({ apiKey: 'wrong' })('local') })), 401, /key/i);
  await fails(generateText(ask({ prompt: 'word '.repeat(4000) })), 400, /exceeds the available context size/);
  await fails(generateText({ ...ask(), ...extra({ n: 1000 }) }), 400, /'n' must be/);
  const stream = streamText({ ...ask(), ...quiet, prompt: 'word '.repeat(4000) });
  const parts = await collect(stream.fullStream);
  assert.match(parts.find((part) => part.type === 'error').error.message, /context size/);
});

test('abort', async () => {
  const controller = new AbortController();
  const stream = streamText({ ...ask({ prompt: 'Go on.', maxOutputTokens: 1500, abortSignal: controller.signal }), ...quiet });
  const kinds = [];
  for await (const part of stream.fullStream) {
    kinds.push(part.type);
    if (part.type === 'text-delta') controller.abort();
  }
  assert.ok(kinds.includes('abort'), kinds.join());
  const whole = generateText(ask({ prompt: 'Go on.', maxOutputTokens: 1500, abortSignal: AbortSignal.timeout(100) }));
  await assert.rejects(whole);
  assert.ok((await generateText(ask())).text);
});
