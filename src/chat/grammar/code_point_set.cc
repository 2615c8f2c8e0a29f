#include "chat/grammar/code_point_set.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

#include "base/unicode.h"

namespace kvkeep::chat::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kFirstSurrogate = 0xD800;
constexpr char32_t kLastSurrogate = 0xDFFF;

std::string hex(char32_t value, int digits) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text(static_cast<std::size_t>(digits), '0');
  for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = kDigits[value & 0xF];
  return text;
}

// Characters with a meaning between brackets are written by number.
std::string class_member(char32_t one) {
  if (one == '\n') return "\\n";
  if (one == '\r') return "\\r";
  if (one == '\t') return "\\t";
  const bool plain =
      one > 0x20 && one < 0x7F && one != '"' && one != '\\' && one != '[' && one != ']' && one != '-' && one != '^';
  if (plain || one == ' ') return std::string(1, static_cast<char>(one));
  if (one < 0x100) return "\\x" + hex(one, 2);
  return one < 0x10000 ? "\\u" + hex(one, 4) : "\\U" + hex(one, 8);
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<CodePointRange> ranges) {
  for (const CodePointRange& range : ranges) add(range.first, range.last);
}

CodePointSet CodePointSet::all() { return {{0, kLast}}; }

void CodePointSet::add(char32_t first, char32_t last) {
  if (first > last) return;
  if (first <= kLastSurrogate && last >= kFirstSurrogate) {
    if (first < kFirstSurrogate) add(first, kFirstSurrogate - 1);
    if (last > kLastSurrogate) add(kLastSurrogate + 1, last);
    return;
  }
  CodePointRange grown{first, last};
  std::erase_if(ranges_, [&](const CodePointRange& range) {
    const bool touches = range.first <= grown.last + 1 && grown.first <= range.last + 1;
    if (touches) grown = {std::min(range.first, grown.first), std::max(range.last, grown.last)};
    return touches;
  });
  ranges_.insert(std::ranges::lower_bound(ranges_, grown.first, {}, &CodePointRange::first), grown);
}

void CodePointSet::add(const CodePointSet& other) {
  for (const CodePointRange& range : other.ranges_) add(range.first, range.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet rest;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.first > next) rest.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) rest.add(next, kLast);
  return rest;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const { return intersect(other.complement()); }

CodePointSet CodePointSet::intersect(const CodePointSet& other) const {
  CodePointSet both;
  for (const CodePointRange& mine : ranges_) {
    for (const CodePointRange& theirs : other.ranges_) {
      both.add(std::max(mine.first, theirs.first), std::min(mine.last, theirs.last));
    }
  }
  return both;
}

bool CodePointSet::contains(char32_t one) const {
  return std::ranges::any_of(ranges_,
                             [&](const CodePointRange& range) { return range.first <= one && one <= range.last; });
}

std::string to_gbnf(const CodePointSet& set) {
  std::string text = "[";
  for (const CodePointRange& range : set.ranges()) {
    text += class_member(range.first);
    if (range.last > range.first + 1) text += '-';
    if (range.last > range.first) text += class_member(range.last);
  }
  return text + "]";
}

char32_t read_code_point(std::string_view text, std::size_t& at) {
  const Character character = character_at(text, at);
  at += character.bytes;
  return is_stray_byte(character.code) ? 0xFFFD : character.code;
}

}  // namespace kvkeep::chat::grammar
