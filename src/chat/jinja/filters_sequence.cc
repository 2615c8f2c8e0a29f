// Filters over lists, dicts and the like.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

Value ignoring_case(Interpreter& in, const Value& value) {
  return value.is_text() ? Value::text(mapped(in, value.as_text(), Case::kLower)) : value;
}

Value filter_length(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("length", arguments, {});
  return Value::integer(static_cast<std::int64_t>(in.length_of(self)));
}

Value filter_first(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("first", arguments, {});
  if (self.is_text() && !self.as_text().empty()) return in.character(self.as_text(), 0);
  const std::span<const Value> items = in.items_of(self);
  if (items.empty()) return Value::undefined("No first item, sequence was empty.", Absence::kMessage);
  return items.front();
}

Value filter_last(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("last", arguments, {});
  if (self.is(Kind::kView) && self.as_view_object().of == View::Of::kGenerator) {
    fail("'generator' object is not reversible");
  }
  const std::span<const Value> items = in.items_of(self);
  if (items.empty()) return Value::undefined("No last item, sequence was empty.", Absence::kMessage);
  return items.back();
}

Value filter_list(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("list", arguments, {});
  return in.list(in.items_of(self));
}

Value filter_reverse(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("reverse", arguments, {});
  if (self.is_text()) return in.slice(self, Value::none(), Value::none(), Value::integer(-1));
  const std::span<const Value> items = in.items_of(self);
  const std::vector<Value> reversed(items.rbegin(), items.rend());
  const bool generator = self.is(Kind::kView) && self.as_view_object().of == View::Of::kGenerator;
  return generator ? in.list(reversed) : in.generator(reversed);
}

Value sorted(Interpreter& in, std::vector<std::pair<Value, Value>> keyed, bool reverse) {
  sort_stably(keyed, [&](const auto& a, const auto& b) {
    in.charge(1);
    return reverse ? less_than(b.first, a.first) : less_than(a.first, b.first);
  });
  std::vector<Value> items;
  items.reserve(keyed.size());
  for (const auto& [key, item] : keyed) items.push_back(item);
  return in.list(items);
}

Value filter_sort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [reverse, sensitive, attribute] = place<3>("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const SortKey key{attribute, bool_argument(sensitive, false)};
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : in.items_of(self)) keyed.emplace_back(key.all_of(in, item), item);
  return sorted(in, std::move(keyed), bool_argument(reverse, false));
}

std::span<const Entry> entries_of(const Value& value) {
  if (value.is_undefined()) fail(value.absence());
  if (!value.is_dict()) fail("'", type_name(value), " object' has no attribute 'items'");
  return value.as_dict().all();
}

Value filter_dictsort(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [sensitive, by, reverse] = place<3>("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string_view side = by == nullptr ? "key" : text_argument(*by).view();
  if (side != "key" && side != "value") fail("You can only sort by either \"key\" or \"value\"");
  const SortKey key{nullptr, bool_argument(sensitive, false)};
  std::vector<std::pair<Value, Value>> keyed;
  for (const Entry& entry : entries_of(self)) {
    keyed.emplace_back(key.of(in, side == "key" ? entry.key : entry.value), in.list_of_two(entry.key, entry.value));
  }
  return sorted(in, std::move(keyed), bool_argument(reverse, false));
}

Value filter_items(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("items", arguments, {});
  if (self.is_undefined()) return in.generator({});
  if (!self.is_dict()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const Entry& entry : self.as_dict().all()) items.push_back(in.list_of_two(entry.key, entry.value));
  return in.generator(items);
}

Value filter_unique(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [sensitive, attribute] = place<2>("unique", arguments, {"case_sensitive", "attribute"});
  const SortKey key{attribute, bool_argument(sensitive, false)};
  Dict seen;
  std::vector<Value> items;
  for (const Value& item : in.items_of(self)) {
    in.charge(1);
    const Value item_key = key.of(in, item);
    if (seen.find(item_key) != nullptr) continue;
    seen.set(in.arena(), item_key, item);
    items.push_back(item);
  }
  return in.generator(items);
}

Value filter_batch(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [count, fill] = place<2>("batch", arguments, {"linecount", "fill_with"}, 1);
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(integer_argument(count, 1), 1));
  const std::span<const Value> items = in.items_of(self);
  std::vector<Value> batches;
  for (std::size_t at = 0; at < items.size(); at += size) {
    const std::span<const Value> part = items.subspan(at, std::min(size, items.size() - at));
    std::vector<Value> batch(part.begin(), part.end());
    if (fill != nullptr && !fill->is(Kind::kNone)) {
      in.charge(size - batch.size());
      batch.resize(size, *fill);
    }
    batches.push_back(in.list(batch));
  }
  return in.generator(batches);
}

