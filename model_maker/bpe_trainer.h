#pragma once

// Byte-level byte-pair encoding, learnt from a text: the vocabulary of generated models.
//
// Text is first cut into pretokens (a word with the blank before it, one digit, a run of punctuation, line ends) by the
// rule that GGUF calls `qwen2`; merges never cross a cut. Then the most frequent adjacent pair becomes a token, again
// and again. Ties are broken by token ids, so the same text gives the same merges on every machine.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.h"

namespace kvkeep::gguf {

// Returns the pretokens in order; joined they are `text`. Bytes of 0x80 and above count as letters, which is what
// qwen2's rule does for nearly all of them.
std::vector<std::string_view> split_pretokens(std::string_view text);

struct BytePairs {
  std::vector<std::string> tokens;                  // bytes of each token; ids 0 to 255 are the single bytes
  std::vector<std::pair<TokenId, TokenId>> merges;  // by rank; two merges may yield one token ("ab"+"c", "a"+"bc")
};

// Learns at most `merge_count` merges; fewer if the text has no pair left. Texts of 100 KB take well under a second.
BytePairs train_byte_pairs(std::span<const std::string_view> texts, std::size_t merge_count);

// Encodes with learnt merges, exactly as a GGUF tokenizer applies them. Build once, use often; thread safe after.
class BytePairEncoder {
 public:
  explicit BytePairEncoder(const BytePairs& pairs);
  ~BytePairEncoder();
  BytePairEncoder(const BytePairEncoder&) = delete;
  BytePairEncoder& operator=(const BytePairEncoder&) = delete;
  std::vector<TokenId> encode(std::string_view text) const;

 private:
  struct Ranks;
  std::unique_ptr<Ranks> ranks_;
};

}  // namespace kvkeep::gguf
