#include "server/api/json_body.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <random>

#include "base/test_seed.h"

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
  for (const std::string text : {"{", "{\"a\":1,}", "{\"a\" 1}", "[1 2]", "{\"a\":1e999}", "{\"a\":\"\xFF\"}", "{}x"}) {
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

TEST(JsonBuilder, AnEmptyBodyIsCalledEmpty) {
  for (const std::string text : {"", " \r\n\t"}) {
    EXPECT_EQ(complaint(text), "the request body is empty; send a JSON object");
    EXPECT_EQ(parse_array_body(text).error().message, "the request body is empty; send a JSON array");
  }
}

// ---- long strings ----

// A text that is JSON or, with damage, nearly so: strings around the length from which they are taken out, in the place
// of keys and of values, and with all that may stand in one.
class RandomText {
 public:
  explicit RandomText(std::uint64_t seed) : random_(seed) {}

  std::string next() {
    std::string text = object(3);
    const std::size_t damages = below(4) == 0 ? 1 + below(3) : 0;
    for (std::size_t i = 0; i < damages; ++i) {
      constexpr std::string_view kSigns = "\"\\{}[],:a\x01\xc3";
      text[below(text.size())] = kSigns[below(kSigns.size())];
    }
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return random_() % end; }

  std::string object(std::size_t depth) {
    std::string text = "{";
    const std::size_t members = below(5);
    for (std::size_t i = 0; i < members; ++i) {
      text += fmt::format("{}{}:{}", i == 0 ? "" : ",", string(), value(depth));
    }
    return text + "}";
  }

  std::string value(std::size_t depth) {
    if (depth == 0 || below(2) == 0) return string();
    if (below(2) == 0) return object(depth - 1);
    return fmt::format("[{}, {}, 1.5]", value(depth - 1), value(depth - 1));
  }

  std::string string() {
    constexpr auto kPieces = std::to_array<std::string_view>({R"(\")", R"(\\)", R"(\u00e4)", "\u00e4", "{", ",", ":"});
    std::string text(below(3) == 0 ? kLongString - 2 + below(5) : below(8), static_cast<char>('a' + below(26)));
    if (below(3) == 0) text.insert(below(text.size() + 1), kPieces[below(kPieces.size())]);
    return fmt::format("\"{}\"", text);
  }

  std::mt19937_64 random_;
};

// The library, which reads the whole text, is the naive twin.
TEST(ShortenedText, TheSameIsReadAndRefusedAsWithoutIt) {
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  RandomText texts(seed);
  std::size_t shortened = 0;
  std::size_t refused = 0;
  for (int i = 0; i < 3'000; ++i) {
    const std::string text = texts.next();
    const auto read = parse_body(text);
    const Json whole = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    ASSERT_EQ(read.ok(), whole.is_object()) << text;
    if (read) {
      ASSERT_EQ(read->dump(), whole.dump()) << text;
      shortened += ShortenedText(text).strings().empty() ? 0 : 1;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(shortened, 500U);
  EXPECT_GT(refused, 100U);
}

TEST(ShortenedText, OnlyWhatThePrinterWouldNotEscapeIsTakenOut) {
  const std::string plain(kLongString, 'x');
  const auto taken = [](const std::string& text) { return ShortenedText(text).strings().size(); };
  EXPECT_EQ(taken(fmt::format(R"({{"a":"{}"}})", plain)), 1U);
  EXPECT_EQ(taken(fmt::format(R"({{"a":"{}"}})", plain.substr(1))), 0U);
  EXPECT_EQ(taken(fmt::format(R"({{"{}":"{}"}})", plain, plain)), 2U);
  for (const char* piece : {R"(\n)", R"(\")", "\u00e4", "\x7f", "\n"}) {
    EXPECT_EQ(taken(fmt::format(R"({{"a":"{}{}"}})", plain, piece)), 0U) << piece;
  }
  EXPECT_EQ(taken(fmt::format(R"({{"a":"\\","b":"{}"}})", plain)), 1U) << "after an escaped backslash";
  const std::string unended = fmt::format(R"({{"a":"{}","b":"{})", plain, plain);
  EXPECT_EQ(taken(unended), 1U);
  const std::string body = fmt::format(R"({{"a":"{}","b":"c"}})", plain);
  EXPECT_EQ(ShortenedText(body).text(), R"({"a":"","b":"c"})");
}

// What a client is told is where the mistake is in its own text.
TEST(ShortenedText, MistakesAreFoundInTheWholeText) {
  const std::string plain(kLongString, 'x');
  EXPECT_THAT(complaint(fmt::format(R"({{"a":"{}",}})", plain)), testing::HasSubstr("column 4105"));
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
