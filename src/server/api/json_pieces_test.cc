#include "server/api/json_pieces.h"

#include <gtest/gtest.h>

namespace kvkeep::server::api {
namespace {

TEST(JsonPieces, AreOneText) {
  JsonPieces pieces;
  pieces.add("{\"a\":");
  pieces.add_list(3, [](std::size_t number) { return Json(number); });
  pieces.add([] { return members({{"b", "c"}, {"d", nullptr}}, ","); });
  pieces.add(",\"e\":");
  pieces.add_list(0, [](std::size_t) { return Json(); });
  pieces.add("}");
  EXPECT_EQ(pieces.next(), R"({"a":[0,1,2],"b":"c","d":null,"e":[]})");
  EXPECT_EQ(pieces.next(), "");
  EXPECT_EQ(members(Json::object()), "");
}

// The memory of a reply's text does not grow with its length.
TEST(JsonPieces, AreMadeOneAfterTheOther) {
  constexpr std::size_t kElements = 10'000;
  std::size_t made = 0;
  bool last_made = false;
  JsonPieces pieces;
  pieces.add_list(kElements, [&](std::size_t number) {
    EXPECT_EQ(number, made++);
    return Json(std::string(1'000, 'x'));
  });
  pieces.add([&] {
    last_made = true;
    return std::string(" ");
  });
  std::size_t bytes = 0;
  for (std::string piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    bytes += piece.size();
    EXPECT_LT(piece.size(), kPieceBytes + 2'000);
    EXPECT_LE(made, bytes / 1'000) << "elements of later pieces are not made yet";
    EXPECT_EQ(last_made, made == kElements);
  }
  EXPECT_EQ(bytes, kElements * 1'003 + 1 + 1);
}

}  // namespace
}  // namespace kvkeep::server::api
