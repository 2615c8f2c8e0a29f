#pragma once

// The model's vocabulary: a port that the engine implements and chat uses, which may not see each other.
//
// libllama has three kinds of tokens that matter here. NORMAL tokens are plain text. CONTROL tokens are never produced
// from plain text. USER_DEFINED tokens are produced from plain text that contains their spelling, even when special
// tokens are not to be parsed; marker_set.h decides which of them are markers.
//
// Implementations are immutable and thread safe: HTTP threads call them at the same time.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/media_ids.h"
#include "base/types.h"

namespace kvkeep {

// A CONTROL or USER_DEFINED token of the vocabulary.
struct SpecialToken {
  TokenId id = 0;
  std::string spelling;        // as it is written in templates; never empty
  bool control = false;        // CONTROL if true, USER_DEFINED otherwise
  bool strips_before = false;  // LSTRIP: white space before it belongs to it
  bool strips_after = false;   // RSTRIP: white space after it belongs to it
};

// The tokens between the parts of a text that a model fills in; a vocabulary may lack all or some of them.
struct FillTokens {
  std::optional<TokenId> prefix = {}, suffix = {}, middle = {};
  std::optional<TokenId> repository = {}, file = {};  // before the name of a repository, and of each of its files
};

// How a text given to Vocabulary::tokenize stands in the prompt.
struct TokenizeOptions {
  bool add_special = false;    // put BOS before and EOS after, where the vocabulary asks for them
  bool parse_special = false;  // spellings of CONTROL tokens become these tokens
};

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  // Number of tokens; every id is in [0, size()).
  virtual std::size_t size() const = 0;
  // The tokenizer of the model, as llama_tokenize; some vocabularies put a space before the text.
  virtual std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions options) const = 0;
  // Plain text that goes on after other text: as tokenize(text, {}), but no space is put before it.
  virtual std::vector<TokenId> tokenize_continuation(std::string_view text) const = 0;
  // The bytes of a token, possibly a part of a code point. A CONTROL token is empty unless `with_special`.
  // Precondition: 0 <= id < size().
  virtual std::string piece(TokenId id, bool with_special) const = 0;
  // No token stands for more bytes of text than this, so that a text has at least size / longest tokens. Empty: there
  // is no such limit, because the tokenizer drops or joins text.
  virtual std::optional<std::size_t> longest_piece_bytes() const = 0;
  // All CONTROL and USER_DEFINED tokens, in any order.
  virtual const std::vector<SpecialToken>& special_tokens() const = 0;

  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // The vocabulary wants BOS before a prompt.
  virtual bool add_bos() const = 0;
  virtual bool is_end_of_generation(TokenId id) const = 0;
  virtual FillTokens fill_tokens() const { return {}; }

  // Plain text (parse_special = false): CONTROL tokens never come out of it.
  std::vector<TokenId> tokenize_text(std::string_view text, bool add_special = false) const {
    return tokenize(text, {.add_special = add_special, .parse_special = false});
  }
  // The bytes of a run of tokens; of a picture or sound, its media_word(), or "[media]" if the run begins within it.
  std::string text_of(TokenSpan tokens, bool with_special) const {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!is_media_id(tokens[i])) {
        text += piece(tokens[i], with_special);
      } else if (begins_media(tokens[i])) {
        text += media_word(tokens.subspan(i));
      } else if (i == 0) {
        text += "[media]";
      }
    }
    return text;
  }
};

}  // namespace kvkeep
