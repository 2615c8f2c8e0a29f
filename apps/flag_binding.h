#pragma once

// Makers of Flag::assign: where a flag's value goes.

#include <fmt/ranges.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flag_set.h"
#include "value_parsers.h"

namespace kvkeep::cli {

using Assign = std::function<Status(const std::string&)>;

// A Flag, so that tables of them read as rows.
inline Flag row(std::string group, std::string name, std::vector<std::string> aliases,
                std::vector<std::string> off_names, std::string value, std::string environment,
                std::string default_text, std::string effect, Assign assign) {
  return {std::move(group),       std::move(name),         std::move(aliases), std::move(off_names), std::move(value),
          std::move(environment), std::move(default_text), std::move(effect),  std::move(assign)};
}

template <typename Number>
Assign number_into(Number& target, Number lowest, Number highest = std::numeric_limits<Number>::max()) {
  return [&target, lowest, highest](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse_number(text, lowest, highest));
    return {};
  };
}

template <typename Number>
Assign number_into(std::optional<Number>& target, Number lowest, Number highest) {
  return [&target, lowest, highest](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse_number(text, lowest, highest));
    return {};
  };
}

// As number_into; `automatic` (llama-server's -1) stands for `stored`.
template <typename Number>
Assign number_or_automatic(Number& target, Number stored, std::int64_t lowest, std::int64_t highest) {
  return [=, &target](const std::string& text) -> Status {
    if (text == "-1") {
      target = stored;
      return {};
    }
    const auto value = parse_number(text, lowest, highest);
    if (!value) return invalid(value.error().message + ", or -1");
    target = static_cast<Number>(*value);
    return {};
  };
}

// Whatever `parse` makes of the text.
template <typename Target, typename Parse>
Assign parsed_into(Target& target, Parse parse) {
  return [&target, parse](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse(text));
    return {};
  };
}

// What `parse` returns is added to the list: the flag may be repeated.
template <typename Item, typename Parse>
Assign appended_to(std::vector<Item>& target, Parse parse) {
  return [&target, parse](const std::string& text) -> Status {
    TRY_ASSIGN(std::vector<Item> items, parse(text));
    target.insert(target.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    return {};
  };
}

inline Assign text_into(std::string& target) {
  return [&target](const std::string& text) -> Status {
    target = text;
    return {};
  };
}

// A switch; `when_on` is what "on" means for the target (false for --no-disk).
inline Assign switch_into(bool& target, bool when_on = true) {
  return [&target, when_on](const std::string& text) -> Status {
    target = (text == "on") == when_on;
    return {};
  };
}

template <typename Choice>
Assign choice_into(Choice& target, std::initializer_list<std::pair<std::string, Choice>> choices) {
  return [&target, list = std::vector(choices)](const std::string& text) -> Status {
    std::vector<std::string> names;
    for (const auto& [name, choice] : list) {
      if (name == text) {
        target = choice;
        return {};
      }
      names.push_back(name);
    }
    return invalid(fmt::format("'{}' is not one of {}", text, fmt::join(names, ", ")));
  };
}

}  // namespace kvkeep::cli
