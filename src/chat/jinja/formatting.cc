#include "chat/jinja/formatting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "chat/jinja/builtins.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

constexpr std::int64_t kWidestField = 1'000'000;
constexpr std::int64_t kMostPrecise = 400;

std::string with_separators(std::string digits, char separator, std::size_t group) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (std::size_t at = whole; at > group;) {
    at -= group;
    digits.insert(at, 1, separator);
  }
  return digits;
}

std::string integer_digits(std::uint64_t magnitude, const NumberFormat& format) {
  const int base = format.type == 'x' || format.type == 'X' ? 16 : format.type == 'o' ? 8 : format.type == 'b' ? 2 : 10;
  std::array<char, 65> buffer{};
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr;
  std::string digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const auto wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(format.precision, 0, kMostPrecise));
  if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  if (format.thousands) digits = with_separators(digits, format.separator, base == 10 ? 3 : 4);
  if (format.alternate && base != 10) digits.insert(0, base == 16 ? "0x" : base == 8 ? "0o" : "0b");
  if (format.type == 'X')
    std::ranges::transform(digits, digits.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return digits;
}

std::string float_digits(double magnitude, const NumberFormat& format) {
  const bool percent = format.type == '%';
  const char type = percent ? 'f' : format.type;
  if (format.precision > kMostPrecise) fail_unsupported("a precision of more than 400 digits");
  const int precision = format.precision < 0 ? 6 : static_cast<int>(format.precision);
  const std::string pattern = std::string(format.alternate ? "%#.*" : "%.*") + type;
  std::array<char, 1024> buffer{};
  const int size =
      std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision, percent ? magnitude * 100 : magnitude);
  std::string digits(buffer.data(), static_cast<std::size_t>(size));
  if (format.thousands) digits = with_separators(digits, format.separator, 3);
  return percent ? digits + "%" : digits;
}

}  // namespace

std::string formatted_number(const Value& value, const NumberFormat& format) {
  const bool integral = std::string_view("dboxX").contains(format.type) && format.type != '\0';
  bool negative = false;
  std::string digits;
  if (integral) {
    if (!value.is_integral()) fail("an integer is required, not ", type_name(value));
    const std::int64_t number = value.as_integer();
    negative = number < 0;
    digits =
        integer_digits(negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number), format);
  } else {
    if (!value.is_number()) fail("must be real number, not ", type_name(value));
    const double number = value.as_double();
    negative = std::signbit(number);
    if (format.type == '\0') {
      digits = written_number(std::abs(number));
    } else if (std::string_view("eEfFgG%").contains(format.type)) {
      digits = float_digits(std::abs(number), format);
    } else {
      fail("Unknown format code '", std::string(1, format.type), "'");
    }
  }
  if (negative || format.sign != '-') digits.insert(digits.begin(), negative ? '-' : format.sign);
  return digits;
}

void append_padded(Interpreter& in, TextBuilder& builder, const Text& text, const NumberFormat& format,
                   char default_align) {
  if (format.width > kWidestField) fail_unsupported("a width of more than a million characters");
  const std::size_t size = count_characters(text.view());
  const std::size_t missing =
      static_cast<std::int64_t>(size) < format.width ? static_cast<std::size_t>(format.width) - size : 0;
  in.charge_bytes(missing + text.size());
  const auto fill = [&](std::size_t count) { builder.append(std::string(count, format.fill), Origin::kTemplate); };
  const char align = format.align == '\0' ? default_align : format.align;
  if (align == '=') {  // between the sign and the digits
    const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+' || text.view()[0] == ' ');
    builder.append(text.part(0, sign ? 1 : 0));
    fill(missing);
    return builder.append(text.from(sign ? 1 : 0));
  }
  const std::size_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  fill(before);
  builder.append(text);
  fill(missing - before);
}

