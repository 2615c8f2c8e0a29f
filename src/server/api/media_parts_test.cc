#include "server/api/media_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvkeep::server::api {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Base64, ReadsWhatOthersWrite) {
  EXPECT_EQ(*decode_base64(""), "");
  EXPECT_EQ(*decode_base64("Zg=="), "f");
  EXPECT_EQ(*decode_base64("Zm8="), "fo");
  EXPECT_EQ(*decode_base64("Zm9v"), "foo");
  EXPECT_EQ(*decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(*decode_base64("Zm9vYg"), "foob") << "without padding";
  EXPECT_EQ(*decode_base64("Zm9v\r\nYmFy\n"), "foobar") << "in lines";
  EXPECT_EQ(*decode_base64("//79+w=="), "\xff\xfe\xfd\xfb");
}

// Without padding.
std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  std::size_t waiting = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<std::uint8_t>(byte);
    for (waiting += 8; waiting >= 6; waiting -= 6) text += kDigits[bits >> (waiting - 6) & 63];
  }
  if (waiting > 0) text += kDigits[bits << (6 - waiting) & 63];
  return text;
}

// Groups of four digits are read at once, and digits around a line break one by one.
TEST(Base64, LineBreaksMayStandAnywhere) {
  std::string all;
  for (int each = 0; each < 256; ++each) all += static_cast<char>(each);
  const std::string text = in_base64(all);
  EXPECT_EQ(*decode_base64(text), all);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    std::string broken = text;
    EXPECT_EQ(*decode_base64(broken.insert(at, "\r\n")), all) << at;
    if (at == text.size()) break;
    EXPECT_FALSE(decode_base64(std::string(text).replace(at, 1, "%"))) << at;
  }
}

TEST(Base64, RefusesAnythingElse) {
  for (const char* text : {"Z", "Zm9vY", "Zm9v!", "Zm=v", "Zm 9v", "_-8="}) EXPECT_FALSE(decode_base64(text)) << text;
}

class MediaReaderTest : public ::testing::Test {
 protected:
  MediaReaderTest() {
    rules_.pictures = true;
    rules_.key.least_tokens = 1;
    rules_.new_names = [this] {
      key_.back() = std::byte{++requests_};
      return chat::MediaNames(key_);
    };
  }
  std::string refused(const Result<std::string>& name) { return name ? "none" : name.error().message; }

  MediaRules rules_;

 private:
  chat::MediaNames::Key key_{};
  std::uint8_t requests_ = 0;
};

TEST_F(MediaReaderTest, KeepsFilesByTheirNumber) {
  MediaReader reader(&rules_);
  const auto first = reader.from_url("data:image/png;base64,Zm9v", "messages[0].content[0]");
  const auto second = reader.from_base64("YmFy", "messages[0].content[1]");
  ASSERT_TRUE(first.ok() && second.ok());
  const chat::PromptMedia media = reader.take();
  EXPECT_EQ(*first, media.names.name(0));
  EXPECT_EQ(*second, media.names.name(1));
  ASSERT_EQ(media.files.size(), 2U);
  EXPECT_EQ(*media.files[0].bytes, "foo");
  EXPECT_EQ(media.files[1].place, "messages[0].content[1]");
  EXPECT_NE(media.files[0].hash, media.files[1].hash);
}

TEST_F(MediaReaderTest, EachRequestHasNamesOfItsOwn) {
  std::vector<std::string> names;
  for (int request = 0; request < 2; ++request) {
    MediaReader reader(&rules_);
    const auto first = reader.from_base64("Zm9v", "p");
    ASSERT_TRUE(first.ok() && reader.from_base64("Zm9v", "p").ok());
    names.push_back(*first);
    EXPECT_TRUE(reader.take().names.next(*first, 0).has_value()) << "the second file of a request changes no name";
  }
  EXPECT_NE(names[0], names[1]) << "a client that learnt a name knows none of another request";
  EXPECT_FALSE(MediaReader(&rules_).take().names.next(names[1], 0).has_value()) << "without a file there are none";
}

