#pragma once

// Sets of code points as sorted ranges, and how GBNF writes them. Surrogates are never members: no text holds one.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::chat::grammar {

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  bool operator==(const CodePointRange&) const = default;
};

class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::initializer_list<CodePointRange> ranges);
  static CodePointSet all();

  void add(char32_t first, char32_t last);
  void add(char32_t one) { add(one, one); }
  void add(const CodePointSet& other);
  CodePointSet complement() const;
  CodePointSet without(const CodePointSet& other) const;
  CodePointSet intersect(const CodePointSet& other) const;
  bool contains(char32_t one) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;  // sorted, apart from each other, without surrogates
};

// "[a-z0-9]". Precondition: not empty.
std::string to_gbnf(const CodePointSet& set);

// Reads the code point at `at` and moves on; 0xFFFD for bytes that are no UTF-8. Precondition: at < text.size().
char32_t read_code_point(std::string_view text, std::size_t& at);

}  // namespace kvkeep::chat::grammar