// ---- "%s" % values ----

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& in, const Text& format, const Value& values)
      : in_(in), format_(format), text_(format.view()), values_(values), builder_(in.arena(), format.size() + 16) {
    if (values.is(Kind::kTuple)) {
      positional_ = values.items();
    } else {
      positional_ = {&values_, 1};
    }
  }

  Value run() {
    while (at_ < text_.size()) {
      const std::size_t next = std::min(text_.find('%', at_), text_.size());
      builder_.append(format_.part(at_, next - at_));
      at_ = next + 1;
      if (next < text_.size()) append_field();
    }
    const bool all_used = next_ >= positional_.size() || values_.is_dict() || values_.is(Kind::kList);
    if (!all_used) fail("not all arguments converted during string formatting");
    return Value::text(builder_.finish());
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  const Value& next_value() {
    if (next_ >= positional_.size()) fail("not enough arguments for format string");
    return positional_[next_++];
  }

  Value named_value() {
    const std::size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) fail("incomplete format key");
    if (!values_.is_dict()) fail("format requires a mapping");
    const Value key = Value::text(format_.part(at_ + 1, close - at_ - 1));
    const Value* found = values_.as_dict().find(key);
    if (found == nullptr) fail("'", key.as_view(), "'");
    at_ = close + 1;
    return *found;
  }

  // A number in the format, or `*`: the next value is it.
  std::int64_t read_count() {
    if (peek() == '*') {
      ++at_;
      const Value& value = next_value();
      if (!value.is_integral()) fail("* wants int");
      return value.as_integer();
    }
    std::int64_t count = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      count = count * 10 + (peek() - '0');
      if (count > 10'000'000) fail_unsupported("a width of more than a million characters");
    }
    return count;
  }

  NumberFormat read_format() {
    NumberFormat format;
    format.align = '>';
    bool zero = false;
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '-') {
        format.align = '<';
      } else if (flag == '0') {
        zero = true;
      } else if (flag == '+' || (flag == ' ' && format.sign != '+')) {
        format.sign = flag;
      } else if (flag == '#') {
        format.alternate = true;
      } else if (flag != ' ') {
        break;
      }
    }
    format.width = read_count();
    if (format.width < 0) {
      format.align = '<';
      format.width = -format.width;
    }
    if (peek() == '.') {
      ++at_;
      format.precision = read_count();
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    if (zero && format.align == '>') {
      format.fill = '0';
      format.align = '=';
    }
    return format;
  }

  void append_field() {
    const bool named = peek() == '(';
    const Value value = named ? named_value() : Value();
    NumberFormat format = read_format();
    if (at_ >= text_.size()) fail("incomplete format");
    const char type = text_[at_++];
    if (type == '%') return builder_.append("%", Origin::kTemplate);
    append_value(named ? value : next_value(), type, format);
  }

  void append_value(const Value& value, char type, NumberFormat& format) {
    if (type == 's' || type == 'r' || type == 'a' || type == 'c') return append_text(value, type, format);
    if (type == 'd' || type == 'i' || type == 'u') {
      format.type = 'd';
      if (!value.is_number()) fail("%d format: a real number is required, not ", type_name(value));
      const bool whole = value.is_integral();
      if (!whole && !(std::abs(value.as_double()) < 9e18)) fail("integer overflow: integers have 64 bits here");
      return append_number(whole ? value : Value::integer(static_cast<std::int64_t>(value.as_double())), format);
    }
    if (!std::string_view("oxXeEfFgG").contains(type)) {
      fail("unsupported format character '", std::string(1, type), "'");
    }
    format.type = type;
    append_number(value, format);
  }

  void append_number(const Value& value, const NumberFormat& format) {
    if (format.align == '=' && value.is(Kind::kFloat) && !std::isfinite(value.as_double()))
      fail_unsupported("padding nan or inf");
    append_padded(in_, builder_, in_.text(formatted_number(value, format)).as_text(), format, '>');
  }

  void append_text(const Value& value, char type, NumberFormat& format) {
    Text text;
    if (type == 's') {
      text = written(in_, value);
    } else if (type == 'c') {
      if (value.is_text() && count_characters(value.as_view()) == 1) {
        text = value.as_text();
      } else {
        if (!value.is_integral() || value.as_integer() < 0 || value.as_integer() > 0x10FFFF)
          fail("%c requires int or char");
        std::string character;
        append_character(character, static_cast<char32_t>(value.as_integer()));
        text = in_.text(character).as_text();
      }
    } else {
      TextBuilder repr(in_.arena());
      append_repr(in_, value, repr);
      text = repr.finish();
    }
    if (format.precision >= 0) text = text.part(0, offset_of(text.view(), static_cast<std::size_t>(format.precision)));
    if (format.align == '=') {  // zeros are for numbers
      format.align = '>';
      format.fill = ' ';
    }
    append_padded(in_, builder_, text, format, '>');
  }

  Interpreter& in_;
  const Text format_;
  const std::string_view text_;
  const Value values_;
  TextBuilder builder_;
  std::span<const Value> positional_;
  std::size_t next_ = 0;
  std::size_t at_ = 0;
};

}  // namespace

