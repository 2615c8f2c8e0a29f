// map, select, reject, selectattr, rejectattr: filters that run other filters and tests.

#include "chat/jinja/builtins.h"
#include "chat/jinja/item_access.h"

namespace kvkeep::chat::jinja {
namespace {

Arguments without_first(const Arguments& arguments, std::size_t count) {
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(count), arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

Value mapped_attributes(Interpreter& in, std::span<const Value> items, const Arguments& arguments) {
  const auto [attribute, fallback] = place<2>("map", arguments, {"attribute", "default"}, 1);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    in.charge(1);
    mapped.push_back(attribute_path(in, item, *attribute, fallback));
  }
  return in.generator(mapped);
}

Value filter_map(Interpreter& in, const Value& self, const Arguments& arguments) {
  const std::span<const Value> items = in.items_of(self);
  if (arguments.positional.empty()) {
    if (arguments.named.empty()) fail("map requires a filter argument");
    return mapped_attributes(in, items, arguments);
  }
  const std::string_view name = text_argument(arguments.positional.front()).view();
  const Builtin filter = find_filter(name);
  if (filter == nullptr) fail_unsupported("No filter named '", name, "'");
  const Arguments rest = without_first(arguments, 1);
  const Deeper deeper(in);  // map may map map
  std::vector<Value> mapped;
  for (const Value& item : items) {
    in.charge(1);
    mapped.push_back(filter(in, item, rest));
  }
  return in.generator(mapped);
}

Value chosen(Interpreter& in, const Value& self, const Arguments& arguments, bool by_attribute, bool wanted) {
  const std::size_t first = by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) fail("Missing parameter for attribute name");
  Builtin test = nullptr;
  Arguments rest;
  if (arguments.positional.size() > first) {
    const std::string_view name = text_argument(arguments.positional[first]).view();
    test = find_test(name);
    if (test == nullptr) fail_unsupported("No test named '", name, "'");
    rest = without_first(arguments, first + 1);
  }
  const Deeper deeper(in);
  std::vector<Value> items;
  for (const Value& item : in.items_of(self)) {
    in.charge(1);
    const Value looked_at = by_attribute ? attribute_path(in, item, arguments.positional.front()) : item;
    if (is_true(test == nullptr ? looked_at : test(in, looked_at, rest)) == wanted) items.push_back(item);
  }
  return in.generator(items);
}

Value filter_select(Interpreter& in, const Value& self, const Arguments& arguments) {
  return chosen(in, self, arguments, false, true);
}
Value filter_reject(Interpreter& in, const Value& self, const Arguments& arguments) {
  return chosen(in, self, arguments, false, false);
}
Value filter_selectattr(Interpreter& in, const Value& self, const Arguments& arguments) {
  return chosen(in, self, arguments, true, true);
}
Value filter_rejectattr(Interpreter& in, const Value& self, const Arguments& arguments) {
  return chosen(in, self, arguments, true, false);
}

constexpr NamedBuiltin kSelectFilters[] = {{"map", filter_map},
                                           {"select", filter_select},
                                           {"reject", filter_reject},
                                           {"selectattr", filter_selectattr},
                                           {"rejectattr", filter_rejectattr}};

}  // namespace

std::span<const NamedBuiltin> selection_filters() { return kSelectFilters; }

}  // namespace kvkeep::chat::jinja
