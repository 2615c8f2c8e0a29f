#include "chat/tools/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/test_seed.h"

namespace kvkeep::chat::tools {
namespace {

using nlohmann::json;
using State = JsonObjectStream::State;

json random_value(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0: return nullptr;
    case 1: return random() % 2 == 0;
    case 2: return static_cast<std::int64_t>(random());
    case 3: return static_cast<double>(random() % 1000) / 8.0 * ((random() % 2 == 0) ? 1e30 : -1e-30);
    case 4: return "a \\ \" \u00e9 \x01 \U0001F600 /";
    case 5: return std::string(random() % 5, 'x');
    case 6: {
      json array = json::array();
      for (std::size_t i = random() % 4; i > 0; --i) array.push_back(random_value(random, depth - 1));
      return array;
    }
    default: break;
  }
  json object = json::object();
  for (std::size_t i = random() % 4; i > 0; --i)
    object[std::string("k").append(std::to_string(i))] = random_value(random, depth - 1);
  return object;
}

// The twin: it has all of the text, and parses it.
void check(const std::string& text) {
  JsonObjectStream stream;
  std::string passed;
  bool was_whole = false;
  for (const char byte : text) {
    was_whole |= stream.feed(byte) == State::kWhole;
    passed += stream.take();
    ASSERT_EQ(json::accept(passed), was_whole) << passed;
  }
  const json value = json::parse(text, nullptr, false);
  ASSERT_EQ(stream.state() == State::kWhole, value.is_object()) << text;
  if (stream.state() != State::kWhole) return;
  EXPECT_EQ(json::parse(passed), value) << text;
}

TEST(JsonObjectStream, AgreesWithAParserThatKnowsTheWholeText) {
  std::mt19937_64 random(test_seed());
  constexpr std::string_view kBytes = "{}[]\":,\\ue+-.015tfnrlsa \n\x7f";
  for (int round = 0; round < 3000; ++round) {
    json object = random_value(random, 3);
    if (!object.is_object()) object = {{"a", object}};
    std::string text = object.dump(random() % 2 == 0 ? -1 : 1, ' ', random() % 2 == 0);
    check(text);
    for (int mutations = 0; mutations < 3; ++mutations) {
      const std::size_t at = random() % text.size();
      // Control characters within strings are repaired, which the parser does not do.
      if (static_cast<unsigned char>(text[at]) >= 0x80) continue;
      std::string changed = text;
      const char byte = kBytes[random() % kBytes.size()];
      if (random() % 3 == 0) {
        changed.erase(at, 1);
      } else if (byte != '\n') {
        changed.insert(at, 1, byte);
      }
      check(changed);
    }
  }
}

TEST(JsonObjectStream, EdgesOfJson) {
  for (const char* text : {"{}",
                           " {} ",
                           "{\"a\":1}",
                           "{\"a\":1.}",
                           "{\"a\":01}",
                           "{\"a\":-}",
                           "{\"a\":1e999}",
                           "{\"a\":1e5}",
                           "{\"a\":tru}",
                           "{\"a\":truee}",
                           "{\"a\":\"\\ud83d\\ude00\"}",
                           "{\"a\":\"\\ud83d\"}",
                           "{\"a\":\"\\ude00\"}",
                           "{\"a\":\"\\ud83d\\u0041\"}",
                           "{\"a\":\"\\ud83d\\n\"}",
                           "{\"a\":\"\\x\"}",
                           "{,}",
                           "{\"a\":1,}",
                           "{\"a\":[1,]}",
                           "{\"a\":[,]}",
                           "{\"a\" 1}",
                           "{\"a\":}",
                           "{a:1}",
                           "{}{}",
                           "{} x",
                           "[]",
                           "",
                           "1",
                           "{\"a\":[}}",
                           "{\"a\":{]}",
                           "{\"\":\"\"}"}) {
    check(text);
  }
}

TEST(JsonObjectStream, EscapesWhatWasForgotten) {
  JsonObjectStream stream;
  EXPECT_EQ(stream.feed("{\"a\":\"x\ty\n\\\nz\"}"), State::kWhole);
  EXPECT_EQ(json::parse(stream.take())["a"], "x\ty\n\\\nz");
}

TEST(JsonObjectStream, IsNoDeeperThanWhoeverReadsIt) {
  const auto nested = [](std::size_t depth) {
    std::string text = "{\"a\":";
    return text.append(depth - 1, '[').append(depth - 1, ']').append("}");
  };
  EXPECT_EQ(JsonObjectStream().feed(nested(100)), State::kWhole);
  EXPECT_EQ(JsonObjectStream().feed(nested(101)), State::kBroken);
}

}  // namespace
}  // namespace kvkeep::chat::tools
