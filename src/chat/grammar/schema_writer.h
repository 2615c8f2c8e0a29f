#pragma once

// One schema on its way to rules. Internal to schema*.cc; use add_schema().
//
// visit() brings a schema into one flat object (schema_merge.h) with its anyOf and oneOf next to it, and then writes
// one rule per type. References become rules of their own, so that schemas may be recursive.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chat/grammar/number_range.h"
#include "chat/grammar/schema.h"
#include "chat/grammar/schema_merge.h"

namespace kvkeep::chat::grammar {

// A schema without references and combinations, and the choices that are still to be made.
struct FlatSchema {
  Json base = Json::object();  // normalised; false: nothing is valid
  struct Choice {
    bool exclusive = false;  // oneOf
    Json alternatives;
    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
};

class SchemaWriter {
 public:
  SchemaWriter(GrammarBuilder& grammar, const Json& root, const SchemaOptions& options)
      : grammar_(grammar), json_(grammar, options.whitespace), root_(root), options_(options) {}

  // The name of the rule for a schema. `hint`: its name; `path`: its name in errors. Returns "" if nothing is valid.
  Result<std::string> visit(const Json& schema, const std::string& path, const std::string& hint);

 private:
  // ---- schema.cc ----
  Result<std::string> visit_object_schema(const Json& schema, const std::string& path, const std::string& hint);
  Result<std::string> visit_once(const Json& schema, const std::string& path, const std::string& hint);
  Result<std::string> write(const FlatSchema& flat, const std::string& path, const std::string& hint);
  Result<std::string> write_choice(const FlatSchema& flat, const std::string& path, const std::string& hint);
  Result<std::string> write_values(const Json& base, const std::string& path, const std::string& hint);
  Result<std::string> write_type(const std::string& type, const Json& base, const std::string& path,
                                 const std::string& hint);
  Result<std::vector<std::string>> types_of(const Json& base, const std::string& path) const;
  Status refuse_keywords(const Json& base, const std::string& path) const;
  Status count_schema(const std::string& path);

  Result<FlatSchema> flatten(const Json& schema, const std::string& path);
  Status add_part(const Json& part, const std::string& path, FlatSchema& flat);
  Result<const Json*> resolve(const std::string& reference, const std::string& path) const;
  Result<std::string> visit_reference(const Json& schema, const std::string& path, const std::string& hint);
  Status check_exclusive(const FlatSchema& flat, const FlatSchema::Choice& choice, const std::string& path);

  // ---- schema_types.cc ----
  struct Member {
    std::string name;
    std::string value;  // its rule
    bool required = false;
  };
  // Undeclared keys.
  struct Others {
    std::string member;  // rule of "key": value; empty: no such keys
    std::size_t min = 0;
    std::optional<std::size_t> max = {};
  };
  Result<std::string> write_object(const Json& base, const std::string& path, const std::string& hint);
  Result<std::vector<Member>> members_of(const Json& base, const std::string& path, const std::string& hint);
  Result<Others> others_of(const Json& base, const std::vector<Member>& members, const std::string& path,
                           const std::string& hint);
  Status count_others(const Json& base, const std::vector<Member>& members, const std::string& path, Others& others);
  Result<std::string> key_rule(const Json& base, const std::vector<Member>& members, const std::string& path);
  std::string object_body(const std::vector<Member>& members, const Others& others, const std::string& hint);
  std::string other_key(const std::vector<Member>& members);

  Result<std::string> write_array(const Json& base, const std::string& path, const std::string& hint);

  std::string array_body(const std::vector<std::string>& prefix, const std::string& rest, std::size_t min,
                         std::optional<std::size_t> max);

  Result<std::string> write_string(const Json& base, const std::string& path, const std::string& hint);
  Result<std::string> write_number(const Json& base, bool integer, const std::string& path, const std::string& hint);
  Result<std::string> number_body(const Json& base, bool integer, const std::string& path);
  Result<std::string> multiple_body(const Json& base, const NumberRange& range, bool integer, const std::string& path);
  Result<NumberRange> range_of(const Json& base, const std::string& path) const;
  Result<bool> is_valid_text(const Json& base, const std::string& text, const std::string& path) const;
  Result<bool> is_valid_value(const Json& base, const Json& value, const std::string& path) const;

  // An error about this place; none if unsupported keywords are skipped.
  Status cannot(const std::string& path, const std::string& what) const;
  static Error error_at(const std::string& path, const std::string& what) { return invalid(path + ": " + what); }
  // Inside a string, object or array a schema may mention itself.
  template <typename Visit>
  auto inside(Visit visit_children) {
    std::set<std::string> outside;
    outside.swap(open_references_);
    auto result = visit_children();
    outside.swap(open_references_);
    return result;
  }

  GrammarBuilder& grammar_;
  JsonRules json_;
  const Json& root_;
  const SchemaOptions& options_;
  std::map<std::string, std::string> by_reference_;  // rules of references
  std::map<std::string, std::string> by_text_;       // rules of combined schemas, which come again in recursion
  std::set<std::string> open_references_;            // being resolved, with nothing written since
  std::size_t steps_ = 0;
  std::size_t depth_ = 0;
};

// Returns the pattern of an enforced format; "" if the format is an annotation.
std::string_view pattern_of_format(std::string_view format);

// Returns true if no value written for `a` is valid under `b`, as far as can be decided.
bool never_both(const Json& a, const Json& b);

}  // namespace kvkeep::chat::grammar
