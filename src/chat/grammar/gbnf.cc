#include "chat/grammar/gbnf.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "base/unicode.h"
#include "chat/grammar/gbnf_cost.h"

namespace kvkeep::chat::grammar {
namespace {

// libllama refuses larger counts.
constexpr std::size_t kMostRepeats = 1'999;

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_word(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '-' || is_digit(byte);
}

// One text. Reading stops at the first error.
class Reader {
 public:
  Reader(std::string_view text, const GbnfLimits& limits) : text_(text), limits_(limits) {}

  Result<Gbnf> read() {
    skip_space(true);
    while (!at_end()) TRY(read_rule());
    for (const GbnfRule& rule : grammar_.rules) {
      if (!rule.defined) return invalid("line " + std::to_string(rule.line) + ": there is no rule '" + rule.name + "'");
    }
    const auto root = names_.find("root");
    if (root == names_.end()) return invalid("there is no rule 'root', where a grammar begins");
    grammar_.root = root->second;
    return std::move(grammar_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char now() const { return at_end() ? '\0' : text_[at_]; }
  char ahead(std::size_t count) const { return at_ + count < text_.size() ? text_[at_ + count] : '\0'; }

  Error wrong(const std::string& what) { return invalid("line " + std::to_string(line()) + ": " + what); }

  std::size_t line() {
    for (; counted_ < std::min(at_, text_.size()); ++counted_) line_ += text_[counted_] == '\n' ? 1 : 0;
    return line_;
  }

  void skip_space(bool newlines) {
    while (!at_end()) {
      const char byte = now();
      if (byte == '#') {
        while (!at_end() && now() != '\n' && now() != '\r') ++at_;
      } else if (byte == ' ' || byte == '\t' || (newlines && (byte == '\r' || byte == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::size_t rule_named(std::string_view name) {
    if (const auto known = names_.find(name); known != names_.end()) return known->second;
    const std::size_t index = new_rule();
    GbnfRule& rule = grammar_.rules[index];
    rule.name = name;
    rule.defined = false;
    rule.line = line();
    names_.emplace(std::string(name), index);
    return index;
  }

  std::size_t new_rule() {
    grammar_.rules.push_back({.name = "", .alternatives = {}, .defined = true, .line = 0});
    return grammar_.rules.size() - 1;
  }

  std::string_view read_word() {
    const std::size_t begin = at_;
    while (is_word(now())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Status read_rule() {
    const std::string_view name = read_word();
    if (name.empty()) return wrong("a rule's name is expected");
    const std::size_t index = rule_named(name);
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") return wrong("'::=' is expected");
    at_ += 3;
    skip_space(true);
    TRY_ASSIGN(auto alternatives, read_alternatives(0));
    grammar_.rules[index].alternatives = std::move(alternatives);
    grammar_.rules[index].defined = true;
    if (!at_end() && now() != '\n' && now() != '\r') return wrong(std::string("'") + now() + "' is not expected");
    skip_space(true);
    return {};
  }

  Result<std::vector<SymbolSequence>> read_alternatives(std::size_t nesting) {
    if (nesting > limits_.nesting) return wrong("groups are nested too deep");
    std::vector<SymbolSequence> alternatives;
    for (;;) {
      TRY_ASSIGN(SymbolSequence sequence, read_sequence(nesting));
      alternatives.push_back(std::move(sequence));
      if (now() != '|') return alternatives;
      ++at_;
      skip_space(true);
    }
  }

  // The repeated symbols, from `begin` on, and the number of rules that libllama counts for them.
  struct Repeated {
    std::size_t begin = 0;
    std::size_t rules = 1;
  };

  Result<SymbolSequence> read_sequence(std::size_t nesting) {
    SymbolSequence sequence;
    Repeated last;
    for (;;) {
      const char byte = now();
      if (byte == '*' || byte == '+' || byte == '?' || byte == '{') {
        TRY(read_repetition(sequence, last, nesting > 0));
        continue;
      }
      const std::size_t begin = sequence.size();
      const std::size_t rules_before = grammar_.rules.size();
      TRY_ASSIGN(const bool found, read_symbol(sequence, nesting));
      if (!found) return sequence;
      last = {begin, byte == '(' ? grammar_.rules.size() - rules_before : 1};
      skip_space(nesting > 0);
    }
  }

  // Returns false if no symbol begins here.
  Result<bool> read_symbol(SymbolSequence& sequence, std::size_t nesting) {
    const char byte = now();
    if (byte == '"') {
      TRY(read_literal(sequence));
    } else if (byte == '[') {
      TRY(read_class(sequence));
    } else if (byte == '<' || byte == '!') {
      TRY(read_token(sequence));
    } else if (is_word(byte)) {
      sequence.push_back({.kind = Symbol::Kind::kRule, .rule = rule_named(read_word())});
    } else if (byte == '(') {
      TRY(read_group(sequence, nesting));
    } else if (byte == '.') {
      ++at_;
      sequence.push_back({.kind = Symbol::Kind::kCharacters, .characters = CodePointSet::all()});
    } else {
      return false;
    }
    TRY(count_symbols(1));
    return true;
  }

  Status count_symbols(std::size_t more) {
    symbols_ += more;
    if (symbols_ > limits_.symbols) return wrong("the grammar is too large once its repetitions are written out");
    return {};
  }

  Status read_group(SymbolSequence& sequence, std::size_t nesting) {
    ++at_;
    skip_space(true);
    const std::size_t index = new_rule();
    TRY_ASSIGN(auto alternatives, read_alternatives(nesting + 1));
    if (now() != ')') return wrong("')' is expected");
    ++at_;
    grammar_.rules[index].alternatives = std::move(alternatives);
    sequence.push_back({.kind = Symbol::Kind::kRule, .rule = index});
    return {};
  }

  Status read_literal(SymbolSequence& sequence) {
    ++at_;
    while (now() != '"') {
      TRY_ASSIGN(const char32_t one, read_character());
      append_character(grammar_.literals, one);
      TRY(count_symbols(1));
      CodePointSet characters;
      characters.add(one);
      sequence.push_back({.kind = Symbol::Kind::kCharacters, .characters = std::move(characters)});
    }
    ++at_;
    grammar_.literals += '\n';
    return {};
  }

  Status read_class(SymbolSequence& sequence) {
    ++at_;
    const bool negated = now() == '^';
    if (negated) ++at_;
    CodePointSet characters;
    while (now() != ']') {
      TRY_ASSIGN(const char32_t first, read_character());
      char32_t last = first;
      if (now() == '-' && ahead(1) != ']') {
        ++at_;
        TRY_ASSIGN(last, read_character());
      }
      characters.add(first, last);
      if (characters.ranges().size() > kMostRanges) return wrong("a class has too many ranges");
    }
    ++at_;
    if (negated) characters = characters.complement();
    sequence.push_back({.kind = Symbol::Kind::kCharacters, .characters = std::move(characters)});
    return {};
  }

  // "<think>", "<[123]>", and both with '!' before them.
  Status read_token(SymbolSequence& sequence) {
    const bool negated = now() == '!';
    if (negated) ++at_;
    const std::size_t begin = at_;
    const std::size_t end = text_.find('>', at_);
    if (now() != '<' || end == std::string_view::npos) return wrong("a token is written <like-this> or <[123]>");
    at_ = end + 1;
    sequence.push_back({.kind = negated ? Symbol::Kind::kNotToken : Symbol::Kind::kToken,
                        .token = std::string(text_.substr(begin, at_ - begin))});
    return {};
  }

  Result<char32_t> read_character() {
    if (at_end()) return wrong("a literal or a class has no end");
    if (now() == '\0') return wrong("a NUL cannot be written");
    if (now() != '\\') return read_code_point(text_, at_);
    const char kind = ahead(1);
    at_ += 2;
    switch (kind) {
      case 'x': return read_hex(2);
      case 'u': return read_hex(4);
      case 'U': return read_hex(8);
      case 't': return U'\t';
      case 'r': return U'\r';
      case 'n': return U'\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-': return static_cast<char32_t>(kind);
      default: return wrong("an escape that GBNF does not know");
    }
  }

  Result<char32_t> read_hex(std::size_t digits) {
    std::uint32_t value = 0;
    const char* begin = text_.data() + at_;
    const char* end = begin + std::min(digits, text_.size() - std::min(at_, text_.size()));
    const auto [stop, error] = std::from_chars(begin, end, value, 16);
    if (error != std::errc() || stop != begin + digits) return wrong("an escape has too few hexadecimal digits");
    at_ += digits;
    if (value > 0x10FFFF) return wrong("an escape is no code point");
    return static_cast<char32_t>(value);
  }

  Result<std::size_t> read_count() {
    skip_space(true);
    std::size_t count = 0;
    const char* begin = text_.data() + at_;
    const auto [stop, error] = std::from_chars(begin, text_.data() + text_.size(), count);
    if (error == std::errc::invalid_argument) return wrong("a count is expected");
    at_ += static_cast<std::size_t>(stop - begin);
    if (error != std::errc() || count > kMostRepeats) {
      return wrong("a count is larger than " + std::to_string(kMostRepeats) + ", which libllama does not take");
    }
    skip_space(true);
    return count;
  }

  // '*', '+', '?', '{m}', '{m,}' or '{m,n}'.
  Status read_repetition(SymbolSequence& sequence, Repeated& last, bool nested) {
    if (last.begin == sequence.size()) return wrong("there is nothing before a repetition");
    std::size_t min = 0;
    std::optional<std::size_t> max;
    const char kind = now();
    ++at_;
    if (kind == '+') min = 1;
    if (kind == '?') max = 1;
    if (kind == '{') {
      TRY_ASSIGN(min, read_count());
      if (now() == '}') {
        max = min;
      } else {
        if (now() != ',') return wrong("',' or '}' is expected");
        ++at_;
        skip_space(true);
        if (now() != '}') {
          TRY_ASSIGN(max, read_count());
        }
        if (now() != '}') return wrong("'}' is expected");
      }
      ++at_;
    }
    if (max && *max < min) return wrong("a count's maximum is below its minimum");
    last.rules *= std::max<std::size_t>(1, max && *max > 0 ? *max : min);
    if (last.rules > kMostRepeats) return wrong("a repetition repeats more rules than libllama takes");
    skip_space(nested);
    return repeat(sequence, last.begin, min, max);
  }

  // S{m,n} is S m times, then S' ::= S S'' | "", n - m of these; S* is S' ::= S S' | "".
  Status repeat(SymbolSequence& sequence, std::size_t last, std::size_t min, std::optional<std::size_t> max) {
    const SymbolSequence item(sequence.begin() + static_cast<std::ptrdiff_t>(last), sequence.end());
    const std::size_t optional = max ? *max - min : 1;
    TRY(count_symbols((item.size() + 2) * (min + optional)));
    sequence.resize(last);
    for (std::size_t i = 0; i < min; ++i) sequence.insert(sequence.end(), item.begin(), item.end());
    std::optional<std::size_t> next;
    for (std::size_t i = 0; i < optional; ++i) {
      const std::size_t index = new_rule();
      SymbolSequence one = item;
      if (!max) next = index;
      if (next) one.push_back({.kind = Symbol::Kind::kRule, .rule = *next});
      grammar_.rules[index].alternatives = {std::move(one), {}};
      next = index;
    }
    if (next) sequence.push_back({.kind = Symbol::Kind::kRule, .rule = *next});
    return {};
  }

  static constexpr std::size_t kMostRanges = 2'000;
  std::string_view text_;
  const GbnfLimits& limits_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;  // bytes whose newlines are in line_
  std::size_t line_ = 1;
  std::size_t symbols_ = 0;
  Gbnf grammar_;
  std::map<std::string, std::size_t, std::less<>> names_;
};

}  // namespace

Result<Gbnf> read_gbnf(std::string_view text, const GbnfLimits& limits) {
  if (text.size() > limits.bytes) return invalid("it is longer than " + std::to_string(limits.bytes) + " bytes");
  TRY_ASSIGN(Gbnf grammar, Reader(text, limits).read());
  TRY(check_walks(grammar, limits.ways));
  if (const auto steps = check_growth(grammar, limits); !steps) return steps.error();
  return grammar;
}

}  // namespace kvkeep::chat::grammar