TEST_F(MediaReaderTest, PartsOfOtherApisHaveATypeHere) {
  constexpr PartTypes kChat{.text = "text", .picture = "image_url", .sound = "input_audio", .file = "file"};
  const MediaReader sees(&rules_);
  EXPECT_EQ(sees.type_here("image", kChat), "image_url");
  EXPECT_EQ(sees.type_here("input_image", kChat), "image_url");
  EXPECT_EQ(sees.type_here("input_file", kChat), "file");
  EXPECT_EQ(sees.type_here("input_text", kChat), "text");
  EXPECT_EQ(sees.type_here("audio_url", kChat), "") << "it does not hear";
  for (const char* own : {"text", "image_url", "file", "picture", "document"}) {
    EXPECT_EQ(sees.type_here(own, kChat), "") << own;
  }
  EXPECT_EQ(sees.type_here("image_url", {.text = "text", .picture = "image"}), "image");
  EXPECT_EQ(sees.type_here("file", {.text = "text", .picture = "image"}), "") << "that API has none";
  rules_.sound = true;
  EXPECT_EQ(MediaReader(&rules_).type_here("audio_url", kChat), "input_audio");
  EXPECT_EQ(MediaReader(nullptr).type_here("image", kChat), "") << "the model reads text only";
  EXPECT_EQ(MediaReader(nullptr).type_here("output_text", kChat), "text");
}

TEST(HasMediaPart, IfAValueIsTheTypeOfOne) {
  for (const char* body :
       {R"({"type":"image"})", R"({"type" : "image_url"})", "{\"type\":\n\"input_image\"}", R"({"type":"input_audio"})",
        R"({"type":"input_file"})", R"({"type":"file"})", R"({"multimodal_data":[]})", R"({"type":"im\u0061ge"})",
        R"({"type":"\u0066\u0069le"})", R"({"multimodal_dat\u0061":[]})"}) {
    EXPECT_TRUE(has_media_part(body)) << body;
  }
  // Keys and elements of such names, which definitions of tools have, and texts that quote them.
  for (const char* body : {"", "\"", "{}", R"({"file":{"type":"string"},"required":["file"]})",
                           R"({"type":"text","text":"\"image\""})", R"({"text":"type:\"file\""})",
                           R"({"type":"files"})", R"({"type":"fil\u0061"})", R"({"type":"\u00)", R"({"type":"file)"}) {
    EXPECT_FALSE(has_media_part(body)) << body;
  }
}

