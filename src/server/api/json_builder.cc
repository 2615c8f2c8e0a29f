#include "server/api/json_builder.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace kvkeep::server::api {
namespace {

// nlohmann-json's messages begin with "[json.exception.parse_error.101] ".
std::string plain(std::string_view message) {
  if (message.starts_with('[')) message.remove_prefix(std::min(message.find(' ') + 1, message.size()));
  constexpr std::size_t kLongest = 300;
  return std::string(message.substr(0, kLongest));
}

}  // namespace

bool JsonBuilder::key(std::string& name) {
  if (!weigh(kHeavy)) return false;
  auto& members = open_.back()->get_ref<Json::object_t&>();
  if (members.size() >= kMaxKeysPerObject) return fail("an object in the request body has too many keys");
  key_comparisons_ += members.size();
  if (key_comparisons_ > kMaxKeyComparisons) return fail("the objects in the request body have too many keys");
  member_ = &members[std::move(name)];  // if a key occurs twice, its last value counts
  return true;
}

bool JsonBuilder::parse_error(std::size_t /*position*/, const std::string& /*token*/, const Json::exception& failure) {
  return fail("the request body is not valid JSON: " + plain(failure.what()));
}

bool JsonBuilder::add(std::size_t weight, Json value) {
  if (!weigh(weight)) return false;
  place(std::move(value));
  return true;
}

bool JsonBuilder::weigh(std::size_t weight) {
  weight_ += weight;
  return weight_ <= kMaxWeight || fail("the request body has too many values");
}

bool JsonBuilder::open(Json container) {
  if (open_.size() >= kMaxDepth) return fail("the request body is nested too deeply");
  if (!weigh(kHeavy)) return false;
  open_.push_back(place(std::move(container)));
  return true;
}

bool JsonBuilder::close() {
  open_.pop_back();
  return true;
}

bool JsonBuilder::fail(std::string message) {
  error_ = std::move(message);
  return false;
}

Json* JsonBuilder::place(Json value) {
  if (open_.empty()) return &(root_ = std::move(value));
  if (open_.back()->is_array()) return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  return &(*member_ = std::move(value));
}

}  // namespace kvkeep::server::api
