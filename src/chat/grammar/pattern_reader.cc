#include "chat/grammar/pattern_reader.h"

#include <charconv>
#include <string>
#include <utility>

namespace kvkeep::chat::grammar {
namespace {

constexpr std::size_t kDeepestGroup = 64;
constexpr std::size_t kMostCount = 1'000'000;
constexpr std::size_t kMostRanges = 2'000;

CodePointSet digits() { return {{'0', '9'}}; }
CodePointSet word_characters() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CodePointSet spaces() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CodePointSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

// The set of \d, \D, \w, \W, \s, \S.
std::optional<CodePointSet> set_of_escape(char kind) {
  switch (kind) {
    case 'd': return digits();
    case 'D': return digits().complement();
    case 'w': return word_characters();
    case 'W': return word_characters().complement();
    case 's': return spaces();
    case 'S': return spaces().complement();
    default: return std::nullopt;
  }
}

bool is_letter_or_digit(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
}

PatternNode characters_node(CodePointSet characters) {
  return {.kind = PatternNode::Kind::kCharacters, .characters = std::move(characters)};
}

// The content of a group, if it is a single node.
PatternNode& content_of(PatternNode& node) {
  const bool wraps = node.kind == PatternNode::Kind::kSequence || node.kind == PatternNode::Kind::kChoice;
  return wraps && node.children.size() == 1 ? content_of(node.children.front()) : node;
}

// A repetition of an optional part is one repetition: (x?){3} is x{0,3}, and (x*)+ is x*. Nested, "x" could be read in
// as many ways as there are places for it.
PatternNode repeated(PatternNode item, std::size_t min, std::optional<std::size_t> max) {
  PatternNode& inner = content_of(item);
  const bool is_never = max && *max == 0;
  if (inner.kind == PatternNode::Kind::kRepeat && inner.min == 0 && !is_never) {
    PatternNode one = std::move(inner);
    one.max = one.max && max ? std::optional(*one.max * *max) : std::nullopt;  // both are at most kMostCount
    return one;
  }
  PatternNode repeat{.kind = PatternNode::Kind::kRepeat, .min = min, .max = max};
  repeat.children.push_back(std::move(item));
  return repeat;
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view text) : text_(text) {}

  Result<PatternNode> read() {
    TRY_ASSIGN(PatternNode node, read_choice(0));
    if (!at_end()) return invalid("')' closes nothing");
    return node;
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char now() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  Result<PatternNode> read_choice(std::size_t depth) {
    if (depth > kDeepestGroup) return invalid("groups are nested too deep");
    PatternNode choice{.kind = PatternNode::Kind::kChoice};
    do {
      TRY_ASSIGN(PatternNode sequence, read_sequence(depth));
      choice.children.push_back(std::move(sequence));
    } while (take("|"));
    if (choice.children.size() > 1) return choice;
    return std::move(choice.children.front());
  }

  Result<PatternNode> read_sequence(std::size_t depth) {
    PatternNode sequence{.kind = PatternNode::Kind::kSequence};
    while (!at_end() && now() != '|' && now() != ')') {
      TRY_ASSIGN(PatternNode item, read_item(depth));
      TRY_ASSIGN(item, read_quantifiers(std::move(item)));
      sequence.children.push_back(std::move(item));
    }
    return sequence;
  }

  Result<PatternNode> read_item(std::size_t depth) {
    switch (now()) {
      case '^': ++at_; return PatternNode{.kind = PatternNode::Kind::kStart};
      case '$': ++at_; return PatternNode{.kind = PatternNode::Kind::kEnd};
      case '.': ++at_; return characters_node(line_ends().complement());
      case '[': ++at_; return read_class();
      case '(': ++at_; return read_group(depth);
      case '\\': ++at_; return read_escape();
      case '*':
      case '+':
      case '?': return invalid(std::string("there is nothing before '") + now() + "'");
      default: break;
    }
    CodePointSet one;
    one.add(read_code_point(text_, at_));
    return characters_node(std::move(one));
  }

  Result<PatternNode> read_group(std::size_t depth) {
    if (take("?")) {
      if (take("=") || take("!") || take("<=") || take("<!")) return invalid("lookaround cannot be enforced");
      if (take("<") || take("P<")) {
        const std::size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return invalid("a group's name has no end");
        at_ = end + 1;
      } else if (!take(":")) {
        return invalid("a group of a kind that is not known");
      }
    }
    TRY_ASSIGN(PatternNode node, read_choice(depth + 1));
    if (!take(")")) return invalid("a group has no end");
    return node;
  }

  Result<PatternNode> read_escape() {
    if (const auto set = set_of_escape(now())) {
      ++at_;
      return characters_node(*set);
    }
    TRY_ASSIGN(const char32_t one, read_escaped_character());
    CodePointSet set;
    set.add(one);
    return characters_node(std::move(set));
  }

  // After the backslash.
  Result<char32_t> read_escaped_character() {
    if (at_end()) return invalid("an escape has no end");
    const char kind = now();
    if (!is_letter_or_digit(kind)) return read_code_point(text_, at_);
    ++at_;
    switch (kind) {
      case 'n': return U'\n';
      case 't': return U'\t';
      case 'r': return U'\r';
      case 'f': return U'\f';
      case 'v': return U'\v';
      case '0': return U'\0';
      case 'x': return read_hex(2);
      case 'u': return read_unicode();
      case 'b':
      case 'B': return invalid("word boundaries (\\b) cannot be enforced");
      case 'p':
      case 'P': return invalid("Unicode properties (\\p) cannot be enforced");
      default: break;
    }
    if (kind >= '1' && kind <= '9') return invalid("backreferences cannot be enforced");
    return invalid(std::string("an escape that is not known: \\") + kind);
  }

  Result<char32_t> read_unicode() {
    if (take("{")) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos) return invalid("\\u{ has no end");
      TRY_ASSIGN(const char32_t value, read_hex(end - at_));
      ++at_;
      return value;
    }
    TRY_ASSIGN(char32_t value, read_hex(4));
    if (value >= 0xD800 && value <= 0xDBFF && take("\\u")) {
      TRY_ASSIGN(const char32_t low, read_hex(4));
      if (low < 0xDC00 || low > 0xDFFF) return invalid("a surrogate has no partner");
      value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
    }
    if (value >= 0xD800 && value <= 0xDFFF) return invalid("a surrogate has no partner");
    return value;
  }

