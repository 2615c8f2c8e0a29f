import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AIMessage, HumanMessage, SystemMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';

const place = { apiKey: process.env.API_KEY, configuration: { baseURL: process.env.BASE_URL } };
const chat = (more = {}) => new ChatOpenAI({
  model: 'local', maxTokens: 12, temperature: 0, maxRetries: 0, ...place, ...more,
});
const talk = [new SystemMessage('Be brief. '.repeat(60)), new HumanMessage('Begin.')];
const looked = [];
const look = tool(async (input) => { looked.push(input); return 'a tree'; }, {
  name: 'look', description: 'Looks.', schema: z.object({ where: z.enum(['left', 'right']), far: z.boolean() }),
});
const collect = async (stream) => {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
};

test('invoke and stream: the same text, with usage', async () => {
  const whole = await chat().invoke(talk);
  assert.ok(whole.content.length > 0);
  assert.equal(whole.usage_metadata.output_tokens, 12);
  assert.equal(whole.response_metadata.finish_reason, 'length');
  const parts = await collect(await chat().stream(talk));
  assert.equal(parts.map((part) => part.content).join(''), whole.content);
  const sum = parts.reduce((all, part) => all.concat(part));
  assert.equal(sum.usage_metadata.output_tokens, 12);
  assert.ok(sum.usage_metadata.input_token_details.cache_read > 0);
});

test('a conversation goes on from what is cached', async () => {
  const first = await chat().invoke(talk);
  const next = await chat().invoke([...talk, first, new HumanMessage('Go on.')]);
  const known = first.usage_metadata.total_tokens - 1;
  assert.ok(next.usage_metadata.input_token_details.cache_read >= known, JSON.stringify(next.usage_metadata));
});

test('batch: each reply is that of its own prompt', async () => {
  const prompts = ['One.', 'Two.', 'Three.', 'Four.'].map((text) => [new HumanMessage(text)]);
  const together = await chat().batch(prompts);
  for (let i = 0; i < prompts.length; i += 1) {
    assert.equal(together[i].content, (await chat().invoke(prompts[i])).content);
  }
});

test('a tool: called, run, and its result sent back', async () => {
  const model = chat({ maxTokens: 500, temperature: 1, seed: 5 });
  const asked = [new HumanMessage('What is there?')];
  const call = await model.bindTools([look], { tool_choice: 'look' }).invoke(asked);
  assert.equal(call.tool_calls.length, 1);
  assert.ok(['left', 'right'].includes(call.tool_calls[0].args.where));
  const result = await look.invoke(call.tool_calls[0]);
  assert.ok(result instanceof ToolMessage && looked.length === 1);
  const last = await chat().bindTools([look], { tool_choice: 'none' }).invoke([...asked, call, result]);
  assert.ok(last instanceof AIMessage && last.tool_calls.length === 0);
  assert.ok(last.usage_metadata.input_token_details.cache_read > 0);
});

test('structured output, by schema and by call', async () => {
  const shape = z.object({ mood: z.enum(['good', 'bad']), count: z.enum(['one', 'two']) });
  for (const method of ['jsonSchema', 'functionCalling']) {
    const model = chat({ maxTokens: 400, temperature: 1, seed: 2 }).withStructuredOutput(shape, { name: 'report', method });
    shape.parse(await model.invoke('How is it?'));
  }
});

test('probabilities and several replies', async () => {
  const reply = await chat({ logprobs: true, topLogprobs: 3 }).invoke(talk);
  const { content } = reply.response_metadata.logprobs;
  assert.equal(content.length, 12);
  content.forEach((one) => assert.ok(one.top_logprobs.length === 3 && one.logprob <= 0));
  const several = await chat({ n: 3, temperature: 1 }).generate([talk]);
  assert.equal(several.generations[0].length, 3);
});

test('the responses API', async () => {
  const reply = await chat({ useResponsesApi: true, maxTokens: 16 }).invoke(talk);
  assert.ok(reply.text.length > 0);
  assert.equal(reply.usage_metadata.output_tokens, 16);
  const parts = await collect(await chat({ useResponsesApi: true, maxTokens: 16 }).stream(talk));
  assert.equal(parts.map((part) => part.text).join(''), reply.text);
});

test('completions, the older API', async () => {
  const model = new OpenAI({ model: 'local', maxTokens: 6, temperature: 0, maxRetries: 0, ...place });
  const text = await model.invoke('Once');
  assert.equal((await collect(await model.stream('Once'))).join(''), text);
});

test('embeddings', async () => {
  const model = new OpenAIEmbeddings({ model: 'local', maxRetries: 0, ...place });
  const [one, two] = await model.embedDocuments(['first text', 'second text']);
  assert.equal(one.length, 128);
  const again = await model.embedQuery('second text');
  again.forEach((value, i) => assert.ok(Math.abs(value - two[i]) < 1e-6));
});

test('errors are told as they are', async () => {
  await assert.rejects(chat({ model: 'another' }).invoke(talk), /another/);
  await assert.rejects(chat().invoke([new HumanMessage('word '.repeat(4000))]), /context size/);
  await assert.rejects(chat({ apiKey: 'wrong' }).invoke(talk), /401|key/i);
});

test('abort', async () => {
  const controller = new AbortController();
  const endless = chat({ maxTokens: 1500 }).invoke(talk, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(endless);
  assert.ok((await chat().invoke(talk)).content.length > 0);
});
