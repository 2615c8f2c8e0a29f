#include "server/api/json_body.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iterator>

namespace kvkeep::server::api {
namespace {

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  text.reserve(piece.size() * count);
  for (std::size_t i = 0; i < count; ++i) text += piece;
  return text;
}

// {"x":[piece,piece,...,0]}
std::string body_of(std::string_view piece, std::size_t count) {
  return fmt::format("{{\"x\":[{}0]}}", repeated(fmt::format("{},", piece), count));
}

std::string complaint(const std::string& body) {
  const auto value = parse_body(body);
  return value ? "" : value.error().message;
}

std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i) fmt::format_to(std::back_inserter(text), "{}\"{}\":0", i == 0 ? "" : ",", i);
  return text + "}";
}

// The library, which builds from the same text without limits, is the naive twin.
TEST(JsonBuilder, BuildsWhatTheLibraryBuilds) {
  for (const char* text :
       {"{}", R"({"a":1,"b":[],"c":{},"d":null,"e":true,"f":-5,"g":1.5e3,"h":"\u00e4\n","i":18446744073709551615})",
        R"({"a":{"b":{"c":[1,[2,[3,{"d":[{}]}]],4]},"e":5},"f":6})", R"({"a":1,"b":2,"a":{"c":3}})",
        R"( {"":[ "", {"":""} , [ ] ] } )"}) {
    const auto built = parse_body(text);
    ASSERT_TRUE(built.ok()) << text << ": " << built.error().message;
    EXPECT_EQ(built->dump(), Json::parse(text).dump());
  }
}

TEST(JsonBuilder, ErrorsAreTheLibrarysOwn) {
  for (const std::string text :
       {"", "{", "{\"a\":1,}", "{\"a\" 1}", "[1 2]", "{\"a\":1e999}", "{\"a\":\"\xFF\"}", "{}x"}) {
    ASSERT_TRUE(complaint(text).starts_with("the request body is not valid JSON: ")) << text;
    try {
      const Json none = Json::parse(text);
      ADD_FAILURE() << text;
    } catch (const Json::exception& failure) {
      const std::string reason = complaint(text).substr(std::string("the request body is not valid JSON: ").size());
      EXPECT_NE(std::string(failure.what()).find(reason), std::string::npos) << text;
    }
  }
}

// The time for these must depend only on their length: a parser that walks the whole array after each object takes a
// minute.
TEST(JsonBuilder, ManySmallContainersAreReadInOneSitting) {
  constexpr std::size_t kCount = 900'000;
  for (const char* piece : {"{}", "[]", "\"\""}) {
    const auto value = parse_body(body_of(piece, kCount));
    ASSERT_TRUE(value.ok()) << value.error().message;
    EXPECT_EQ((*value)["x"].size(), kCount + 1);
  }
}

TEST(JsonBuilder, ValuesAreLimitedByTheirWeight) {
  // The outer object, its key and its array weigh 3 * kHeavy, the 0 at the end weighs one.
  constexpr std::size_t kRest = kMaxWeight - 3 * kHeavy - 1;
  EXPECT_EQ(complaint(body_of("1", kRest)), "");
  for (const char* light : {"1", "null"}) {
    EXPECT_EQ(complaint(body_of(light, kRest + 1)), "the request body has too many values") << light;
  }
  for (const char* heavy : {"{}", "[]", "\"\""}) {
    EXPECT_EQ(complaint(body_of(heavy, kRest / kHeavy + 1)), "the request body has too many values") << heavy;
  }
  EXPECT_EQ(complaint(body_of("{\"\":0}", kRest / (2 * kHeavy + 1) + 1)), "the request body has too many values");
}

TEST(JsonBuilder, KeysAreLimitedInOneObjectAndInAll) {
  EXPECT_EQ(complaint(object_of(kMaxKeysPerObject)), "");
  EXPECT_EQ(complaint(object_of(kMaxKeysPerObject + 1)), "an object in the request body has too many keys");
  const std::string greatest = object_of(kMaxKeysPerObject);
  EXPECT_EQ(complaint(body_of(greatest, 2)), "");
  EXPECT_EQ(complaint(body_of(greatest, 3)), "the objects in the request body have too many keys");
  EXPECT_EQ(complaint(body_of(object_of(100), 500)), "");
}

TEST(JsonBuilder, TheSameKeyOverAndOverIsOneKey) {
  const std::string body = fmt::format("{{{}\"a\":2}}", repeated("\"a\":1,", 100'000));
  EXPECT_EQ(parse_body(body).value().dump(), R"({"a":2})");
}

TEST(MissingField, NamesTheFieldThatIsASlipOfIt) {
  const auto message = [](const char* body) { return missing_field(*parse_body(body), "messages").message; };
  EXPECT_EQ(message("{}"), "'messages' is required");
  EXPECT_EQ(message(R"({"mesages":[]})"), "'messages' is required; is 'mesages' meant to be it?");
  EXPECT_EQ(message(R"({"model":"m","message":null})"), "'messages' is required");
}

}  // namespace
}  // namespace kvkeep::server::api
