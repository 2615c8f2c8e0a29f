#pragma once

// Reading a request's JSON: one parser with limits, and one reader per type, so that every dialect complains in the
// same words. A field that is absent or null leaves its target as it is: clients send null for fields that they do not
// use.
//
// Errors are kInvalid and name the field, what it must be and what it is. Thread safe: nothing is shared.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::server::api {

using Json = nlohmann::ordered_json;

// Deeper bodies would exhaust the stack of the code that walks them; longer objects take quadratic time to read.
inline constexpr int kMaxDepth = 100;
inline constexpr std::size_t kMaxKeysPerObject = 10'000;
// Each key is compared with those before it in its object. The limit is enough for two objects of the greatest size.
inline constexpr std::size_t kMaxKeyComparisons = 100'000'000;
// Values count by the memory they take: a number, boolean or null weighs one (16 bytes); a string, a key, an array or
// an object weighs kHeavy. The limit is four million token ids, or a chat of 200,000 messages.
inline constexpr std::size_t kMaxWeight = 4'000'000;
inline constexpr std::size_t kHeavy = 4;

// A long string of a JSON text: its place among all strings and keys of the text, from 0 on, and what stands between
// its quotes.
struct LongString {
  std::size_t number = 0;
  std::string_view text;
};

// A JSON text without its long strings: "" stands in the place of each. The parser takes 5 ns for each byte of a
// string, which for the pictures of a conversation adds up to more than all else before the model. Taken out are
// strings of at least kLongString bytes that hold nothing but printable ASCII and no escapes, such as base64, because
// they are what they look like. So the rest is valid JSON exactly if the whole is; positions in it are others.
//
// Refers to `whole`, which must not change. Takes time in proportion to its length.
class ShortenedText {
 public:
  explicit ShortenedText(std::string_view whole);

  std::string_view text() const { return strings_.empty() ? whole_ : rest_; }
  // In the order of the text.
  std::span<const LongString> strings() const { return strings_; }

 private:
  std::string_view whole_;
  std::string rest_;
  std::vector<LongString> strings_;
};
inline constexpr std::size_t kLongString = 4096;

// Builds a JSON value from the parser's events and stops at the first one that exceeds a limit, so that a body costs
// time and memory in proportion to its length, whatever it contains. (The library's way to look at a value while it is
// parsed, a callback, walks the whole surrounding array after each object in it: a megabyte of empty objects takes more
// than a minute.)
//
// Parses one text, by Json::sax_parse(); the names of the events are the library's. An event that returns false ends
// the parsing; then error() says why. Not thread safe.
class JsonBuilder {
 public:
  // `long_strings` were taken out of the text (ShortenedText), and are put back.
  explicit JsonBuilder(std::span<const LongString> long_strings = {}) : long_strings_(long_strings) {}

  bool null() { return add(1, nullptr); }
  bool boolean(bool value) { return add(1, value); }
  bool number_integer(Json::number_integer_t value) { return add(1, value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(1, value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return add(1, value); }
  // Copies: the text is in the parser's buffer, which would have to grow again from nothing for the next one.
  bool string(const std::string& value) { return add(kHeavy, std::string(whole(value))); }
  bool binary(Json::binary_t& /*value*/) { return fail("binary values are not JSON"); }
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(const std::string& name);
  bool parse_error(std::size_t position, const std::string& token, const Json::exception& failure);

  // One line; empty as long as nothing is wrong.
  const std::string& error() const { return error_; }
  // Returns the value that was built. Precondition: the parsing succeeded.
  Json take() { return std::move(root_); }

 private:
  // Returns the next string of the text, of which the parser read `parsed`.
  std::string_view whole(std::string_view parsed);
  bool add(std::size_t weight, Json value);
  bool weigh(std::size_t weight);
  bool open(Json container);
  bool close();
  bool fail(std::string message);
  Json* place(Json value);

  std::span<const LongString> long_strings_;  // those that come next
  std::size_t strings_ = 0;                   // strings and keys so far
  Json root_;
  std::vector<Json*> open_;  // containers that have not ended, outermost first; only the last one grows
  Json* member_ = nullptr;   // receives the value of the last key
  std::size_t weight_ = 0;
  std::size_t key_comparisons_ = 0;
  std::string error_;
};

// Returns the body as a JSON object, within the limits of JsonBuilder. The call frees the body's bytes: a body may
// be large, and its values are made into other things right after.
Result<Json> parse_body(std::string body);

// The same for a body that is an array.
Result<Json> parse_array_body(std::string body);

// Returns the field, or nullptr if it is absent or null. Precondition: object.is_object().
const Json* field(const Json& object, std::string_view name);

Status read_bool(const Json& object, std::string_view name, bool& target);
Status read_string(const Json& object, std::string_view name, std::string& target);
// Reads a number in [low, high].
Status read_number(const Json& object, std::string_view name, float& target, double low, double high);
// Reads a whole number in [low, high]; 3.0 counts as one.
Status read_integer(const Json& object, std::string_view name, std::int64_t& target, std::int64_t low,
                    std::int64_t high);

// Returns "'name' is required", with the field of `object` that seems to be a slip of it, if there is one.
Error missing_field(const Json& object, std::string_view name);

// Returns "'name' must be <expected>, not <what it is>".
Error wrong_type(std::string_view name, std::string_view expected, const Json& value);

// Returns one line of JSON; invalid UTF-8 is replaced.
std::string to_line(const Json& value);

}  // namespace kvkeep::server::api
