#include "chat/jinja/text_operations.h"

#include "chat/jinja/builtins.h"

namespace kvkeep::chat::jinja {
namespace {

// Characters between words for the filter `title`.
bool separates_words(char32_t code) {
  return is_space(code) || (code < 0x80 && std::string_view("-({[<").contains(static_cast<char>(code)));
}

class CaseMapper {
 public:
  CaseMapper(std::string_view text, Case to) : text_(text), to_(to) {}

  // Appends the changed character at `at`. Characters come in order, each once.
  void append(std::string& result, std::size_t at, Character character) {
    const char32_t code = character.code;
    switch (to_) {
      case Case::kUpper: return append_upper(result, code);
      case Case::kFolded: return append_folded(result, code);
      case Case::kLower: return append_lower_of(result, at, character);
      case Case::kSwapped: return append_swapped(result, at, character);
      case Case::kCapitalized: return at == 0 ? append_title(result, code) : append_lower_of(result, at, character);
      case Case::kTitleMethod:
        after_cased_ ? append_lower_of(result, at, character) : append_title(result, code);
        after_cased_ = is_cased(code);
        return;
      case Case::kTitle: return append_word(result, at, character);
    }
  }

 private:
  // As jinja2's filter does it: the rest of a word is lowered as a text without its first letter.
  void append_word(std::string& result, std::size_t at, Character character) {
    if (separates_words(character.code)) {
      word_begins_ = true;
      return append_character(result, character.code);
    }
    if (!word_begins_) return append_lower_of(result, at, character);
    append_upper(result, character.code);
    word_begins_ = false;
    lowered_begin_ = at + character.bytes;
  }

  void append_swapped(std::string& result, std::size_t at, Character character) {
    if (is_upper(character.code)) return append_lower_of(result, at, character);
    is_lower(character.code) ? append_upper(result, character.code) : append_character(result, character.code);
  }

  void append_lower_of(std::string& result, std::size_t at, Character character) {
    constexpr char32_t kCapitalSigma = 0x3A3;
    constexpr char32_t kFinalSigma = 0x3C2;
    const bool is_final =
        character.code == kCapitalSigma && follows_letter(at) && !precedes_letter(at + character.bytes);
    is_final ? append_character(result, kFinalSigma) : append_lower(result, character.code);
  }
  bool follows_letter(std::size_t at) const {
    while (at > lowered_begin_) {
      const Character before = character_before(text_, at);
      if (!is_case_ignorable(before.code)) return is_cased(before.code);
      at -= before.bytes;
    }
    return false;
  }
  bool precedes_letter(std::size_t at) const {
    while (at < text_.size()) {
      const Character next = character_at(text_, at);
      if (!is_case_ignorable(next.code)) return is_cased(next.code);
      at += next.bytes;
    }
    return false;
  }

  const std::string_view text_;
  const Case to_;
  bool word_begins_ = true;
  bool after_cased_ = false;
  std::size_t lowered_begin_ = 0;  // a sigma does not look further back for its word
};

bool ends_line(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

}  // namespace

Text mapped(Interpreter& in, const Text& text, Case to) {
  in.charge_bytes(text.size() * 4);
  const std::string_view view = text.view();
  CaseMapper mapper(view, to);
  TextBuilder builder(in.arena(), text.size());
  std::size_t at = 0;
  text.for_each_run([&](std::string_view run, Origin origin) {
    const std::size_t end = at + run.size();
    std::string result;
    result.reserve(run.size());
    while (at < end) {
      const Character character = character_at(view.substr(0, end), at);
      mapper.append(result, at, character);
      at += character.bytes;
    }
    builder.append(result, origin);
  });
  return builder.finish();
}

Text stripped(Interpreter& in, const Text& text, const Value* characters, bool front, bool back) {
  const bool space = characters == nullptr || characters->is(Kind::kNone);
  const Core core = space ? strip_space(text.view(), front, back)
                          : strip_characters(text.view(), text_argument(*characters).view(), front, back);
  in.charge_bytes(text.size() - core.size);
  return text.part(core.begin, core.size);
}

Text replaced(Interpreter& in, const Text& text, const Text& old, const Text& fresh, std::int64_t count) {
  const std::string_view view = text.view();
  in.charge_bytes(text.size());
  TextBuilder builder(in.arena(), text.size());
  std::size_t at = 0;
  bool found = false;
  for (std::size_t place = 0; count != 0; --count) {
    place = old.empty() ? place : view.find(old.view(), place);
    if (place == std::string_view::npos) break;
    found = true;
    in.charge(1);
    in.charge_bytes(fresh.size());
    builder.append(text.part(at, place - at));
    builder.append(fresh);
    at = place + old.size();
    if (old.empty() && place == view.size()) break;
    place = old.empty() ? place + character_at(view, place).bytes : at;
  }
  if (!found) return text;
  builder.append(text.from(at));
  return builder.finish();
}

std::vector<Value> lines_of(Interpreter& in, const Text& text, bool keep_ends) {
  in.charge_bytes(text.size() * 4);
  std::vector<Value> lines;
  const std::string_view view = text.view();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < view.size();) {
    const auto byte = static_cast<std::uint8_t>(view[at]);
    if (byte > 0x1E && byte < 0x80) {
      ++at;
      continue;
    }
    const Character character = character_at(view, at);
    std::size_t end = at + character.bytes;
    if (!ends_line(character.code)) {
      at = end;
      continue;
    }
    if (character.code == '\r' && end < view.size() && view[end] == '\n') ++end;
    in.charge(1);
    lines.push_back(Value::text(text.part(begin, (keep_ends ? end : at) - begin)));
    begin = at = end;
  }
  if (begin < view.size()) lines.push_back(Value::text(text.from(begin)));
  return lines;
}

Text padded(Interpreter& in, const Text& text, std::int64_t width, const Value* fill, char align) {
  const auto size = static_cast<std::int64_t>(count_characters(text.view()));
  in.charge_bytes(text.size());
  if (width <= size) return text;
  const Text filling = fill == nullptr ? in.text(" ").as_text() : text_argument(*fill);
  if (count_characters(filling.view()) != 1) fail("The fill character must be exactly one character long");
  const auto missing = static_cast<std::size_t>(width - size);
  in.charge(missing);
  // As in Python: an odd number puts one more on the left only if the width is odd.
  const std::size_t before = align == '<'   ? 0
                             : align == '>' ? missing
                                            : missing / 2 + (missing & static_cast<std::size_t>(width) & 1);
  TextBuilder builder(in.arena(), text.size() + missing * filling.size());
  for (std::size_t i = 0; i < before; ++i) builder.append(filling);
  builder.append(text);
  for (std::size_t i = before; i < missing; ++i) builder.append(filling);
  return builder.finish();
}

}  // namespace kvkeep::chat::jinja