Value percent_format(Interpreter& in, const Text& format, const Value& values) {
  in.charge_bytes(format.size());
  return PercentFormatter(in, format, values).run();
}

// ---- "{}".format(values) ----

namespace {

bool is_align(char byte) { return byte == '<' || byte == '>' || byte == '^' || byte == '='; }

std::int64_t read_number(std::string_view spec, std::size_t& at) {
  std::int64_t number = 0;
  for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at) {
    number = number * 10 + (spec[at] - '0');
    if (number > 10'000'000) fail_unsupported("a width of more than a million characters");
  }
  return number;
}

// [[fill]align][sign][#][0][width][,][.precision][type]
NumberFormat parse_spec(std::string_view spec) {
  NumberFormat format;
  std::size_t at = 0;
  const auto peek = [&] { return at < spec.size() ? spec[at] : '\0'; };
  if (spec.size() >= 2 && is_align(spec[1])) {
    format.fill = spec[0];
    format.align = spec[1];
    at = 2;
  } else if (is_align(peek())) {
    format.align = spec[at++];
  }
  if (peek() == '+' || peek() == '-' || peek() == ' ') format.sign = spec[at++];
  if (peek() == '#') {
    format.alternate = true;
    ++at;
  }
  if (peek() == '0') {
    ++at;
    if (format.align == '\0') {
      format.align = '=';
      format.fill = '0';
    }
  }
  format.width = read_number(spec, at);
  if (peek() == ',' || peek() == '_') {
    format.thousands = true;
    format.separator = spec[at++];
  }
  if (peek() == '.') {
    ++at;
    if (peek() < '0' || peek() > '9') fail("Format specifier missing precision");
    format.precision = read_number(spec, at);
  }
  if (at < spec.size()) format.type = spec[at++];
  if (at < spec.size()) fail("Invalid format specifier");
  return format;
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& in, const Text& format, const Arguments& arguments)
      : in_(in),
        format_(format),
        text_(format.view()),
        arguments_(arguments),
        builder_(in.arena(), format.size() + 16) {}

  Value run() {
    while (at_ < text_.size()) {
      const std::size_t next = std::min(text_.find_first_of("{}", at_), text_.size());
      builder_.append(format_.part(at_, next - at_));
      at_ = next;
      if (at_ == text_.size()) break;
      if (at_ + 1 < text_.size() && text_[at_ + 1] == text_[at_]) {
        builder_.append(format_.part(at_, 1));
        at_ += 2;
      } else if (text_[at_] == '}') {
        fail("Single '}' encountered in format string");
      } else {
        append_field();
      }
    }
    return Value::text(builder_.finish());
  }

 private:
  void append_field() {
    const std::size_t close = text_.find('}', at_);
    if (close == std::string_view::npos) fail("Single '{' encountered in format string");
    Text field = format_.part(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    if (field.view().contains('{')) fail_unsupported("format fields within format fields");
    std::string_view spec;
    if (const std::size_t colon = field.view().find(':'); colon != std::string_view::npos) {
      spec = field.view().substr(colon + 1);
      field = field.part(0, colon);
    }
    char conversion = '\0';
    if (const std::size_t mark = field.view().find('!'); mark != std::string_view::npos) {
      if (mark + 2 != field.size()) fail("expected ':' after conversion specifier");
      conversion = field.view()[mark + 1];
      field = field.part(0, mark);
    }
    append_value(converted(look_up(field), conversion), spec);
  }

  Value converted(const Value& value, char conversion) {
    if (conversion == '\0') return value;
    if (conversion == 's') return Value::text(written(in_, value));
    if (conversion != 'r' && conversion != 'a') fail("Unknown conversion specifier");
    TextBuilder repr(in_.arena());
    append_repr(in_, value, repr);
    return Value::text(repr.finish());
  }

  // 0.name[key]: the first part is an argument, the rest goes into it.
  Value look_up(const Text& field) {
    const std::string_view path = field.view();
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, at));
    while (at < path.size()) {
      const bool bracket = path[at] == '[';
      std::size_t end = bracket ? path.find(']', at) : path.find_first_of(".[", at + 1);
      if (bracket && end == std::string_view::npos) fail("Missing ']' in format string");
      end = std::min(end, path.size());
      const Text key = field.part(at + 1, end - at - 1);
      std::size_t digits = 0;
      const std::int64_t index = read_number(key.view(), digits);
      const bool is_index = bracket && !key.empty() && digits == key.size();
      value = is_index  ? in_.item(value, Value::integer(index))
              : bracket ? in_.item(value, Value::text(key))
                        : in_.attribute(value, Value::text(key), nullptr);
      at = bracket ? end + 1 : end;
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::size_t digits = 0;
    auto index = static_cast<std::size_t>(read_number(name, digits));
    if (name.empty()) index = next_++;
    if (digits == name.size()) {
      if (index >= arguments_.positional.size()) fail("Replacement index ", index, " out of range");
      return arguments_.positional[index];
    }
    for (const Entry& entry : arguments_.named) {
      if (entry.key.as_view() == name) return entry.value;
    }
    fail("'", name, "'");
  }

  void append_value(const Value& value, std::string_view spec) {
    if (spec.empty()) return builder_.append(written(in_, value));
    NumberFormat format = parse_spec(spec);
    if (value.is_text()) {
      if (format.type != '\0' && format.type != 's') fail("Unknown format code for object of type 'str'");
      if (format.align == '=') format.align = format.fill == '0' ? '<' : fail_alignment();
      Text text = value.as_text();
      if (format.precision >= 0)
        text = text.part(0, offset_of(text.view(), static_cast<std::size_t>(format.precision)));
      return append_padded(in_, builder_, text, format, '<');
    }
    if (!value.is_number()) fail("unsupported format string passed to ", type_name(value), ".__format__");
    if (format.type == '\0' && value.is_integral()) format.type = 'd';
    if (format.type == 'n') format.type = value.is_integral() ? 'd' : 'g';
    if (format.type == '\0' && format.precision >= 0) format.type = 'g';
    if (format.type == 'd' && format.precision >= 0) fail("Precision not allowed in integer format specifier");
    append_padded(in_, builder_, in_.text(formatted_number(value, format)).as_text(), format, '>');
  }

  [[noreturn]] static char fail_alignment() { fail("'=' alignment not allowed in string format specifier"); }

  Interpreter& in_;
  const Text format_;
  const std::string_view text_;
  const Arguments& arguments_;
  TextBuilder builder_;
  std::size_t at_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Value brace_format(Interpreter& in, const Text& format, const Arguments& arguments) {
  in.charge_bytes(format.size());
  return BraceFormatter(in, format, arguments).run();
}

}  // namespace kvkeep::chat::jinja
