#pragma once

// The vocabulary and chat template that all generated models share: learnt byte pairs, then the markers. Encoders have
// one of their own, of word pieces, and no template.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

struct gguf_context;

namespace kvkeep::gguf {

struct Vocabulary {
  std::vector<std::string> spellings;  // as GGUF writes them: bytes mapped to printable characters, markers unchanged
  std::vector<std::int32_t> types;     // 1 normal, 3 CONTROL, 4 USER_DEFINED
  std::vector<std::string> merges;     // "left right", by rank
  // Tokens that are a blank and a whole lower-case word. Any run of them is valid UTF-8 and is tokenized to itself,
  // because the pretokenizer cuts before each blank: greedy text made of them can be sent back and gives the same ids.
  std::vector<bool> whole_word;
  std::size_t size() const { return spellings.size(); }
  // Precondition: there is a marker of that spelling.
  TokenId marker(std::string_view spelling) const;
};

// Learnt from the embedded sample text (sample_text.h) on the first call, which takes some 100 ms; always the same.
// Thread safe.
const Vocabulary& shared_vocabulary();

// The shared vocabulary with further tokens after it, as many as models in use have: a learnt token and the letters of
// another. Texts get other ids than in the shared one; whole words stay one token. Precondition: `size` is at least
// that of the shared vocabulary and at most kMostTokens.
inline constexpr std::size_t kMostTokens = 262'144;
Vocabulary extended_vocabulary(std::size_t size);

// Writes the tokenizer's keys and tokenizer.chat_template (ChatML; tools as Hermes has them).
void write_vocabulary(const Vocabulary& vocabulary, gguf_context* file);

// word_pieces.cc: the same for encoders, made of the shared vocabulary's words. All lower-case words of the sample text
// that are one token there are one here; other words are cut into pieces, down to single characters of ASCII. Texts
// stand between [CLS] and [SEP].
const Vocabulary& word_piece_vocabulary();
void write_word_pieces(const Vocabulary& vocabulary, gguf_context* file);

}  // namespace kvkeep::gguf
