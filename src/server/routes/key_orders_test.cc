#include "server/routes/key_orders.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/test_seed.h"

namespace kvkeep::server {
namespace {

using Json = nlohmann::ordered_json;

std::string settled(KeyOrders& orders, const std::string& text) {
  Json value = Json::parse(text);
  orders.settle(value);
  return value.dump();
}

TEST(KeyOrders, AnEqualValueIsPrintedAsTheFirstOne) {
  KeyOrders orders(mebibytes(1));
  const std::string first =
      R"({"type":"function","function":{"name":"f","parameters":{"b":1,"a":[{"y":0,"x":null}]}}})";
  EXPECT_EQ(settled(orders, first), first);
  EXPECT_EQ(
      settled(orders, R"({"function":{"parameters":{"a":[{"x":null,"y":0}],"b":1},"name":"f"},"type":"function"})"),
      first);
}

TEST(KeyOrders, AnotherValueStaysAsItIs) {
  KeyOrders orders(mebibytes(1));
  (void)settled(orders, R"({"b":1,"a":[1,2]})");
  for (const std::string other : {R"({"a":[2,1],"b":1})", R"({"a":[1,2],"b":1.0})", R"({"a":[1,2],"b":"1"})",
                                  R"({"a":[1,2],"b":1,"c":null})", R"({"a":[1,2]})"}) {
    EXPECT_EQ(settled(orders, other), other);
  }
}

TEST(KeyOrders, WhatIsNoTextIsLeftAlone) {
  KeyOrders orders(mebibytes(1));
  Json broken = {{"b", "\xff"}, {"a", 1}};
  orders.settle(broken);
  EXPECT_EQ(broken.begin().key(), "b");
}

Json random_value(std::mt19937& random, int depth) {
  if (depth == 0 || random() % 4 == 0) return random() % 2 == 0 ? Json(random() % 3) : Json("t");
  Json value = random() % 3 == 0 ? Json::array() : Json::object();
  for (std::size_t i = random() % 4; i > 0; --i) {
    if (value.is_array()) value.push_back(random_value(random, depth - 1));
    if (value.is_object())
      value[std::string(1, static_cast<char>('a' + random() % 4))] = random_value(random, depth - 1);
  }
  return value;
}

Json shuffled(const Json& value, std::mt19937& random) {
  Json copy = value;
  if (value.is_array()) {
    for (Json& element : copy) element = shuffled(element, random);
  } else if (value.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, unused] : value.items()) keys.push_back(key);
    std::ranges::shuffle(keys, random);
    copy = Json::object();
    for (const std::string& key : keys) copy[key] = shuffled(value[key], random);
  }
  return copy;
}

// In whatever order the value is sent, the text is that of the first one, and has the same value.
TEST(KeyOrders, RandomValuesInRandomOrders) {
  std::mt19937 random(test_seed());
  KeyOrders orders(mebibytes(4));
  for (int i = 0; i < 300; ++i) {
    Json first = random_value(random, 4);
    orders.settle(first);
    for (int again = 0; again < 3; ++again) {
      Json other = shuffled(first, random);
      const nlohmann::json said(other);
      orders.settle(other);
      EXPECT_EQ(other.dump(), first.dump());
      EXPECT_EQ(nlohmann::json(other), said);
    }
  }
}

}  // namespace
}  // namespace kvkeep::server
