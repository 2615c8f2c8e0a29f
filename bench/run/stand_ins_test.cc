// Noise in the places of files that a recording has only hashes of.

#include <gtest/gtest.h>

#include "bench/run/replayer.h"
#include "bench/sessions/json_fields.h"
#include "bench/workloads/pictures.h"

namespace kvkeep::bench {
namespace {

const std::string kHash(32, 'a');
const std::string kOther(32, 'b');

Session session_of(const std::vector<Json>& bodies) {
  Session session;
  for (const Json& body : bodies) session.requests.emplace_back().body = body;
  return session;
}

TEST(StandIns, TakeThePlacesOfHashes) {
  const std::string picture = "kvkeep-media:picture:" + kHash + ":400";
  Session session = session_of({{{"url", "data:image/png;base64," + picture}}, {{"data", picture}}});
  put_stand_ins(session);
  const std::string expected = in_base64(picture_file("picture:" + kHash + ":400"));
  EXPECT_EQ(session.requests[0].body["url"], "data:image/png;base64," + expected);
  EXPECT_EQ(session.requests[1].body["data"], expected);
  EXPECT_EQ(session.stand_ins, 1u);
}

TEST(StandIns, OfOtherHashesAreOthers) {
  Session session =
      session_of({Json::array({"kvkeep-media:picture:" + kHash + ":4", "kvkeep-media:picture:" + kOther + ":4",
                               "kvkeep-media:sound:" + kHash + ":4"})});
  put_stand_ins(session);
  const Json& files = session.requests[0].body;
  EXPECT_NE(files[0], files[1]);
  EXPECT_TRUE(files[2].get<std::string>().starts_with("UklGR"));
  EXPECT_EQ(session.stand_ins, 3u);
}

TEST(StandIns, OtherTextStays) {
  const std::string mark = "kvkeep-media:picture:" + kHash;
  for (const std::string& text :
       std::vector<std::string>{"kvkeep-media:", "kvkeep-media:picture:", "see " + mark + ":4", mark + ":4 and more",
                                "kvkeep-media:film:" + kHash + ":4", mark}) {
    Session session = session_of({Json{{"content", text}}});
    put_stand_ins(session);
    EXPECT_EQ(session.requests[0].body["content"], text);
    EXPECT_EQ(session.stand_ins, 0u);
  }
}

}  // namespace
}  // namespace kvkeep::bench
