#pragma once

// "%s" % values and "{}".format(values), and the number formats both share.

#include <string>

#include "chat/jinja/interpreter.h"

namespace kvkeep::chat::jinja {

// `values`: a tuple, a dict (for %(name)s), or the one value.
Value percent_format(Interpreter& in, const Text& format, const Value& values);
Value brace_format(Interpreter& in, const Text& format, const Arguments& arguments);

// The fields of a format: of %-08.3f as of {:>8,.2f}.
struct NumberFormat {
  char fill = ' ';
  char align = '\0';  // < > ^ =; 0: as the type wants
  char sign = '-';    // -, +, or a space
  bool alternate = false;
  bool thousands = false;
  char separator = ',';
  std::int64_t width = 0;
  std::int64_t precision = -1;  // -1: none given
  char type = '\0';
};
// Digits with sign, without padding. The type is one of d b o x X c e E f F g G %; fails on others.
std::string formatted_number(const Value& value, const NumberFormat& format);
void append_padded(Interpreter& in, TextBuilder& builder, const Text& text, const NumberFormat& format,
                   char default_align);

}  // namespace kvkeep::chat::jinja
