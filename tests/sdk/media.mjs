// Pictures and sounds as the vendors' libraries send them. SEES and HEARS are servers of models that take them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { generateText } from 'ai';
import OpenAI from 'openai';

const picture = readFileSync(process.env.PICTURE);
const sound = readFileSync(process.env.SOUND).toString('base64');
const data = picture.toString('base64');
const url = `data:image/png;base64,${data}`;
const openai = (base) => new OpenAI({ baseURL: `${base}/v1`, apiKey: 'none', maxRetries: 0 });
const sees = openai(process.env.SEES);
const hears = openai(process.env.HEARS);
const anthropic = new Anthropic({ baseURL: process.env.SEES, apiKey: 'none', maxRetries: 0 });

const encoded = async (base) => {
  const metrics = await (await fetch(new URL('/metrics', base))).text();
  return Number(/^kvkeep_media_encoded_total (\S+)$/m.exec(metrics)[1]);
};
// The first part of a conversation may be new; the second one must be known.
const encodedOnce = async (base, ask) => {
  await ask();
  const before = await encoded(base);
  const reply = await ask();
  assert.equal(await encoded(base), before);
  return reply;
};

test('openai, chat: a picture and a file', async () => {
  for (const part of [{ type: 'image_url', image_url: { url, detail: 'auto' } },
    { type: 'file', file: { filename: 'a.png', file_data: url } }]) {
    const reply = await encodedOnce(process.env.SEES, () => sees.chat.completions.create({
      model: 'any', max_tokens: 4, temperature: 0,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, part] }],
    }));
    assert.ok(reply.choices[0].message.content.length > 0);
    assert.ok(reply.usage.prompt_tokens_details.cached_tokens > 10);
  }
});

test('openai, chat: sound', async () => {
  const reply = await encodedOnce(process.env.HEARS, () => hears.chat.completions.create({
    model: 'any', max_tokens: 4, temperature: 0,
    messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: sound, format: 'wav' } }, { type: 'text', text: 'What is said?' }] }],
  }));
  assert.ok(reply.choices[0].message.content.length > 0);
});

test('openai, chat: a wrong picture is the caller\'s error', async () => {
  const asked = sees.chat.completions.create({
    model: 'any', max_tokens: 4, messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }] }],
  });
  await assert.rejects(asked, (error) => error instanceof OpenAI.BadRequestError && /messages\[0\]\.content\[0\]/.test(error.message));
});

test('openai, responses: a picture, a file, and a tool that shows one', async () => {
  const ask = (input) => encodedOnce(process.env.SEES, () => sees.responses.create({
    model: 'any', store: false, max_output_tokens: 16, temperature: 0, input,
  }));
  const shown = await ask([{ role: 'user', content: [{ type: 'input_text', text: 'What is it?' },
    { type: 'input_image', image_url: url, detail: 'auto' }] }]);
  assert.ok(shown.output_text.length > 0);
  assert.ok(shown.usage.input_tokens_details.cached_tokens > 10);
  await ask([{ role: 'user', content: [{ type: 'input_file', filename: 'a.png', file_data: url }, { type: 'input_text', text: 'Seen?' }] }]);
  await ask([{ role: 'user', content: 'Take a screenshot.' },
    { type: 'function_call', call_id: 'c', name: 'shoot', arguments: '{}' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_image', image_url: url, detail: 'auto' }] }]);
});

test('anthropic: a picture, and a tool that shows one', async () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data } };
  const tools = [{ name: 'shoot', description: 'Takes a screenshot.', input_schema: { type: 'object', properties: {} } }];
  for (const messages of [
    [{ role: 'user', content: [image, { type: 'text', text: 'What is it?' }] }],
    [{ role: 'user', content: 'Take a screenshot.' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'shoot', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'Done.' }, image] }] }],
  ]) {
    const reply = await encodedOnce(process.env.SEES, () => anthropic.messages.create({
      model: 'any', max_tokens: 4, temperature: 0, messages, tools,
    }));
    assert.ok(reply.usage.cache_read_input_tokens > 10);
    const { input_tokens: counted } = await anthropic.messages.countTokens({ model: 'any', messages, tools });
    const { usage } = reply;
    assert.equal(counted, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens);
  }
});

test('anthropic: a wrong picture is the caller\'s error', async () => {
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } };
  const asked = anthropic.messages.create({ model: 'any', max_tokens: 4, messages: [{ role: 'user', content: [image] }] });
  await assert.rejects(asked, (error) => error instanceof Anthropic.BadRequestError && /messages\.0\.content\.0/.test(error.message));
});

test('ai: a picture in chats and responses', async () => {
  const compatible = createOpenAICompatible({ name: 'kvkeep', baseURL: `${process.env.SEES}/v1`, apiKey: 'none' });
  const vendor = createOpenAI({ baseURL: `${process.env.SEES}/v1`, apiKey: 'none' });
  for (const model of [compatible('any'), vendor.chat('any'), vendor.responses('any')]) {
    for (const part of [{ type: 'image', image: picture }, { type: 'file', data: picture, mediaType: 'image/png' }]) {
      const reply = await encodedOnce(process.env.SEES, () => generateText({
        model, maxRetries: 0, maxOutputTokens: 16, temperature: 0,
        messages: [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, part] }],
      }));
      assert.ok(reply.text.length > 0);
    }
  }
});

test('ai: sound', async () => {
  const vendor = createOpenAI({ baseURL: `${process.env.HEARS}/v1`, apiKey: 'none' });
  const reply = await encodedOnce(process.env.HEARS, () => generateText({
    model: vendor.chat('any'), maxRetries: 0, maxOutputTokens: 8, temperature: 0,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'What is said?' }, { type: 'file', data: sound, mediaType: 'audio/wav' }] }],
  }));
  assert.ok(reply.text.length > 0);
});
