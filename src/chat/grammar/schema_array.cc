// Arrays: items of a prefix, each with its own schema, then items of one kind.

#include <algorithm>
#include <utility>

#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
namespace {

std::size_t count_of(const Json& value) { return static_cast<std::size_t>(value.get<double>()); }

}  // namespace

Result<std::string> SchemaWriter::write_array(const Json& base, const std::string& path, const std::string& hint) {
  return inside([&]() -> Result<std::string> {
    const Json* unique = find(base, "uniqueItems");
    const std::size_t min = base.contains("minItems") ? count_of(base["minItems"]) : 0;
    std::optional<std::size_t> max;
    if (const Json* most = find(base, "maxItems")) max = count_of(*most);
    if (unique != nullptr && *unique == true && max.value_or(2) > 1)
      TRY(cannot(path, "'uniqueItems' cannot be enforced"));
    if (const Json* others = find(base, "unevaluatedItems"); others != nullptr && others->is_object()) {
      TRY(cannot(path, "'unevaluatedItems' cannot be enforced"));
    }
    std::vector<std::string> prefix;
    if (const Json* schemas = find(base, "prefixItems")) {
      for (std::size_t i = 0; i < schemas->size(); ++i) {
        const std::string number = std::to_string(i);
        TRY_ASSIGN(std::string item, visit((*schemas)[i], path + ".prefixItems[" + number + "]", hint + "-" + number));
        if (item.empty()) {  // the array ends before an item that cannot be
          max = std::min(max.value_or(i), i);
          break;
        }
        prefix.push_back(std::move(item));
      }
    }
    // As with objects: a tuple that does not mention further items has none, unless it must.
    const Json* items = find(base, "items");
    const bool closed = items == nullptr && base.contains("prefixItems") && min <= prefix.size();
    static const Json kAny = true;
    std::string rest;
    if (!closed && (!max || *max > prefix.size())) {
      TRY_ASSIGN(rest, visit(items == nullptr ? kAny : *items, path + ".items", hint + "-item"));
    }
    if (rest.empty()) max = std::min(max.value_or(prefix.size()), prefix.size());
    if (max && *max < min) return std::string();
    if (max && *max < prefix.size()) prefix.resize(*max);
    return grammar_.add(hint, array_body(prefix, rest, min, max));
  });
}

std::string SchemaWriter::array_body(const std::vector<std::string>& prefix, const std::string& rest, std::size_t min,
                                     std::optional<std::size_t> max) {
  const std::string comma = json_.comma();
  const auto optional = [](const std::string& text) { return "(" + text + ")?"; };
  const auto less = [](std::size_t count, std::size_t by) { return count - std::min(count, by); };
  const bool has_rest = !rest.empty() && max != prefix.size();
  // The items after item i, from the last on.
  std::string tail;
  if (has_rest && !(prefix.empty() && max == std::size_t{1})) {
    const std::string more = grammar_.add("more-items", comma + " " + rest);
    const std::size_t before = std::max<std::size_t>(prefix.size(), 1);
    tail = grammar_.repeat(more, less(min, before), max ? std::optional(*max - before) : std::nullopt);
  }
  std::string first = rest;
  for (std::size_t i = prefix.size(); i-- > 1;) {
    const std::string text = comma + " " + prefix[i] + (tail.empty() ? "" : " " + tail);
    tail = grammar_.add("more-items", i >= min ? optional(text) : text);
  }
  if (!prefix.empty()) first = prefix.front();
  if (first.empty() || max == std::size_t{0}) return json_.open('[') + " " + json_.close(']');
  std::string inner = first + (tail.empty() ? "" : " " + tail);
  if (min == 0) inner = optional(inner);
  return json_.open('[') + " " + inner + " " + json_.close(']');
}

}  // namespace kvkeep::chat::grammar
