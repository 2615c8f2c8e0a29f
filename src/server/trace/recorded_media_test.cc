// What a recording shows of pictures and sounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/trace/trace_file.h"

namespace kvkeep::server {
namespace {

using api::Json;
using testing::MatchesRegex;
using testing::StartsWith;

std::string hidden(const std::string& body, const std::string& place) {
  Json json = Json::parse(body);
  hide_media(json);
  return json.at(Json::json_pointer(place)).get<std::string>();
}

constexpr char kPicture[] = "kvkeep-media:picture:[0-9a-f]+:8";
constexpr char kSound[] = "kvkeep-media:sound:[0-9a-f]+:16";

TEST(RecordedMedia, FilesOfEachDialectAreHidden) {
  EXPECT_THAT(hidden(R"({"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,iVBORw0K"}}]}]})",
                     "/messages/0/content/0/image_url/url"),
              MatchesRegex(std::string("data:image/png;base64,") + kPicture));
  EXPECT_THAT(hidden(R"({"input":[{"content":[{"image_url":"data:image/png;base64,iVBORw0K"}]}]})",
                     "/input/0/content/0/image_url"),
              MatchesRegex(std::string("data:image/png;base64,") + kPicture));
  EXPECT_THAT(hidden(R"({"messages":[{"content":[{"source":{"type":"base64","data":"iVBORw0K"}}]}]})",
                     "/messages/0/content/0/source/data"),
              MatchesRegex(kPicture));
  EXPECT_THAT(hidden(R"({"messages":[{"content":[{"image_url":{"url":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"}}]}]})",
                     "/messages/0/content/0/image_url/url"),
              MatchesRegex("kvkeep-media:picture:[0-9a-f]+:32"));
  EXPECT_THAT(hidden(R"({"messages":[{"content":[{"input_audio":{"data":"UklGRgAAAABXQVZF"}}]}]})",
                     "/messages/0/content/0/input_audio/data"),
              MatchesRegex(kSound));
  EXPECT_THAT(hidden(R"({"messages":[{"content":[{"file":{"file_data":"UklGRgAAAABXQVZF"}}]}]})",
                     "/messages/0/content/0/file/file_data"),
              MatchesRegex(kSound));
  EXPECT_THAT(hidden(R"({"prompt":{"multimodal_data":["iVBORw0K"]}})", "/prompt/multimodal_data/0"),
              MatchesRegex(kPicture));
}

TEST(RecordedMedia, OtherTextStays) {
  for (const char* body :
       {R"({"messages":[{"content":"data:image/png;base64,iVBORw0K"}]})", R"({"data":"iVBORw0K"})",
        R"({"messages":[{"content":[{"image_url":{"url":"https://example.com/a.png"}}]}]})",
        R"({"messages":[{"content":[{"type":"tool_use","input":{"url":"example.com/a/long/way/to/a/page"}}]}]})",
        R"({"messages":[{"content":[{"type":"text","text":"data:image/png;base64,iVBORw0K"}]}]})", R"("iVBORw0K")"}) {
    Json json = Json::parse(body);
    hide_media(json);
    EXPECT_EQ(json.dump(), Json::parse(body).dump());
  }
}

TEST(RecordedMedia, TheSameFileHasTheSameHash) {
  const auto of = [](const std::string& base64) {
    return hidden(R"({"prompt":{"multimodal_data":[")" + base64 + R"("]}})", "/prompt/multimodal_data/0");
  };
  EXPECT_EQ(of("iVBORw0K"), of("iVBORw0K"));
  EXPECT_NE(of("iVBORw0K"), of("iVBORw1K"));
  EXPECT_THAT(of("!"), StartsWith("kvkeep-media:picture:")) << "no base64";
}

}  // namespace
}  // namespace kvkeep::server
