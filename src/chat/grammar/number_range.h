#pragma once

// Numbers between bounds as GBNF: JSON text in its usual form (no exponent, no leading zeros, no "+").
//
// Bounds are decimals, not doubles, so that they hold exactly as written. Pure.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/grammar/grammar_builder.h"

namespace kvkeep::chat::grammar {

// A decimal number: digits before and after the point, without needless zeros; "0" has an empty fraction and no sign.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction = {};
  bool operator==(const Decimal&) const = default;
};

// From JSON text ("-12.50", "1e3"). Fails with kInvalid if there are more than 40 digits on either side.
Result<Decimal> read_decimal(std::string_view text);
// -1, 0 or 1.
int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value = {};
  bool exclusive = false;
};
struct NumberRange {
  std::optional<NumberBound> min = {};
  std::optional<NumberBound> max = {};
};

// Expressions. Fail with kInvalid if there is no such number.
Result<std::string> integer_expression(GrammarBuilder& grammar, const NumberRange& range);
// `most_digits`: after the point; nullopt: as many as a double distinguishes.
Result<std::string> number_expression(GrammarBuilder& grammar, const NumberRange& range,
                                      std::optional<std::size_t> most_digits);
// Multiples of `step`, 2 to kLargestStep, of any sign or, on request, none. A rule per remainder.
inline constexpr std::size_t kLargestStep = 200;
std::string multiple_expression(GrammarBuilder& grammar, std::size_t step, bool may_be_negative);

}  // namespace kvkeep::chat::grammar
