#include "model_maker/vocabulary.h"

#include <gguf.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include "base/assert.h"
#include "base/unicode.h"
#include "model_maker/bpe_trainer.h"
#include "model_maker/sample_text.h"

namespace kvkeep::gguf {
namespace {

// ChatML, in constructs that every engine evaluates alike, llama-server's included. The system turn lists the tools,
// calls are <tool_call> blocks, results are <tool_response> blocks in a user turn (consecutive results share one).
// Message text is never trimmed: generated text renders unchanged.
std::string_view chat_template() {
  return R"jinja({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\n\n' }}
    {%- endif %}
    {{- 'These functions may be called. Their signatures stand between <tools> and </tools>:\n<tools>' }}
    {%- for tool in tools %}
        {{- '\n' }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '\n</tools>\n\nTo call one, answer with its name and arguments as JSON inside <tool_call></tool_call>:\n' }}
    {{- '<tool_call>\n{"name": <function-name>, "arguments": <arguments-object>}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.index0 == 0 or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.content %}
            {{- message.content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if tool_call.function %}
                    {%- set tool_call = tool_call.function %}
                {%- endif %}
                {%- if message.content or not loop.first %}
                    {{- '\n' }}
                {%- endif %}
                {{- '<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}
                    {{- tool_call.arguments }}
                {%- else %}
                    {{- tool_call.arguments | tojson }}
                {%- endif %}
                {{- '}\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif not (message.role == 'system' and loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})jinja";
}

constexpr std::size_t kMergeCount = 3600;
constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;

constexpr std::array<std::string_view, 12> kControlMarkers = {
    "<|bos|>",        "<|endoftext|>",  "<|im_start|>",   "<|im_end|>",  "<|User|>",      "<|Assistant|>",
    "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"};
constexpr std::array<std::string_view, 6> kUserDefinedMarkers = {"<tool_call>",      "</tool_call>", "<tool_response>",
                                                                 "</tool_response>", "<think>",      "</think>"};
// libmtmd puts them around the tokens of a picture or sound; CONTROL too.
constexpr std::array<std::string_view, 6> kMediaMarkers = {"<start_of_image>", "<end_of_image>", "<|vision_start|>",
                                                           "<|vision_end|>",   "<|audio_bos|>",  "<|audio_eos|>"};

// GPT-2's map: printable Latin-1 bytes stand for themselves, the other bytes for U+0100 and up in order.
std::array<unsigned, 256> printable_bytes() {
  std::array<unsigned, 256> map{};
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    map[byte] = printable ? byte : next++;
  }
  return map;
}

std::string spelling_of(std::string_view bytes) {
  static const std::array<unsigned, 256> kMap = printable_bytes();
  std::string out;
  for (const char c : bytes) append_character(out, kMap[static_cast<unsigned char>(c)]);
  return out;
}

bool is_blank_and_word(std::string_view bytes) {
  return bytes.size() >= 3 && bytes[0] == ' ' &&
         std::all_of(bytes.begin() + 1, bytes.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// Finds words of the sample texts that are one token, and stay one when encoded by themselves.
std::vector<bool> find_whole_words(const BytePairs& pairs, std::span<const std::string_view> texts) {
  std::set<std::string_view> seen;
  for (const std::string_view text : texts) {
    for (const std::string_view pretoken : split_pretokens(text)) seen.insert(pretoken);
  }
  const BytePairEncoder encoder(pairs);
  std::vector<bool> whole;
  for (const std::string& token : pairs.tokens) {
    whole.push_back(is_blank_and_word(token) && seen.contains(token) && encoder.encode(token).size() == 1);
  }
  return whole;
}

void set_strings(gguf_context* file, const char* key, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

void set_token(gguf_context* file, const Vocabulary& vocabulary, const char* role, std::string_view marker) {
  const std::string key = "tokenizer.ggml." + std::string(role) + "_token_id";
  gguf_set_val_u32(file, key.c_str(), static_cast<std::uint32_t>(vocabulary.marker(marker)));
}

}  // namespace

TokenId Vocabulary::marker(std::string_view spelling) const {
  const auto place = std::find(spellings.begin(), spellings.end(), spelling);
  KVKEEP_ASSERT(place != spellings.end(), "a known marker");
  return static_cast<TokenId>(place - spellings.begin());
}

namespace {

Vocabulary build_vocabulary() {
  const std::array<std::string_view, 4> texts = {sample_prose(), sample_code(), sample_data(), sample_words()};
  const BytePairs pairs = train_byte_pairs(texts, kMergeCount);
  Vocabulary vocabulary;
  for (const std::string& token : pairs.tokens) vocabulary.spellings.push_back(spelling_of(token));
  for (const auto& [left, right] : pairs.merges) {
    vocabulary.merges.push_back(vocabulary.spellings[left] + " " + vocabulary.spellings[right]);
  }
  vocabulary.whole_word = find_whole_words(pairs, texts);
  vocabulary.types.assign(vocabulary.size(), kNormal);
  const auto add_markers = [&](std::span<const std::string_view> markers, std::int32_t type) {
    vocabulary.spellings.insert(vocabulary.spellings.end(), markers.begin(), markers.end());
    vocabulary.types.resize(vocabulary.size(), type);
  };
  add_markers(kControlMarkers, kControl);
  add_markers(kUserDefinedMarkers, kUserDefined);
  add_markers(kMediaMarkers, kControl);
  vocabulary.whole_word.resize(vocabulary.size(), false);
  return vocabulary;
}

bool is_letters(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

std::vector<std::string> spellings_of_letters(const Vocabulary& vocabulary) {
  std::vector<std::string> found;
  std::ranges::copy_if(vocabulary.spellings, std::back_inserter(found), is_letters);
  return found;
}

// With or without a blank before the letters.
std::vector<std::string> spellings_ending_in_letters(const Vocabulary& vocabulary) {
  const std::string blank = spelling_of(" ");
  std::vector<std::string> found;
  for (const std::string& spelling : vocabulary.spellings) {
    const std::string_view text = spelling;
    if (is_letters(text.starts_with(blank) ? text.substr(blank.size()) : text)) found.push_back(spelling);
  }
  return found;
}

}  // namespace

const Vocabulary& shared_vocabulary() {
  static const Vocabulary kVocabulary = build_vocabulary();
  return kVocabulary;
}

// Pairs are taken along diagonals, so that the first of them already have all kinds of beginnings and ends.
Vocabulary extended_vocabulary(std::size_t size) {
  Vocabulary vocabulary = shared_vocabulary();
  KVKEEP_ASSERT(size >= vocabulary.size() && size <= kMostTokens, "a size that can be made");
  std::set<std::string, std::less<>> known(vocabulary.spellings.begin(), vocabulary.spellings.end());
  const std::vector<std::string> lefts = spellings_ending_in_letters(vocabulary);
  const std::vector<std::string> rights = spellings_of_letters(vocabulary);
  for (std::size_t diagonal = 0; vocabulary.size() < size; ++diagonal) {
    KVKEEP_ASSERT(diagonal < rights.size(), "there are enough pairs");
    for (std::size_t i = 0; i < lefts.size() && vocabulary.size() < size; ++i) {
      const std::string& right = rights[(i + diagonal) % rights.size()];
      if (!known.insert(lefts[i] + right).second) continue;
      vocabulary.spellings.push_back(lefts[i] + right);
      vocabulary.merges.push_back(lefts[i] + " " + right);
    }
  }
  vocabulary.types.resize(size, kNormal);
  vocabulary.whole_word.resize(size, false);
  return vocabulary;
}

void write_vocabulary(const Vocabulary& vocabulary, gguf_context* file) {
  gguf_set_val_str(file, "tokenizer.ggml.model", "gpt2");
  gguf_set_val_str(file, "tokenizer.ggml.pre", "qwen2");
  set_strings(file, "tokenizer.ggml.tokens", vocabulary.spellings);
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocabulary.types.data(), vocabulary.size());
  set_strings(file, "tokenizer.ggml.merges", vocabulary.merges);
  set_token(file, vocabulary, "bos", "<|bos|>");
  set_token(file, vocabulary, "eos", "<|im_end|>");
  set_token(file, vocabulary, "eot", "<|im_end|>");
  set_token(file, vocabulary, "padding", "<|endoftext|>");
  set_token(file, vocabulary, "fim_pre", "<|fim_prefix|>");
  set_token(file, vocabulary, "fim_suf", "<|fim_suffix|>");
  set_token(file, vocabulary, "fim_mid", "<|fim_middle|>");
  set_token(file, vocabulary, "fim_pad", "<|fim_pad|>");
  set_token(file, vocabulary, "fim_rep", "<|repo_name|>");
  set_token(file, vocabulary, "fim_sep", "<|file_sep|>");
  gguf_set_val_bool(file, "tokenizer.ggml.add_bos_token", false);
  gguf_set_val_str(file, "tokenizer.chat_template", std::string(chat_template()).c_str());
}

}  // namespace kvkeep::gguf
