#include "engine/llama/llama_vocabulary.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {
namespace {

std::vector<TokenId> tokenize_with(const llama_vocab* vocab, std::string_view text, TokenizeOptions options) {
  KVKEEP_ASSERT(text.size() <= std::numeric_limits<std::int32_t>::max(), "texts are shorter than 2 GiB");
  std::vector<TokenId> tokens(text.size() / 3 + 16);  // mostly enough; if not, the call returns how many
  const auto run = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                          static_cast<std::int32_t>(tokens.size()), options.add_special, options.parse_special);
  };
  std::int32_t count = run();
  if (count < 0) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = run();
  }
  KVKEEP_ASSERT(count >= 0, "libllama tokenizes the same text to the same number of tokens");
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

std::string piece_with(const llama_vocab* vocab, TokenId id, bool with_special) {
  std::string text(32, '\0');
  const auto run = [&] {
    return llama_token_to_piece(vocab, id, text.data(), static_cast<std::int32_t>(text.size()), 0, with_special);
  };
  std::int32_t length = run();
  if (length < 0) {
    text.resize(static_cast<std::size_t>(-length));
    length = run();
  }
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

std::vector<SpecialToken> find_special_tokens(const llama_vocab* vocab) {
  std::vector<SpecialToken> found;
  for (TokenId id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
    const auto attributes = llama_vocab_get_attr(vocab, id);
    const bool control = (attributes & LLAMA_TOKEN_ATTR_CONTROL) != 0;
    if (!control && (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) == 0) continue;
    std::string spelling = llama_vocab_get_text(vocab, id);
    if (spelling.empty()) continue;
    found.push_back({.id = id,
                     .spelling = std::move(spelling),
                     .control = control,
                     .strips_before = (attributes & LLAMA_TOKEN_ATTR_LSTRIP) != 0,
                     .strips_after = (attributes & LLAMA_TOKEN_ATTR_RSTRIP) != 0});
  }
  return found;
}

// UGM joins white space and unknown text, WPM drops characters that it does not know, two kinds of byte pairs drop
// white space and pad DNA; the others keep every byte, except for white space next to a token that strips it.
bool keeps_text(const llama_model* model) {
  const auto type = llama_vocab_type(llama_model_get_vocab(model));
  if (type == LLAMA_VOCAB_TYPE_UGM || type == LLAMA_VOCAB_TYPE_WPM) return false;
  std::array<char, 32> name{};
  llama_model_meta_val_str(model, "tokenizer.ggml.model", name.data(), name.size());
  return std::string_view(name.data()) != "whitespace" && std::string_view(name.data()) != "hybriddna";
}

std::optional<std::size_t> find_longest_piece(const llama_model* model) {
  if (!keeps_text(model)) return std::nullopt;
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::size_t longest = 1;
  for (TokenId id = 0; id < llama_vocab_n_tokens(vocab); ++id) {
    longest = std::max(longest, piece_with(vocab, id, true).size());
  }
  return longest;
}

Result<ModelHandle> load_vocabulary(const std::string& path, const llama_model_kv_override* overrides) {
  start_library();
  const AbortNet net(path);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  params.kv_overrides = overrides;
  const std::uint64_t mark = log_mark();
  ModelHandle model(llama_model_load_from_file(path.c_str(), params), ModelDeleter{});
  if (!model) return invalid("cannot read the vocabulary of " + path + ": " + log_reason_since(mark));
  return model;
}

// Only these tokenizers have the rule.
bool may_add_space(const llama_vocab* vocab) {
  const auto type = llama_vocab_type(vocab);
  return type == LLAMA_VOCAB_TYPE_SPM || type == LLAMA_VOCAB_TYPE_UGM;
}

Result<ModelHandle> load_without_space(const std::string& path) {
  llama_model_kv_override overrides[2] = {};
  overrides[0].tag = LLAMA_KV_OVERRIDE_TYPE_BOOL;
  overrides[0].val_bool = false;
  std::strcpy(overrides[0].key, "tokenizer.ggml.add_space_prefix");
  return load_vocabulary(path, overrides);
}

std::optional<TokenId> existing(llama_token token) {
  return token == LLAMA_TOKEN_NULL ? std::nullopt : std::optional<TokenId>(token);
}

}  // namespace

LlamaVocabulary::LlamaVocabulary(ModelHandle model, ModelHandle without_space)
    : model_(std::move(model)),
      model_without_space_(std::move(without_space)),
      vocab_(llama_model_get_vocab(model_.get())),
      special_tokens_(find_special_tokens(vocab_)),
      longest_piece_bytes_(find_longest_piece(model_.get())) {}

Result<std::unique_ptr<LlamaVocabulary>> LlamaVocabulary::make(ModelHandle model, const std::string& path) {
  ModelHandle without_space;
  if (may_add_space(llama_model_get_vocab(model.get()))) {
    TRY_ASSIGN(without_space, load_without_space(path));
  }
  return std::unique_ptr<LlamaVocabulary>(new LlamaVocabulary(std::move(model), std::move(without_space)));
}

Result<std::unique_ptr<LlamaVocabulary>> LlamaVocabulary::load(const std::string& path) {
  TRY_ASSIGN(ModelHandle model, load_vocabulary(path, nullptr));
  return make(std::move(model), path);
}

std::string LlamaVocabulary::chat_template() const {
  const char* source = llama_model_chat_template(model_.get(), nullptr);
  return source == nullptr ? std::string() : source;
}

std::vector<TokenId> LlamaVocabulary::tokenize(std::string_view text, TokenizeOptions options) const {
  return tokenize_with(vocab_, text, options);
}

std::vector<TokenId> LlamaVocabulary::tokenize_continuation(std::string_view text) const {
  return tokenize_with(model_without_space_ ? llama_model_get_vocab(model_without_space_.get()) : vocab_, text, {});
}

std::string LlamaVocabulary::piece(TokenId id, bool with_special) const {
  KVKEEP_ASSERT(id >= 0 && static_cast<std::size_t>(id) < size(), "the token is of this vocabulary");
  return piece_with(vocab_, id, with_special);
}

std::optional<TokenId> LlamaVocabulary::bos() const { return existing(llama_vocab_bos(vocab_)); }
std::optional<TokenId> LlamaVocabulary::eos() const { return existing(llama_vocab_eos(vocab_)); }

FillTokens LlamaVocabulary::fill_tokens() const {
  return {.prefix = existing(llama_vocab_fim_pre(vocab_)),
          .suffix = existing(llama_vocab_fim_suf(vocab_)),
          .middle = existing(llama_vocab_fim_mid(vocab_)),
          .repository = existing(llama_vocab_fim_rep(vocab_)),
          .file = existing(llama_vocab_fim_sep(vocab_))};
}

}  // namespace kvkeep::engine::llama
