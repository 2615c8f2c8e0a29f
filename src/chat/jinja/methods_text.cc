// Methods of texts that change them; those that look into them or take them apart are in methods_search.cc.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

template <Case kCase>
Value method_case(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("str method", arguments, {});
  return Value::text(mapped(in, self.as_text(), kCase));
}

template <bool kFront, bool kBack>
Value method_strip(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [characters] = place<1>("strip", arguments, {"chars"});
  return Value::text(stripped(in, self.as_text(), characters, kFront, kBack));
}

template <char kAlign>
Value method_pad(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width, fill] = place<2>("justify", arguments, {"width", "fillchar"}, 1);
  return Value::text(padded(in, self.as_text(), integer_argument(width, 0), fill, kAlign));
}

Value method_zfill(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width] = place<1>("zfill", arguments, {"width"}, 1);
  const Text text = self.as_text();
  const bool sign = !text.empty() && (text.view()[0] == '+' || text.view()[0] == '-');
  const Value zero = in.text("0");
  TextBuilder builder(in.arena(), text.size());
  builder.append(text.part(0, sign ? 1 : 0));
  builder.append(padded(in, text.from(sign ? 1 : 0), integer_argument(width, 0) - (sign ? 1 : 0), &zero, '>'));
  return Value::text(builder.finish());
}

Value method_replace(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [old, fresh, count] = place<3>("replace", arguments, {"old", "new", "count"}, 2);
  return Value::text(
      replaced(in, self.as_text(), text_argument(*old), text_argument(*fresh), integer_argument(count, -1)));
}

Value method_join(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [items] = place<1>("join", arguments, {"iterable"}, 1);
  TextBuilder builder(in.arena());
  std::size_t index = 0;
  for (const Value& item : in.items_of(*items)) {
    if (!item.is_text()) {
      fail("sequence item ", index, ": expected str instance, ", type_name(item), " found");
    }
    if (index++ > 0) builder.append(self.as_text());
    in.charge(1);
    in.charge_bytes(item.as_text().size() + self.as_text().size());
    builder.append(item.as_text());
  }
  return Value::text(builder.finish());
}

Value method_format(Interpreter& in, const Value& self, const Arguments& arguments) {
  return brace_format(in, self.as_text(), arguments);
}

Value method_removeprefix(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [prefix] = place<1>("removeprefix", arguments, {"prefix"}, 1);
  const Text text = self.as_text();
  const Text head = text_argument(*prefix);
  return text.view().starts_with(head.view()) ? Value::text(text.from(head.size())) : self;
}

Value method_removesuffix(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [suffix] = place<1>("removesuffix", arguments, {"suffix"}, 1);
  const Text text = self.as_text();
  const Text tail = text_argument(*suffix);
  return text.view().ends_with(tail.view()) ? Value::text(text.part(0, text.size() - tail.size())) : self;
}

Value method_expandtabs(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width] = place<1>("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = integer_argument(width, 8);
  if (size > 1000) fail_unsupported("tabs of more than 1000 columns");
  const Text text = self.as_text();
  TextBuilder builder(in.arena(), text.size());
  std::int64_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    in.charge(1);
    const Character character = character_at(text.view(), at);
    if (character.code == '\t') {
      const std::int64_t spaces = size <= 0 ? 0 : size - column % size;
      builder.append(std::string(static_cast<std::size_t>(spaces), ' '), Origin::kTemplate);
      column += spaces;
    } else {
      builder.append(text.part(at, character.bytes));
      column = character.code == '\n' || character.code == '\r' ? 0 : column + 1;
    }
    at += character.bytes;
  }
  return Value::text(builder.finish());
}

constexpr NamedBuiltin kTextMethods[] = {{"upper", method_case<Case::kUpper>},
                                         {"lower", method_case<Case::kLower>},
                                         {"casefold", method_case<Case::kFolded>},
                                         {"capitalize", method_case<Case::kCapitalized>},
                                         {"title", method_case<Case::kTitleMethod>},
                                         {"swapcase", method_case<Case::kSwapped>},
                                         {"strip", method_strip<true, true>},
                                         {"lstrip", method_strip<true, false>},
                                         {"rstrip", method_strip<false, true>},
                                         {"ljust", method_pad<'<'>},
                                         {"rjust", method_pad<'>'>},
                                         {"center", method_pad<'^'>},
                                         {"zfill", method_zfill},
                                         {"replace", method_replace},
                                         {"join", method_join},
                                         {"format", method_format},
                                         {"removeprefix", method_removeprefix},
                                         {"removesuffix", method_removesuffix},
                                         {"expandtabs", method_expandtabs}};

}  // namespace

std::span<const NamedBuiltin> text_methods() { return kTextMethods; }

}  // namespace kvkeep::chat::jinja
