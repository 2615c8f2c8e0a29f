#pragma once

// The values of expressions.
//
// A Value is 24 bytes and copied freely; it points into an arena, its template's or its render's. Texts, lists and
// dicts never change once they are values (the sandbox for which templates are written forbids it, too); namespaces and
// loops do.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chat/jinja/arena.h"
#include "chat/jinja/text.h"

namespace kvkeep::chat::jinja {

class Interpreter;
class LoopState;
class Value;
struct Cycler;
struct Dict;
struct Function;
struct ListBuffer;
struct Namespace;
struct View;

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInteger,
  kFloat,
  kText,
  kList,
  kTuple,
  kRange,
  kView,  // a generator, or a dict's keys, values or items
  kDict,
  kNamespace,
  kFunction,
  kLoop,
  kCycler,
};

// Why something is undefined: the expression before the name. Formatted only on request.
enum class Absence : std::uint8_t { kVariable, kAttribute, kElement, kMessage };

struct Range {
  std::int64_t start;
  std::int64_t stop;
  std::int64_t step;
  std::size_t size() const;
};

class Value {
 public:
  Value() = default;  // undefined, without a name
  static Value undefined(std::string_view name, Absence absence, Kind of = Kind::kUndefined);
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool value) { return {Kind::kBool, {.integer = value ? 1 : 0}}; }
  static Value integer(std::int64_t value) { return {Kind::kInteger, {.integer = value}}; }
  static Value number(double value) { return {Kind::kFloat, {.number = value}}; }
  static Value text(const Text& text);
  static Value list(ListBuffer* buffer, std::size_t begin, std::size_t size, Kind kind = Kind::kList);
  static Value range(const Range* range) { return {Kind::kRange, {.range = range}}; }
  static Value view(View* view) { return {Kind::kView, {.view = view}}; }
  static Value dict(const Dict* dict) { return {Kind::kDict, {.dict = dict}}; }
  static Value name_space(Namespace* space) { return {Kind::kNamespace, {.space = space}}; }
  static Value function(const Function* function) { return {Kind::kFunction, {.function = function}}; }
  static Value loop(LoopState* loop) { return {Kind::kLoop, {.loop = loop}}; }
  static Value cycler(Cycler* cycler) { return {Kind::kCycler, {.cycler = cycler}}; }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  // Numbers as Python sees them: booleans are integers.
  bool is_integral() const { return kind_ == Kind::kInteger || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // Each for its own kind only.
  bool as_bool() const { return payload_.integer != 0; }
  std::int64_t as_integer() const { return payload_.integer; }  // booleans, too
  double as_double() const { return kind_ == Kind::kFloat ? payload_.number : static_cast<double>(payload_.integer); }
  Text as_text() const { return {payload_.text, begin_, size_}; }
  std::string_view as_view() const { return as_text().view(); }
  std::span<const Value> items() const;  // list, tuple
  ListBuffer* list_buffer() const { return payload_.list; }
  std::size_t list_begin() const { return begin_; }
  const Range& as_range() const { return *payload_.range; }
  View& as_view_object() const { return *payload_.view; }
  const Dict& as_dict() const { return *payload_.dict; }
  Namespace& as_namespace() const { return *payload_.space; }
  const Function& as_function() const { return *payload_.function; }
  LoopState& as_loop() const { return *payload_.loop; }
  Cycler& as_cycler() const { return *payload_.cycler; }
  // "'x' is undefined" and the like.
  std::string absence() const;
  // Same object, as Python's `is`.
  bool same_as(const Value& other) const;

 private:
  union Payload {
    std::int64_t integer = 0;
    double number;
    const char* name;
    TextBuffer* text;
    ListBuffer* list;
    const Range* range;
    View* view;
    const Dict* dict;
    Namespace* space;
    const Function* function;
    LoopState* loop;
    Cycler* cycler;
  };
  explicit Value(Kind kind) : kind_(kind) {}
  Value(Kind kind, const Payload& payload) : kind_(kind), payload_(payload) {}

  Kind kind_ = Kind::kUndefined;
  Absence absence_ = Absence::kVariable;
  Kind owner_ = Kind::kUndefined;  // for an undefined attribute: its object's kind
  std::uint32_t begin_ = 0;
  std::uint32_t size_ = 0;
  Payload payload_;
};

struct ListBuffer {
  Value* items = nullptr;
  std::uint32_t used = 0;
  std::uint32_t capacity = 0;
};

struct Entry {
  Value key;
  Value value;
};

// In the order of insertion. Small ones are searched through, larger ones have a hash table.
struct Dict {
  Entry* entries = nullptr;
  std::uint32_t size = 0;
  std::uint32_t capacity = 0;
  std::uint32_t* slots = nullptr;  // places in `entries` plus one; 0: free
  std::uint32_t slot_count = 0;

  std::span<const Entry> all() const { return {entries, size}; }
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  // Replaces, or appends. Fails on keys that cannot be hashed. Only before the dict becomes a value.
  void set(Arena& arena, const Value& key, const Value& value);
};

struct Namespace {
  Dict attributes;
};

struct View {
  enum class Of : std::uint8_t { kGenerator, kKeys, kValues, kItems };
  Of of;
  bool used;  // a generator gives its items once
  std::span<const Value> items;
};

struct Cycler {
  std::span<const Value> items;
  std::size_t at;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<Entry> named;  // keys are texts
};

// `self`: the value before a filter or test, or the object of a method; undefined for functions.
using Builtin = Value (*)(Interpreter& in, const Value& self, const Arguments& arguments);

struct NamedBuiltin {
  std::string_view name;
  Builtin builtin;
};

struct MacroBody;
struct Scope;

// A built-in function, a method bound to its object, or a macro with the scope it was written in.
struct Function {
  std::string_view name;
  Builtin builtin = nullptr;
  Value self = {};
  const MacroBody* macro = nullptr;
  Scope* scope = nullptr;
};

// "str", "dict" ..., as Python calls them.
std::string_view type_name(const Value& value);
bool is_true(const Value& value);

// As Python's == and <. Both fail if values are nested too deeply; less_than fails on kinds without an order.
bool equals(const Value& a, const Value& b, int depth = 0);
bool less_than(const Value& a, const Value& b, std::string_view sign = "<", int depth = 0);
// Fails on values that cannot be keys.
std::size_t hash_of(const Value& value, int depth = 0);

}  // namespace kvkeep::chat::jinja
