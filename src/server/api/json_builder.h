#pragma once

// Builds a JSON value from the parser's events and stops at the first one that goes over a limit, so that a body costs
// time and memory in proportion to its length, whatever it holds.
//
// The library's own way to look at a value while it is parsed (a callback) walks the whole surrounding array after each
// object in it: a megabyte of empty objects takes more than a minute. Hence a builder of our own, with no callback.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvkeep::server::api {

using Json = nlohmann::ordered_json;

// Deeper bodies would exhaust the stack of whatever walks them; longer objects take quadratic time to read.
inline constexpr int kMaxDepth = 100;
inline constexpr std::size_t kMaxKeysPerObject = 10'000;
// Each key is compared with those before it in its object. Room for two objects of the greatest size.
inline constexpr std::size_t kMaxKeyComparisons = 100'000'000;
// By the memory they take: a number, boolean or null weighs one; a string, a key, an array or an object weighs
// kHeavy. Four million token ids, or a chat of 200,000 messages. A value of weight one takes 16 bytes.
inline constexpr std::size_t kMaxWeight = 4'000'000;
inline constexpr std::size_t kHeavy = 4;

// One text, from Json::sax_parse(); the names of the events are the library's. An event that returns false ends the
// parsing; then error() says why. Not thread safe.
class JsonBuilder {
 public:
  bool null() { return add(1, nullptr); }
  bool boolean(bool value) { return add(1, value); }
  bool number_integer(Json::number_integer_t value) { return add(1, value); }
  bool number_unsigned(Json::number_unsigned_t value) { return add(1, value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return add(1, value); }
  bool string(std::string& value) { return add(kHeavy, std::move(value)); }
  bool binary(Json::binary_t& /*value*/) { return fail("binary values are no JSON"); }
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name);
  bool parse_error(std::size_t position, const std::string& token, const Json::exception& failure);

  // One line. Empty as long as nothing is wrong.
  const std::string& error() const { return error_; }
  // What was built. Precondition: the parsing went through.
  Json take() { return std::move(root_); }

 private:
  bool add(std::size_t weight, Json value);
  bool weigh(std::size_t weight);
  bool open(Json container);
  bool close();
  bool fail(std::string message);
  Json* place(Json value);

  Json root_;
  std::vector<Json*> open_;  // containers that have not ended, outermost first; only the last one grows
  Json* member_ = nullptr;   // where the value of the last key goes
  std::size_t weight_ = 0;
  std::size_t key_comparisons_ = 0;
  std::string error_;
};

}  // namespace kvkeep::server::api
