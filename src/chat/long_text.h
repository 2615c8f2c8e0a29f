#pragma once

// Tokenizes a long text in parts, so that its caller can look between two of them whether a client still waits for it:
// the tokenizer itself cannot be interrupted, and takes up to a second per megabyte of words, four of spaces.
//
// The ids are those of the whole text. A cut lies between a letter or a digit and white space or punctuation, and only
// where no token of the vocabulary holds both: then no merge spans the cut. The patterns by which vocabularies split
// words end a word or a number there and look no further; those that go on (whole lines are words) leave it to merges.
// Characters about which patterns disagree are not cut at: apostrophes (they begin suffixes), "_" (part of a word to
// some), ">" (ends markers), letters that came late to Unicode.
//
// A text without such a place for more than kLongestRunBytes (a million times one letter) is refused. Where a
// vocabulary rewrites text (drops or joins white space), nothing is cut, and every longer text is such a run.

#include <array>
#include <bitset>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "base/vocabulary.h"

namespace kvkeep::chat {

// Text that is tokenized at once, where it can be cut: some 100 ms.
inline constexpr std::size_t kPartBytes = 128 << 10;
// Text without a place to cut.
inline constexpr std::size_t kLongestRunBytes = 1 << 20;

// Immutable, thread safe. The vocabulary must outlive it.
class LongText {
 public:
  // Reads every token once. Tests cut at more places by a smaller `part_bytes`.
  explicit LongText(const Vocabulary& vocabulary, std::size_t part_bytes = kPartBytes);

  using Stop = std::function<bool()>;
  using PartIds = std::function<Result<std::vector<TokenId>>(std::string_view part)>;

  // As vocabulary.tokenize(text, options). `stop` is asked before each part: kAborted once it returns true. kInvalid
  // for a run that is longer than kLongestRunBytes.
  Result<std::vector<TokenId>> tokenize(std::string_view text, TokenizeOptions options, const Stop& stop) const;
  // The same for a caller that tokenizes otherwise: joins the ids that `ids_of` returns for the parts, which are at
  // most some bytes longer than `part_bytes` where the text can be cut. Its errors, too. Cuts depend only on the text
  // before them: a text that goes on has the same parts, but for the last one.
  Result<std::vector<TokenId>> in_parts(std::string_view text, const PartIds& ids_of, const Stop& stop,
                                        std::size_t part_bytes) const;

 private:
  static constexpr std::size_t kSeparators = 40;

  // Marks what the token holds: no cut may split it.
  void forbid_cuts_in(std::string_view piece);
  std::size_t next_cut(std::string_view text, std::size_t begin, std::size_t part_bytes) const;
  bool is_cut(std::string_view text, std::size_t at) const;

  const Vocabulary& vocabulary_;
  std::size_t part_bytes_;
  bool cuts_ = false;
  // By separator: last bytes of the characters that some token holds right before it, or before its first bytes.
  std::array<std::bitset<256>, kSeparators> joined_;
};

}  // namespace kvkeep::chat
