#pragma once

// Reads GBNF as libllama does, so that a request's grammar is known to be right and cheap before libllama sees it.
//
// libllama prints a grammar it cannot read to stderr, walks some grammars for very long (their rules begin with each
// other in too many ways), never ends with others (left recursion after a part that may be empty), takes counts above
// 2,000 for "any number", recurses as deep as groups are nested, and follows all ways in which a text can be read,
// though they may double with each letter. All of these are refused here, with the line if there is one.
//
// Pure, thread safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "chat/grammar/code_point_set.h"

namespace kvkeep::chat::grammar {

struct Symbol {
  enum class Kind { kCharacters, kRule, kToken, kNotToken };
  Kind kind = Kind::kCharacters;
  CodePointSet characters = {};
  std::size_t rule = 0;    // index into Gbnf::rules
  std::string token = {};  // "<think>" or "<[123]>", as written
};
using SymbolSequence = std::vector<Symbol>;

// Groups and repetitions are rules of their own, written out as libllama does.
struct GbnfRule {
  std::string name;  // "" for a group or a repetition
  std::vector<SymbolSequence> alternatives;
  bool defined = false;
  std::size_t line = 0;  // where it was first named, from 1
};

struct Gbnf {
  std::vector<GbnfRule> rules;
  std::size_t root = 0;
  std::string literals;  // the texts of all literals, each followed by a newline
};

struct GbnfLimits {
  std::size_t bytes = 512U << 10;
  std::size_t symbols = 500'000;         // all repetitions written out
  std::size_t nesting = 64;              // groups in groups
  std::size_t ways = 100'000;            // in which a rule may begin, before anything is written
  std::size_t stacks = 10'000;           // ways in which one text may be read at once (gbnf_cost.h)
  std::size_t ranges = 20'000;           // of characters for the letter after one text
  double work = 1e8;                     // comparisons of libllama's for one letter: some half second
  std::size_t growth_steps = 1'000'000;  // spent on looking for such a text: a fraction of a second
};

// Its error, kInvalid, names the fault and its line.
Result<Gbnf> read_gbnf(std::string_view text, const GbnfLimits& limits = {});

}  // namespace kvkeep::chat::grammar
