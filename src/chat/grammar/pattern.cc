#include "chat/grammar/pattern.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "chat/grammar/pattern_reader.h"

namespace kvkeep::chat::grammar {
namespace {

using Kind = PatternNode::Kind;
constexpr std::size_t kEndless = std::numeric_limits<std::size_t>::max();

std::size_t plus(std::size_t a, std::size_t b) { return a > kEndless - b ? kEndless : a + b; }
std::size_t times(std::size_t a, std::size_t b) { return a != 0 && b > kEndless / a ? kEndless : a * b; }

struct Length {
  std::size_t min = 0;
  std::size_t max = 0;  // kEndless: any
};

Length length_of(const PatternNode& node) {
  switch (node.kind) {
    case Kind::kCharacters: return {1, 1};
    case Kind::kStart:
    case Kind::kEnd: return {0, 0};
    case Kind::kRepeat: {
      const Length one = length_of(node.children.front());
      const std::size_t most = node.max.value_or(kEndless);
      return {times(one.min, node.min), one.max == 0 ? 0 : times(one.max, most)};
    }
    case Kind::kSequence: {
      Length sum;
      for (const PatternNode& child : node.children) {
        const Length part = length_of(child);
        sum = {plus(sum.min, part.min), plus(sum.max, part.max)};
      }
      return sum;
    }
    case Kind::kChoice: break;
  }
  Length all{kEndless, 0};
  for (const PatternNode& child : node.children) {
    const Length part = length_of(child);
    all = {std::min(all.min, part.min), std::max(all.max, part.max)};
  }
  return all;
}

// One of the outermost alternatives, without its anchors; an open side has "any text" there instead.
using Alternative = std::vector<PatternNode>;

PatternNode any_text() {
  PatternNode repeat{.kind = Kind::kRepeat, .min = 0};
  repeat.children.push_back({.kind = Kind::kCharacters, .characters = CodePointSet::all()});
  return repeat;
}

void split(PatternNode node, std::vector<Alternative>& alternatives) {
  if (node.kind == Kind::kChoice) {
    for (PatternNode& child : node.children) split(std::move(child), alternatives);
    return;
  }
  if (node.kind != Kind::kSequence) {
    PatternNode sequence{.kind = Kind::kSequence};
    sequence.children.push_back(std::move(node));
    node = std::move(sequence);
  }
  const bool wraps = node.children.size() == 1 &&
                     (node.children.front().kind == Kind::kChoice || node.children.front().kind == Kind::kSequence);
  if (wraps) {
    PatternNode inner = std::move(node.children.front());
    return split(std::move(inner), alternatives);
  }
  Alternative& items = node.children;
  const bool starts = !items.empty() && items.front().kind == Kind::kStart;
  if (starts) items.erase(items.begin());
  const bool ends = !items.empty() && items.back().kind == Kind::kEnd;
  if (ends) items.pop_back();
  if (!starts) items.insert(items.begin(), any_text());
  if (!ends) items.push_back(any_text());
  alternatives.push_back(std::move(items));
}

Length length_of(const Alternative& items) {
  Length sum;
  for (const PatternNode& item : items) {
    const Length part = length_of(item);
    sum = {plus(sum.min, part.min), plus(sum.max, part.max)};
  }
  return sum;
}

// Narrows the only repetition whose count decides the length, if there is one.
bool fit(Alternative& items, const LengthBounds& bounds) {
  const std::size_t most = bounds.max.value_or(kEndless);
  const Length length = length_of(items);
  if (length.min >= bounds.min && length.max <= most) return true;
  PatternNode* varying = nullptr;
  std::size_t others = 0;
  for (PatternNode& item : items) {
    const Length part = length_of(item);
    if (part.min == part.max) {
      others = plus(others, part.min);
      continue;
    }
    if (varying != nullptr || item.kind != Kind::kRepeat) return false;
    const Length one = length_of(item.children.front());
    if (one.min != 1 || one.max != 1) return false;
    varying = &item;
  }
  if (varying == nullptr || others > most) return false;
  varying->min = std::max(varying->min, bounds.min - std::min(bounds.min, others));
  if (most != kEndless) varying->max = std::min(varying->max.value_or(kEndless), most - others);
  return !varying->max || varying->min <= *varying->max;
}

// Brackets inside a class are written by number.
bool is_one_class(std::string_view text) { return text.front() == '[' && text.find(']') == text.size() - 1; }

Result<std::string> expression_of(GrammarBuilder& grammar, const PatternNode& node);

Result<std::string> sequence_expression(GrammarBuilder& grammar, const std::vector<PatternNode>& items) {
  std::string text;
  for (const PatternNode& item : items) {
    TRY_ASSIGN(const std::string part, expression_of(grammar, item));
    if (!text.empty()) text += ' ';
    text += part;
  }
  return text.empty() ? std::string("\"\"") : text;
}

Result<std::string> choice_expression(GrammarBuilder& grammar, const std::vector<PatternNode>& children) {
  std::string text;
  for (const PatternNode& child : children) {
    TRY_ASSIGN(const std::string part, expression_of(grammar, child));
    if (!text.empty()) text += " | ";
    text += part;
  }
  return grammar.add("choice", std::move(text));
}

Result<std::string> repeat_expression(GrammarBuilder& grammar, const PatternNode& node) {
  const PatternNode& item = node.children.front();
  if (!node.max && length_of(item).min == 0) return invalid("an expression that may be empty is repeated without end");
  TRY_ASSIGN(std::string text, expression_of(grammar, item));
  if (item.kind != Kind::kCharacters) text = grammar.add("part", std::move(text));
  return grammar.repeat(text, node.min, node.max);
}

Result<std::string> expression_of(GrammarBuilder& grammar, const PatternNode& node) {
  if (grammar.is_over()) return std::string("over");  // the caller asks at the end
  switch (node.kind) {
    case Kind::kCharacters: {
      std::string text = json_character(node.characters);
      return is_one_class(text) ? text : grammar.add("char", std::move(text));
    }
    case Kind::kSequence: return sequence_expression(grammar, node.children);
    case Kind::kChoice: return choice_expression(grammar, node.children);
    case Kind::kRepeat: return repeat_expression(grammar, node);
    case Kind::kStart:
    case Kind::kEnd: break;
  }
  return invalid("an anchor is inside the pattern");
}

// Follows all ways through a pattern at once.
class Matcher {
 public:
  explicit Matcher(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) text_ += read_code_point(text, at);
  }

