#pragma once

// Chat templates, rendered as Python's jinja2 renders them for model authors: trim_blocks, lstrip_blocks, break and
// continue, {% generation %}, tojson without escapes, raise_exception, strftime_now, and values that cannot be changed.
//
// For each printed byte it is known whether it came from the template or from a string of the input (text.h), through
// all filters and slices. That keeps a message from writing a model's control tokens.
//
// Templates come with models, and models from anywhere: a hostile one costs a bounded number of steps, bytes and
// levels, and then fails with an error that names the limit. A limit that grows with the input is a constant and a
// factor.
//
// Differences from Python: larger integers than 64 bits are an error; some rare characters count as no letters of a
// case or no digits (base/unicode.h); `escape` gives plain text; printed functions and generators have no addresses; {%
// include %}, {% import %}, {% extends %} and {% block %} are refused, and so are the filters random, pprint, urlize,
// xmlattr, striptags and filesizeformat. {% do %} is accepted.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/jinja/text.h"

namespace kvkeep::chat::jinja {

// A constant, and an amount for each byte of the input's strings and of the source.
struct Limit {
  std::size_t base;
  std::size_t per_byte;
};

struct Limits {
  Limit steps = {8'000'000, 64};                     // about half a second
  Limit memory_bytes = {std::size_t{96} << 20, 64};  // of values made while rendering; the input's own included
  Limit output_bytes = {std::size_t{16} << 20, 16};
  int depth = 1000;  // of calls, statements and expressions within each other
};

// Decides which strings of the input count as the template's own words: those that templates compare and build markers
// with. All others are text of messages.
struct OriginRules {
  Origin (*of_key)(std::string_view key);
  Origin (*of_value)(std::string_view key, std::string_view value);  // key: of the object it lies in, "" in none
};
// Every string is a message's.
OriginRules all_from_messages();

struct Variable {
  std::string_view name;
  const nlohmann::ordered_json* value;
  OriginRules rules = all_from_messages();
  // Above 0: the value is a list of objects, and each of their members is a place: the first member of the first object
  // has this number, the next one the number after it, over all objects. Strings in a member, and its keys, have the
  // origin message_at() of its place.
  std::uint32_t first_place = 0;
};

struct Input {
  std::span<const Variable> variables;  // of two with one name the later counts
  std::int64_t local_time_s = 0;        // for strftime_now
  Limits limits = {};
};

// A stretch of the output that has one origin; neighbours differ.
struct PrintedRun {
  std::size_t size_bytes;
  Origin origin;
  bool operator==(const PrintedRun&) const = default;
};
struct Printed {
  std::string text;
  std::vector<PrintedRun> runs;
};

// Returns a time as Python's strftime writes it. `local_time_s`: seconds since 1970, shifted to the local time zone.
// Unknown conversions stay as they are; nullopt for a time that no calendar has. Pure but for the C locale's names of
// days and months.
std::optional<std::string> formatted_time(std::string_view format, std::int64_t local_time_s);

struct Program;

// Immutable, thread safe.
class Template {
 public:
  static constexpr std::size_t kMaxSourceBytes = std::size_t{512} << 10;

  // kUnsupported if it does not parse, with the line.
  static Result<Template> parse(std::string_view source);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // kInvalid if the template refuses the input (raise_exception, or a case in which Python would raise an exception);
  // kUnsupported at a limit, or if this engine lacks a feature that the template uses. Messages are one line.
  Result<Printed> render(const Input& input) const;
  // Returns true if the source has a variable of this name anywhere.
  bool mentions(std::string_view name) const;

 private:
  explicit Template(std::unique_ptr<const Program> program, std::size_t source_bytes);

  std::unique_ptr<const Program> program_;
  std::size_t source_bytes_;
};

}  // namespace kvkeep::chat::jinja
