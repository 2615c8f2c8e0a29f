#pragma once

// The model's vocabulary through libllama. Immutable and thread safe; keeps the model alive.

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/vocabulary.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

class LlamaVocabulary : public Vocabulary {
 public:
  // `path` is the model's file. A vocabulary that puts a space before a text is read a second time without that rule,
  // for texts that continue others. Errors are those of reading the file.
  static Result<std::unique_ptr<LlamaVocabulary>> make(ModelHandle model, const std::string& path);
  // The vocabulary of a file without the model, for tools that need no weights.
  static Result<std::unique_ptr<LlamaVocabulary>> load(const std::string& path);

  std::size_t size() const override { return static_cast<std::size_t>(llama_vocab_n_tokens(vocab_)); }
  std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions options) const override;
  std::vector<TokenId> tokenize_continuation(std::string_view text) const override;
  std::string piece(TokenId id, bool with_special) const override;
  std::optional<std::size_t> longest_piece_bytes() const override { return longest_piece_bytes_; }
  const std::vector<SpecialToken>& special_tokens() const override { return special_tokens_; }
  std::optional<TokenId> bos() const override;
  std::optional<TokenId> eos() const override;
  bool add_bos() const override { return llama_vocab_get_add_bos(vocab_); }
  // The template in the file's metadata; empty: there is none.
  std::string chat_template() const;
  bool is_end_of_generation(TokenId id) const override { return llama_vocab_is_eog(vocab_, id); }
  FillTokens fill_tokens() const override;

 private:
  LlamaVocabulary(ModelHandle model, ModelHandle without_space);

  ModelHandle model_;
  ModelHandle model_without_space_;  // null: the vocabulary puts no space before texts
  const llama_vocab* vocab_;
  std::vector<SpecialToken> special_tokens_;
  std::optional<std::size_t> longest_piece_bytes_;
};

}  // namespace kvkeep::engine::llama