Value filter_slice(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [count, fill] = place<2>("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t wanted = integer_argument(count, 1);
  if (wanted == 0) fail("integer division or modulo by zero");
  const auto slices = static_cast<std::size_t>(std::max<std::int64_t>(wanted, 0));
  const std::span<const Value> items = in.items_of(self);
  in.charge(slices);
  std::vector<Value> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const bool larger = i < items.size() % slices;
    const std::size_t end = begin + items.size() / slices + (larger ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(begin),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
    if (fill != nullptr && !fill->is(Kind::kNone) && !larger) part.push_back(*fill);
    parts.push_back(in.list(part));
    begin = end;
  }
  return in.generator(parts);
}

Value filter_groupby(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [attribute, fallback, sensitive] =
      place<3>("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool exact = bool_argument(sensitive, false);
  const auto key_of = [&](const Value& item, bool as_it_is) {
    const Value key = attribute_path(in, item, *attribute, fallback);
    return as_it_is ? key : ignoring_case(in, key);
  };
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : in.items_of(self)) keyed.emplace_back(key_of(item, exact), item);
  sort_stably(keyed, [&](const auto& a, const auto& b) {
    in.charge(1);
    return less_than(a.first, b.first);
  });
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < keyed.size();) {
    std::vector<Value> group;
    std::size_t end = begin;
    for (; end < keyed.size() && equals(keyed[end].first, keyed[begin].first); ++end)
      group.push_back(keyed[end].second);
    const Value key = exact ? keyed[begin].first : key_of(group.front(), true);
    groups.push_back(in.list_of_two(key, in.list(group)));
    begin = end;
  }
  return in.list(groups);
}

// Only attributes: keys of dicts are none.
Value filter_attr(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [name] = place<1>("attr", arguments, {"name"}, 1);
  const Value attribute = Value::text(written(in, *name));
  if (!self.is_dict()) return in.attribute(self, attribute, nullptr);
  const Builtin method = find_dict_method(attribute.as_view());
  if (method != nullptr) return in.method(attribute.as_view(), method, self);
  return Value::undefined(attribute.as_view(), Absence::kAttribute, Kind::kDict);
}

Value filter_default(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [fallback, falsy] = place<2>("default", arguments, {"default_value", "boolean"});
  if (!self.is_undefined() && (!bool_argument(falsy, false) || is_true(self))) return self;
  return fallback == nullptr ? in.text("") : *fallback;
}

// ---- map, select, reject, selectattr, rejectattr: filters that run other filters and tests ----

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

constexpr NamedBuiltin kSequenceFilters[] = {{"map", filter_map},
                                             {"select", filter_select},
                                             {"reject", filter_reject},
                                             {"selectattr", filter_selectattr},
                                             {"rejectattr", filter_rejectattr},
                                             {"length", filter_length},
                                             {"count", filter_length},
                                             {"first", filter_first},
                                             {"last", filter_last},
                                             {"list", filter_list},
                                             {"reverse", filter_reverse},
                                             {"sort", filter_sort},
                                             {"dictsort", filter_dictsort},
                                             {"items", filter_items},
                                             {"unique", filter_unique},
                                             {"batch", filter_batch},
                                             {"slice", filter_slice},
                                             {"groupby", filter_groupby},
                                             {"attr", filter_attr},
                                             {"default", filter_default},
                                             {"d", filter_default}};

}  // namespace

Value attribute_path(Interpreter& in, const Value& item, const Value& path, const Value* fallback) {
  const auto step = [&](const Value& from, const Value& index) {
    const Value found = in.item(from, index);
    const bool replace = fallback != nullptr && !fallback->is(Kind::kNone) && found.is_undefined();
    return replace ? *fallback : found;
  };
  if (!path.is_text()) return step(item, path);
  const Text names = path.as_text();
  Value value = item;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.view().find('.', begin), names.size());
    const Text name = names.part(begin, end - begin);
    const bool number = !name.empty() && name.size() < 10 &&
                        std::ranges::all_of(name.view(), [](char c) { return c >= '0' && c <= '9'; });
    value = step(value, number ? Value::integer(std::stoll(std::string(name.view()))) : Value::text(name));
    begin = end + 1;
  }
  return value;
}

Value SortKey::of(Interpreter& in, const Value& item) const {
  const bool whole = attribute == nullptr || attribute->is(Kind::kNone);
  const Value key = whole ? item : attribute_path(in, item, *attribute);
  return case_sensitive ? key : ignoring_case(in, key);
}

Value SortKey::all_of(Interpreter& in, const Value& item) const {
  std::vector<Value> keys;
  if (attribute == nullptr || !attribute->is_text() || !attribute->as_view().contains(',')) {
    keys.push_back(of(in, item));
    return in.list(keys);
  }
  const Text names = attribute->as_text();
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.view().find(',', begin), names.size());
    const Value name = Value::text(names.part(begin, end - begin));
    keys.push_back(SortKey{&name, case_sensitive}.of(in, item));
    begin = end + 1;
  }
  return in.list(keys);
}

std::span<const NamedBuiltin> sequence_filters() { return kSequenceFilters; }

}  // namespace kvkeep::chat::jinja
