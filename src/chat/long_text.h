#pragma once

// Tokenizes a long text in parts, so that its caller can check in between whether a client still waits for it: the
// tokenizer itself cannot be interrupted, and takes up to a second per megabyte.
//
// The ids are those of the whole text. A cut lies between a letter and a space that another letter follows, and only
// where no token of the vocabulary holds that letter followed by a space. No token spans such a place, so no merge
// does; and the patterns by which vocabularies split words from each other all split there.
//
// A text without such a place for kLongestRunBytes (a million times one letter) is refused, unless its caller prefers
// to wait. If a vocabulary rewrites text (drops or joins white space), nothing is cut, and every longer text is such a
// run.

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/vocabulary.h"

namespace kvkeep::chat {

// Most text that is tokenized at once, if it can be cut: some 100 ms.
inline constexpr std::size_t kPartBytes = 128 << 10;
// Most text without a place to cut.
inline constexpr std::size_t kLongestRunBytes = 1 << 20;

// Immutable, thread safe. The vocabulary must outlive it.
class LongText {
 public:
  // Reads every token once.
  explicit LongText(const Vocabulary& vocabulary);

  using Stop = std::function<bool()>;
  using PartIds = std::function<Result<std::vector<TokenId>>(std::string_view part)>;

  // As vocabulary.tokenize(text, options). kAborted once `stop`, which is called before each part, returns true;
  // kInvalid for a run that is longer than `longest_run`.
  Result<std::vector<TokenId>> tokenize(std::string_view text, TokenizeOptions options, const Stop& stop,
                                        std::size_t longest_run = kLongestRunBytes) const;
  // The same with another tokenizer: the ids that `ids_of` gives for the parts. Returns its errors, too.
  Result<std::vector<TokenId>> in_parts(std::string_view text, const PartIds& ids_of, const Stop& stop,
                                        std::size_t longest_run) const;

 private:
  std::size_t next_cut(std::string_view text, std::size_t from) const;
  bool is_cut(std::string_view text, std::size_t at) const;

  const Vocabulary& vocabulary_;
  bool adds_space_ = false;               // the vocabulary puts a space before a text
  std::array<bool, 256> ends_word_ = {};  // letters after which a space begins another token, whatever follows
};

}  // namespace kvkeep::chat