  bool matches(const Alternative& items) { return after(items, {0}).contains(text_.size()); }
  bool gave_up() const { return steps_ > kMostSteps; }

 private:
  using Places = std::set<std::size_t>;
  static constexpr std::size_t kMostSteps = 1'000'000;

  Places after(const std::vector<PatternNode>& items, Places from) {
    for (const PatternNode& item : items) from = after(item, from);
    return from;
  }

  // Where a node may end that begins at one of these places.
  Places after(const PatternNode& node, const Places& from) {
    steps_ += from.size();
    Places ends;
    if (gave_up()) return ends;
    switch (node.kind) {
      case Kind::kCharacters:
        for (const std::size_t at : from) {
          if (at < text_.size() && node.characters.contains(text_[at])) ends.insert(at + 1);
        }
        return ends;
      case Kind::kSequence: return after(node.children, from);
      case Kind::kChoice:
        for (const PatternNode& child : node.children) ends.merge(after(child, from));
        return ends;
      case Kind::kRepeat: return after_repeat(node, from);
      case Kind::kStart:
      case Kind::kEnd: break;
    }
    return ends;
  }

  Places after_repeat(const PatternNode& node, Places from) {
    Places ends;
    for (std::size_t count = 0; !from.empty() && !gave_up(); ++count) {
      if (count >= node.min) {
        const std::size_t before = ends.size();
        ends.insert(from.begin(), from.end());
        if (ends.size() == before && count > node.min) break;  // nothing new will come
      }
      if (node.max && count >= *node.max) break;
      from = after(node.children.front(), from);
    }
    return ends;
  }

  std::u32string text_;
  std::size_t steps_ = 0;
};

}  // namespace

Result<bool> matches_pattern(std::string_view pattern, std::string_view text) {
  TRY_ASSIGN(PatternNode tree, read_pattern(pattern));
  std::vector<Alternative> alternatives;
  split(std::move(tree), alternatives);
  Matcher matcher(text);
  const bool found =
      std::ranges::any_of(alternatives, [&](const Alternative& items) { return matcher.matches(items); });
  if (matcher.gave_up()) return invalid("it takes too long to check");
  return found;
}

std::string json_character(const CodePointSet& set) {
  const CodePointSet escaped{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  std::vector<std::string> ways;
  if (const CodePointSet plain = set.without(escaped); !plain.empty()) ways.push_back(to_gbnf(plain));
  CodePointSet letters;
  for (const auto& [character, letter] :
       {std::pair(U'"', U'"'), std::pair(U'\\', U'\\'), std::pair(U'\b', U'b'), std::pair(U'\f', U'f'),
        std::pair(U'\n', U'n'), std::pair(U'\r', U'r'), std::pair(U'\t', U't')}) {
    if (set.contains(character)) letters.add(letter);
  }
  if (!letters.empty()) ways.push_back(GrammarBuilder::literal("\\") + " " + to_gbnf(letters));
  const CodePointSet lettered{{'\b', '\n'}, {'\f', '\r'}};
  for (const char32_t high : {U'\x00', U'\x10'}) {
    CodePointSet digits;
    for (char32_t low = 0; low < 16; ++low) {
      if (!set.contains(high + low) || lettered.contains(high + low)) continue;
      digits.add(low < 10 ? U'0' + low : U'a' + low - 10);
    }
    if (digits.empty()) continue;
    ways.push_back(GrammarBuilder::literal(high == 0 ? "\\u000" : "\\u001") + " " + to_gbnf(digits));
  }
  std::string text;
  for (const std::string& way : ways) text += (text.empty() ? "" : " | ") + way;
  return text;
}

Result<std::string> pattern_expression(GrammarBuilder& grammar, std::string_view pattern, const LengthBounds& length) {
  TRY_ASSIGN(PatternNode tree, read_pattern(pattern));
  std::vector<Alternative> alternatives;
  split(std::move(tree), alternatives);
  std::string text;
  for (Alternative& items : alternatives) {
    if (!fit(items, length)) return invalid("it cannot be combined with minLength and maxLength");
    TRY_ASSIGN(const std::string part, sequence_expression(grammar, items));
    text += (text.empty() ? "" : " | ") + part;
  }
  return alternatives.size() == 1 ? text : grammar.add("pattern", std::move(text));
}

}  // namespace kvkeep::chat::grammar
