#pragma once

// Suggestions after a slip: the known word nearest to a mistyped one, and a refused command line as it would work.
// Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::cli {

// What was meant by `word`: the known word of which it is a slip, or else the only one that begins so, or else, of
// flags, the only one with the same last word. Empty: nothing is near enough.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean '--x'?" or empty: ready to be put behind an error message.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

// A command line that was refused, as it would work: what is not supported left out or put in our words, what is
// mistyped put right. One look at an error, one paste.
class MendedLine {
 public:
  // `program`: what stands before the flags, "kvkeep serve".
  explicit MendedLine(std::string program) : words_{std::move(program)} {}

  // An argument as it was given.
  void keep(const std::string& argument);
  // Ours for what was given: one or more words that need no quotes.
  void put(const std::string& words) { words_.push_back(words); }
  // Adds a fault of the line, once however often it is given. `mended`: the line that works has a substitute for it.
  void note(const Error& trouble, bool mended);

  bool is_sound() const { return troubles_.empty(); }
  // Precondition: !is_sound(). All that is wrong, and the line that would do, if all of it is mended. kUnsupported, if
  // anything was of that kind.
  Error error() const;

 private:
  std::vector<std::string> words_;
  std::vector<Error> troubles_;
  bool all_mended_ = true;
};

// As a shell takes it for one word.
std::string quoted_word(const std::string& text);

}  // namespace kvkeep::cli
