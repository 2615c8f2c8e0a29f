#pragma once

// Words of a command line: split as a shell would, quoted for one, and suggestions after a mistake: the known word
// nearest to a mistyped one, and a refused command line in a form that would work. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::cli {

// Splits a command line as a shell would: blanks separate words, '...' and "..." quote, a backslash takes the next
// character as it is (within "..." only before a quote or a backslash). Nothing is expanded. kInvalid if a quote is
// open or there is no word at all.
Result<std::vector<std::string>> command_words(std::string_view text);

// Returns a command as the user would type it: "kvkeep serve", or "build/kvkeep serve" if the program was called so.
std::string as_typed(const std::string& command);
// Sets how the program was called: "kvkeep" until then. Call it before any thread starts.
void set_typed_program(const std::string& program);

// Returns the word that was meant: the known word of which `word` is a slip, or else the only one that begins with it,
// or else, for flags, the only one with the same last word. Empty if nothing is near enough.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Returns "; did you mean '--x'?", to be appended to an error message, or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

// A refused command line in a form that would work: unsupported flags are left out or replaced by kvkeep's, mistyped
// ones corrected, so that one error and one paste are enough.
class MendedLine {
 public:
  // `program`: the words before the flags, "kvkeep serve".
  explicit MendedLine(std::string program) : parts_{{std::move(program)}} {}

  // Keeps an argument as it was given. `flag`: the one that it, or its value, sets; empty: one that may be repeated, or
  // none.
  void keep(const std::string& argument, const std::string& flag = {});
  // Adds a replacement for an argument, once however often it is put: one or more words that need no quotes. It is left
  // out if another argument sets that flag.
  void put(const std::string& words, const std::string& flag = {});
  // Adds the value of such a replacement.
  void put_value(const std::string& value, const std::string& flag = {});
  // Adds a fault, once however often it is given. `mended`: the line has a substitute for the faulty argument.
  void note(const Error& trouble, bool mended);

  bool is_sound() const { return troubles_.empty(); }
  // Precondition: !is_sound(). Names all faults, and the line that would work if all are mended. kUnsupported if any
  // fault is of that kind.
  Error error() const;

 private:
  struct Part {
    std::string words;
    std::string flag = {};
    bool is_ours = false;  // was not given
  };
  std::string line() const;

  std::vector<Part> parts_;
  std::vector<Error> troubles_;
  bool all_mended_ = true;
};

// Quotes a word, if a shell needs that to take it as one.
std::string quoted_word(const std::string& text);

}  // namespace kvkeep::cli
