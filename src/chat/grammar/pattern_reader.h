#pragma once

// A regular expression as a tree.

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/grammar/code_point_set.h"

namespace kvkeep::chat::grammar {

struct PatternNode {
  enum class Kind { kCharacters, kSequence, kChoice, kRepeat, kStart, kEnd };
  Kind kind = Kind::kSequence;
  CodePointSet characters = {};            // kCharacters: one of them
  std::vector<PatternNode> children = {};  // kSequence, kChoice; kRepeat: one
  std::size_t min = 0;                     // kRepeat
  std::optional<std::size_t> max = {};     // kRepeat; none: any number
};

// Its error, kInvalid, names the wrong or unknown part.
Result<PatternNode> read_pattern(std::string_view pattern);

}  // namespace kvkeep::chat::grammar
