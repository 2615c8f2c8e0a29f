#include "server/routes/memos.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>

#include "base/test_seed.h"

namespace kvkeep::server {
namespace {

std::vector<TokenId> ids_of(const std::string& text) { return {text.begin(), text.end()}; }

TEST(PieceMemo, GivesBackWhatItRemembered) {
  PieceMemo memo(mebibytes(1));
  EXPECT_EQ(memo.find("hello"), nullptr);
  memo.remember("hello", ids_of("hello"));
  memo.remember("hell", ids_of("hell"));
  EXPECT_EQ(*memo.find("hello"), ids_of("hello"));
  EXPECT_EQ(*memo.find("hell"), ids_of("hell"));
  EXPECT_EQ(memo.find("hel"), nullptr);
}

TEST(PieceMemo, TheLeastRecentlyUsedLeave) {
  PieceMemo memo(ByteCount{4000});  // room for 4000 / (200 + 5 * 10) = 16 texts
  const auto text = [](int i) { return "text " + std::to_string(10000 + i); };
  for (int i = 0; i < 16; ++i) memo.remember(text(i), ids_of(text(i)));
  EXPECT_NE(memo.find(text(0)), nullptr);  // used again
  memo.remember(text(16), ids_of(text(16)));
  EXPECT_NE(memo.find(text(0)), nullptr);
  EXPECT_EQ(memo.find(text(1)), nullptr);
  EXPECT_NE(memo.find(text(2)), nullptr);
  EXPECT_NE(memo.find(text(16)), nullptr);
}

TEST(PieceMemo, ATextThatWouldPushEverythingOutIsNotRemembered) {
  PieceMemo memo(ByteCount{16000});
  memo.remember("small", ids_of("small"));
  const std::string large(1000, 'x');
  memo.remember(large, ids_of(large));
  EXPECT_EQ(memo.find(large), nullptr);
  EXPECT_NE(memo.find("small"), nullptr);
}

TEST(PieceMemo, StaysWithinItsLimitAndIsNeverWrong) {
  PieceMemo memo(ByteCount{20000});
  const auto seed = static_cast<std::uint32_t>(test_seed());
  std::vector<std::thread> threads;
  for (std::uint32_t part = 0; part < 4; ++part) {
    threads.emplace_back([&memo, seed, part] {
      std::mt19937 random(seed + part);
      for (int i = 0; i < 3000; ++i) {
        const std::string text(random() % 60, static_cast<char>('a' + random() % 6));
        const auto found = memo.find(text);
        if (found != nullptr) {
          EXPECT_EQ(*found, ids_of(text));
        } else {
          memo.remember(text, ids_of(text));
        }
        EXPECT_LE(memo.size().value(), 20000U);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(memo.size().value(), 10000U);
}

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

TEST(KeyOrders, InvalidTextIsNotTouched) {
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

using Say = SaidOnce::Say;

TEST(SaidOnce, SaysEachOnceAndNamesTheLast) {
  SaidOnce said(3);
  EXPECT_EQ(said.first("a"), Say::kNow);
  EXPECT_EQ(said.first("a"), Say::kNot);
  EXPECT_EQ(said.first("b"), Say::kNow);
  EXPECT_EQ(said.first("c"), Say::kNowAndNoMore);
  for (const char* later : {"a", "c", "d"}) EXPECT_EQ(said.first(later), Say::kNot) << later;
}

TEST(SaidOnce, LongWordsTakeBoundedMemory) {
  SaidOnce said(3);
  const std::string begin(SaidOnce::kMostBytes, 'x');
  EXPECT_EQ(said.first(begin + "one"), Say::kNow);
  EXPECT_EQ(said.first(begin + "two"), Say::kNot);
  EXPECT_EQ(said.first(begin.substr(1)), Say::kNow);
}

TEST(OpenThoughts, AreKnownAsLongAsTheirReplyKeepsThem) {
  OpenThoughts thoughts;
  auto one = thoughts.open("one", 0);
  const auto two = thoughts.open("two", 0);
  EXPECT_TRUE(thoughts.end("two", 0));
  EXPECT_FALSE(*one);
  EXPECT_TRUE(*two);
  one.reset();
  EXPECT_FALSE(thoughts.end("one", 0));
  EXPECT_FALSE(thoughts.end("three", 0));
}

TEST(OpenThoughts, AreEndedByTheirKeyOnly) {
  OpenThoughts thoughts;
  const auto one = thoughts.open("one", 1);
  for (const std::uint64_t other : {0U, 2U}) EXPECT_FALSE(thoughts.end("one", other)) << other;
  EXPECT_FALSE(*one);
  EXPECT_TRUE(thoughts.end("one", 1));
  EXPECT_TRUE(*one);
}

}  // namespace

}  // namespace kvkeep::server