TEST(RemoteFile, MayBeNamedByAMemberThatHasUrls) {
  for (const char* body :
       {R"({"url":"http://a"})", R"({"image_url" : "https:\/\/a"})", "{\"file_url\"\n:\n\"http://a\"}",
        R"({"url":"\u0068ttp://a"})", R"({"\u0075rl":"ht\u0074p://a"})", R"({"text":"\"","url":"http://a"})"}) {
    EXPECT_TRUE(may_name_remote_file(body)) << body;
  }
  for (const char* body : {"", "\"http", "\"url\"", R"({"url":"data:image/png;base64,http"})", R"(["url","http://a"])",
                           R"({"text":"http://a"})", R"({"text":"\"url\":\"http://a\""})", R"({"my_url":"http://a"})",
                           R"({"url":["http://a"]})", R"(:"http")", R"(":"http")"}) {
    EXPECT_FALSE(may_name_remote_file(body)) << body;
  }
}

TEST_F(MediaReaderTest, TheHashHeedsWhatTheKeyHas) {
  const auto hash = [&] {
    MediaReader reader(&rules_);
    EXPECT_TRUE(reader.from_base64("Zm9v", "p").ok());
    return reader.take().files.front().hash;
  };
  const MediaHash before = hash();
  EXPECT_EQ(hash(), before);
  rules_.key.most_tokens = 9;
  EXPECT_NE(hash(), before);
}

TEST_F(MediaReaderTest, UrlsOfOtherKindsAreRefusedByThePartsPath) {
  MediaReader reader(&rules_);
  EXPECT_EQ(
      refused(reader.from_url("https://example.org/a.png", "part 1")),
      "'part 1': this server fetches nothing from other hosts without --allow-remote-media: send the file in base64");
  EXPECT_THAT(refused(reader.from_url("data:image/png,abc", "part 1")), HasSubstr("must be in base64"));
  EXPECT_THAT(refused(reader.from_url("data:image/png;base64,!", "part 1")), HasSubstr("'part 1': it is not base64"));
  EXPECT_THAT(refused(reader.from_url("data:image/png;base64,", "part 1")), HasSubstr("is empty"));
  EXPECT_THAT(refused(reader.from_url("file://a.png", "part 1")), HasSubstr("--media-path"));
  for (const char* url : {"", "cat.png", "malformed"}) {
    EXPECT_THAT(refused(reader.from_url(url, "part 1")), HasSubstr("URL, or base64")) << url;
  }
}

TEST_F(MediaReaderTest, Base64MayStandInTheUrlsPlace) {
  MediaReader reader(&rules_);
  ASSERT_TRUE(reader.from_url("Zm9v", "part 1").ok());
  EXPECT_EQ(*reader.take().files.at(0).bytes, "foo");
}

TEST_F(MediaReaderTest, FilesWithAUrlAreReadLater) {
  rules_.read_file = [](std::string_view) -> Result<std::string> { return io_error("nobody reads here"); };
  rules_.fetch = [](const std::string&, const FetchTerms&) -> Result<std::string> { return io_error("nor fetches"); };
  MediaReader reader(&rules_);
  EXPECT_TRUE(reader.from_url("file://a.png", "part 1").ok());
  EXPECT_TRUE(reader.from_url("https://example.org/a.png", "part 2").ok());
  EXPECT_EQ(refused(reader.from_url("ftp://b", "p")), "'p' must be a data:, file:, http: or https: URL, or base64");
  for (std::size_t i = 1; i < kMostFetched; ++i) (void)reader.from_url("https://example.org/a.png", "p");
  EXPECT_THAT(refused(reader.from_url("https://example.org/a.png", "p")), HasSubstr("at most 32 files are fetched"));
  const chat::PromptMedia media = reader.take();
  ASSERT_EQ(media.files.size(), 1 + kMostFetched);
  EXPECT_EQ(media.files[0], (chat::MediaFile{.place = "part 1", .url = "file://a.png"}));
  EXPECT_EQ(media.files[1], (chat::MediaFile{.place = "part 2", .url = "https://example.org/a.png"}));
}

TEST_F(MediaReaderTest, EachDialectsPartIsRead) {
  MediaReader reader(&rules_);
  EXPECT_TRUE(reader.image_url(Json::parse(R"({"image_url":{"url":"data:;base64,Zm9v"}})"), "p").ok());
  EXPECT_TRUE(reader.input_audio(Json::parse(R"({"input_audio":{"data":"Zm9v","format":"wav"}})"), "p").ok());
  EXPECT_TRUE(reader.input_image(Json::parse(R"({"image_url":"data:;base64,Zm9v"})"), "p").ok());
  EXPECT_TRUE(
      reader.image_block(Json::parse(R"({"source":{"type":"base64","media_type":"image/png","data":"Zm9v"}})"), "p")
          .ok());
  EXPECT_TRUE(reader.image_block(Json::parse(R"({"source":{"type":"url","url":"data:;base64,Zm9v"}})"), "p").ok());
  EXPECT_EQ(reader.take().files.size(), 5U);
}

TEST_F(MediaReaderTest, APromptHasAFileForEachMarker) {
  rules_.marker = "<m>";
  MediaReader reader(&rules_);
  const auto read = [&](std::string_view text, const char* data) {
    return reader.prompt_with_files(text, Json::parse(data), "data");
  };
  const auto shown = [&](std::string_view text, const char* data) {
    const auto prompt = read(text, data);
    if (!prompt) return prompt.error().message;
    std::string all;
    for (const auto& part : *prompt) {
      const auto* file = std::get_if<chat::MediaFile>(&part);
      all +=
          file != nullptr ? "(" + *file->bytes + " at " + file->place + ")" : "'" + std::get<std::string>(part) + "'";
    }
    return all;
  };
  EXPECT_EQ(shown("a<m>b<m>c", R"(["Zm9v","YmFy"])"), "'a'(foo at data[0])'b'(bar at data[1])'c'");
  EXPECT_EQ(shown("<m><m>", R"(["Zm9v","YmFy"])"), "(foo at data[0])(bar at data[1])");
  EXPECT_EQ(shown("a<m>", R"(["Zm9v","YmFy"])"), "'data[1]' has no marker in the prompt");
  EXPECT_EQ(shown("<m>a<m>", R"(["Zm9v"])"), "'data' has fewer files than the prompt has markers");
  EXPECT_EQ(shown("<m>", "[]"), "'data' has fewer files than the prompt has markers");
  EXPECT_EQ(shown("<m>", R"(["!"])"), "'data[0]': it is not base64");
  for (const char* wrong : {R"("Zm9v")", R"({})", R"([7])", R"([{}])"}) EXPECT_FALSE(read("<m>", wrong).ok()) << wrong;
  MediaReader blind(nullptr);
  EXPECT_EQ(blind.prompt_with_files("<m>", Json::parse(R"(["Zm9v"])"), "data").error().message,
            "'data': this model reads text only");
}

TEST_F(MediaReaderTest, MalformedPartsAreRefused) {
  MediaReader reader(&rules_);
  for (const char* part : {R"({})", R"({"image_url":1})", R"({"image_url":{}})", R"({"image_url":{"url":7}})"}) {
    EXPECT_THAT(refused(reader.image_url(Json::parse(part), "p")), StartsWith("'p")) << part;
  }
  for (const char* part : {R"({})", R"({"source":{}})", R"({"source":{"type":"file","file_id":"x"}})",
                           R"({"source":{"type":"base64"}})"}) {
    EXPECT_THAT(refused(reader.image_block(Json::parse(part), "p")), StartsWith("'p")) << part;
  }
  EXPECT_THAT(refused(reader.input_image(Json::parse(R"({"file_id":"x"})"), "p")), HasSubstr("nothing is stored"));
  EXPECT_THAT(refused(reader.input_audio(Json::parse(R"({"input_audio":{}})"), "p")), StartsWith("'p"));
}

TEST_F(MediaReaderTest, FilesOfAnyKindAreReadIfTheyMayBePictures) {
  MediaReader reader(&rules_);
  for (const char* data : {"Zm9v", "data:image/png;base64,Zm9v", "data:audio/wav;base64,Zm9v", "data:;base64,Zm9v",
                           "data:application/octet-stream;base64,Zm9v"}) {
    const Json file = {{"filename", "a.png"}, {"file_data", data}};
    EXPECT_TRUE(reader.chat_file({{"type", "file"}, {"file", file}}, "p").ok()) << data;
    EXPECT_TRUE(reader.input_file(file, "p").ok()) << data;
  }
  const chat::PromptMedia media = reader.take();
  ASSERT_EQ(media.files.size(), 10U);
  EXPECT_EQ(media.files[0].place, "p.file");
  EXPECT_EQ(media.files[1].place, "p");
  for (const chat::MediaFile& file : media.files) EXPECT_EQ(*file.bytes, "foo");
}

TEST_F(MediaReaderTest, FilesOfOtherKindsAreRefusedByTheirKind) {
  MediaReader reader(&rules_);
  const auto refused_file = [&](const char* file) { return refused(reader.input_file(Json::parse(file), "p")); };
  EXPECT_EQ(refused_file(R"({"file_data":"data:application/pdf;base64,Zm9v"})"),
            "'p' is a file of type application/pdf: of files, only pictures and sounds are read");
  EXPECT_THAT(refused_file(R"({"file_data":"data:text/plain,foo"})"), HasSubstr("type text/plain"));
  EXPECT_THAT(refused_file(R"({"file_id":"x"})"), HasSubstr("nothing is stored"));
  EXPECT_THAT(refused_file(R"({"file_url":"https://example.com/a.png"})"), HasSubstr("fetches nothing"));
  for (const char* file :
       {R"({})", R"({"file_data":1})", R"({"file_url":1})", R"({"file_data":"!"})",
        R"({"file_data":"data:image/png,foo"})", R"({"file_data":"data:"})", R"({"file_data":""})"}) {
    EXPECT_THAT(refused_file(file), StartsWith("'p")) << file;
  }
  for (const char* part : {R"({})", R"({"file":1})", R"({"file":{}})", R"({"file":{"file_id":"x"}})"}) {
    EXPECT_THAT(refused(reader.chat_file(Json::parse(part), "p")), StartsWith("'p")) << part;
  }
}

TEST_F(MediaReaderTest, ARequestOfAKindWithoutFilesIsRefusedWithTheReason) {
  MediaReader reader(&rules_, "there is no room");
  EXPECT_TRUE(reader.pictures()) << "the model takes them elsewhere";
  EXPECT_EQ(refused(reader.from_base64("Zg==", "p")), "'p': there is no room");
  EXPECT_EQ(refused(reader.from_url("data:;base64,Zg==", "p")), "'p': there is no room");
}

TEST_F(MediaReaderTest, ARequestHasALimitOfFiles) {
  MediaReader reader(&rules_);
  for (std::size_t i = 0; i < kMostFiles; ++i) ASSERT_TRUE(reader.from_base64("Zg==", "p").ok());
  EXPECT_THAT(refused(reader.from_base64("Zg==", "p")), HasSubstr("at most 1000"));
}

TEST(MediaReader, WithoutRulesNothingIsRead) {
  const MediaReader reader(nullptr);
  EXPECT_FALSE(reader.pictures());
  EXPECT_FALSE(reader.sound());
}

}  // namespace
}  // namespace kvkeep::server::api
