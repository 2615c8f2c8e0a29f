#include "chat/replay/turn_meaning.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

namespace kvkeep::chat {
namespace {

using nlohmann::json;

constexpr std::string_view kWhiteSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

bool same_text(std::string_view sampled, const std::vector<std::size_t>& breaks, std::string_view echoed) {
  std::string_view rest = trimmed(echoed);
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= breaks.size(); ++i) {
    const std::size_t end = i < breaks.size() ? breaks[i] : sampled.size();
    const std::string_view part = trimmed(sampled.substr(begin, end - begin));
    begin = end;
    if (part.empty()) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(kWhiteSpace), rest.size()));
    if (!rest.starts_with(part)) return false;
    rest.remove_prefix(part.size());
  }
  return rest.empty();
}

bool says_nothing(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_null() || (value.is_structured() && value.empty());
}

// The number's value as text: digits without zeros at either end, and an exponent of ten. "": the exponent is too large
// for any number.
std::string decimal(std::string_view literal) {
  const bool negative = literal.starts_with('-');
  literal.remove_prefix(negative ? 1 : 0);
  const std::size_t mantissa = std::min(literal.find_first_of("eE"), literal.size());
  std::int64_t exponent = 0;
  if (mantissa < literal.size()) {
    std::string_view power = literal.substr(mantissa + 1);
    power.remove_prefix(power.starts_with('+') ? 1 : 0);
    const auto read = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (read.ec != std::errc{} || std::abs(exponent) > (std::int64_t{1} << 40)) return {};
  }
  std::string digits(literal.substr(0, mantissa));
  if (const std::size_t point = digits.find('.'); point != std::string::npos) {
    exponent -= static_cast<std::int64_t>(digits.size() - point - 1);
    digits.erase(point, 1);
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) return "0";
  const std::size_t zeros = digits.size() - 1 - digits.find_last_not_of('0');
  digits.resize(digits.size() - zeros);
  exponent += static_cast<std::int64_t>(zeros);
  return std::string(negative ? "-" : "").append(digits).append("e").append(std::to_string(exponent));
}

// Builds JSON in which numbers are binary values, which no text gives.
class ArgumentsReader final : public nlohmann::json_sax<json> {
 public:
  json take() { return std::move(root_); }

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(std::int64_t value) override { return put_number(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) override { return put_number(std::to_string(value)); }
  bool number_float(double, const std::string& literal) override { return put_number(literal); }
  bool string(std::string& value) override { return put(std::move(value)) != nullptr; }
  bool binary(json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  // The last of several values under one key counts.
  json* put(json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool put_number(const std::string& literal) {
    const std::string value = decimal(literal);
    if (value.empty()) return false;
    return put(json::binary(std::vector<std::uint8_t>(value.begin(), value.end()))) != nullptr;
  }
  bool open(json empty) {
    open_.push_back(put(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;  // a parent grows only while no child is open
  std::string key_;
};

bool same_arguments(const json& sampled, const json& echoed, EchoTolerance tolerance) {
  if (sampled == echoed) return true;
  if (!tolerance.added_arguments || !sampled.is_object() || !echoed.is_object()) return false;
  std::size_t found = 0;
  for (const auto& [key, value] : echoed.items()) {
    const auto known = sampled.find(key);
    if (known == sampled.end() ? !says_nothing(value) : *known != value) return false;
    found += known != sampled.end() ? 1 : 0;
  }
  return found == sampled.size();
}

bool contains(const std::string& text, std::string_view spelling) { return text.find(spelling) != std::string::npos; }

bool contains(const json& value, std::string_view spelling) {
  if (value.is_string()) return contains(value.get_ref<const std::string&>(), spelling);
  if (!value.is_structured()) return false;
  return std::ranges::any_of(value.items(), [&](const auto& item) {
    return (value.is_object() && contains(item.key(), spelling)) || contains(item.value(), spelling);
  });
}

}  // namespace

json read_arguments(std::string_view text) {
  ArgumentsReader reader;
  if (!json::sax_parse(text, &reader)) return json(json::value_t::discarded);
  return reader.take();
}

bool spells(const TurnMeaning& meaning, std::string_view spelling) {
  return contains(meaning.text, spelling) || contains(meaning.reasoning, spelling) ||
         std::ranges::any_of(meaning.calls, [&](const TurnMeaning::Call& call) {
           return contains(call.name, spelling) || contains(call.arguments, spelling);
         });
}

bool same_but_reasoning(const TurnMeaning& sampled, const TurnMeaning& echoed, EchoTolerance tolerance) {
  return same_text(sampled.text, sampled.text_breaks, echoed.text) &&
         std::ranges::equal(sampled.calls, echoed.calls, [&](const TurnMeaning::Call& a, const TurnMeaning::Call& b) {
           return a.name == b.name && same_arguments(a.arguments, b.arguments, tolerance);
         });
}

bool same_meaning(const TurnMeaning& sampled, const TurnMeaning& echoed, EchoTolerance tolerance) {
  return same_text(sampled.reasoning, sampled.reasoning_breaks, echoed.reasoning) &&
         same_but_reasoning(sampled, echoed, tolerance);
}

}  // namespace kvkeep::chat