  Result<char32_t> read_hex(std::size_t count) {
    std::uint32_t value = 0;
    const std::string_view written = text_.substr(at_, count);
    const auto [stop, error] = std::from_chars(written.data(), written.data() + written.size(), value, 16);
    const bool all = error == std::errc() && written.size() == count && stop == written.data() + count && count > 0;
    if (!all || value > 0x10FFFF) return invalid("an escape is no code point");
    at_ += count;
    return static_cast<char32_t>(value);
  }

  Result<PatternNode> read_class() {
    const bool negated = take("^");
    CodePointSet set;
    while (!take("]")) {
      if (at_end()) return invalid("a class has no end");
      TRY(read_class_member(set));
      if (set.ranges().size() > kMostRanges) return invalid("a class has too many ranges");
    }
    if (negated) set = set.complement();
    if (set.empty()) return invalid("a class matches nothing");
    return characters_node(std::move(set));
  }

  Status read_class_member(CodePointSet& set) {
    if (now() == '\\' && at_ + 1 < text_.size()) {
      if (const auto escaped = set_of_escape(text_[at_ + 1])) {
        at_ += 2;
        set.add(*escaped);
        return {};
      }
    }
    TRY_ASSIGN(const char32_t first, read_class_character());
    const bool is_range = now() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
    if (!is_range) {
      set.add(first);
      return {};
    }
    ++at_;
    if (now() == '\\' && at_ + 1 < text_.size() && set_of_escape(text_[at_ + 1])) {
      set.add(first);  // "[a-\d]": three members
      set.add('-');
      return {};
    }
    TRY_ASSIGN(const char32_t last, read_class_character());
    if (last < first) return invalid("a range of a class ends before it begins");
    set.add(first, last);
    return {};
  }

  Result<char32_t> read_class_character() {
    if (now() != '\\') return read_code_point(text_, at_);
    ++at_;
    if (take("b")) return U'\b';
    return read_escaped_character();
  }

  Result<PatternNode> read_quantifiers(PatternNode item) {
    std::size_t min = 0;
    std::optional<std::size_t> max;
    if (take("?")) {
      max = 1;
    } else if (take("+")) {
      min = 1;
    } else if (now() == '{') {
      TRY_ASSIGN(const bool counted, read_counts(min, max));
      if (!counted) return item;
    } else if (!take("*")) {
      return item;
    }
    take("?");  // lazy
    if (now() == '*' || now() == '+' || now() == '?') return invalid("a repetition is repeated");
    if (item.kind == PatternNode::Kind::kStart || item.kind == PatternNode::Kind::kEnd) {
      return invalid("an anchor is repeated");
    }
    return repeated(std::move(item), min, max);
  }

  // Returns false for a brace that is no count, which stands for itself.
  Result<bool> read_counts(std::size_t& min, std::optional<std::size_t>& max) {
    const std::size_t begin = at_++;
    const auto read_number = [&](std::size_t& number) {
      const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
      at_ = static_cast<std::size_t>(stop - text_.data());
      if (error == std::errc::result_out_of_range) number = kMostCount + 1;
      return error != std::errc::invalid_argument;
    };
    if (!read_number(min)) {
      at_ = begin;
      return false;
    }
    max = min;
    if (take(",")) {
      std::size_t most = 0;
      max = read_number(most) ? std::optional(most) : std::nullopt;
    }
    if (!take("}")) return invalid("a count has no end");
    if (min > kMostCount || (max && *max > kMostCount)) return invalid("a count is too large");
    if (max && *max < min) return invalid("a count's maximum is below its minimum");
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<PatternNode> read_pattern(std::string_view pattern) { return PatternReader(pattern).read(); }

}  // namespace kvkeep::chat::grammar
