#include "inspect/model_notes.h"

#include <gtest/gtest.h>

#include "store/layout.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::inspect {
namespace {

const ModelNote kNote{.name = "tiny \"x\"",
                      .description = "llama",
                      .path = "/m/\xff.gguf",
                      .settings = "-fa off",
                      .computed_by = "CPU",
                      .first_used_s = 7,
                      .devices = {"CPU SSE3 AVX"}};

TEST(ModelNote, ComesBack) {
  ModelNote back = decode_model_note(encode_model_note(kNote)).value();
  EXPECT_EQ(back.name, kNote.name);
  EXPECT_EQ(back.first_used_s, 7);
  EXPECT_EQ(back.settings, "-fa off");
  EXPECT_EQ(back.computed_by, "CPU");
  EXPECT_EQ(back.devices, std::vector<std::string>{"CPU SSE3 AVX"});
  EXPECT_EQ(back.path, "/m/\uFFFD.gguf") << "not UTF-8: not a path that JSON can hold";
}

TEST(ModelNote, AnythingElseIsNone) {
  const std::string text = encode_model_note(kNote);
  for (std::size_t size = 0; size + 2 < text.size(); ++size) EXPECT_FALSE(decode_model_note(text.substr(0, size)));
  for (const char* bad : {"[]", "7", "null", "\xff"}) EXPECT_FALSE(decode_model_note(bad)) << bad;
  EXPECT_EQ(decode_model_note(R"({"name": 7, "path": [], "first_used": "x"})").value(), ModelNote{});
  EXPECT_EQ(decode_model_note("{\"name\": \"" + std::string(9000, 'a') + "\"}")->name.size(), 1024U);
}

TEST(ModelNote, IsBounded) {
  ModelNote large = kNote;
  large.name = std::string(100'000, 'a');
  large.path = std::string(100'000, 'b');
  large.settings = large.computed_by = std::string(100'000, 'c');
  large.devices.assign(1000, std::string(512, 'd'));
  for (std::size_t i = 0; i < large.devices.size(); ++i) large.devices[i][0] = static_cast<char>('a' + i % 26);
  EXPECT_LE(encode_model_note(large).size(), kMaxNoteBytes);
}

TEST(ModelNote, KeepsItsFirstUseAndIsReplacedWhole) {
  sim::SimFileSystem files;
  ASSERT_TRUE(files.make_directories("/d"));
  EXPECT_FALSE(read_model_note(files, "/d"));
  ASSERT_TRUE(write_model_note(
      files, "/d", {.name = "a", .description = "", .path = "", .settings = "", .computed_by = "", .first_used_s = 5}));
  ASSERT_TRUE(write_model_note(
      files, "/d", {.name = "b", .description = "", .path = "", .settings = "", .computed_by = "", .first_used_s = 9}));
  EXPECT_EQ(read_model_note(files, "/d")->name, "b");
  EXPECT_EQ(read_model_note(files, "/d")->first_used_s, 5);
  files.plant("/d/" + std::string(store::kModelNoteName), std::vector<std::byte>(kMaxNoteBytes + 1, std::byte{32}));
  EXPECT_FALSE(read_model_note(files, "/d"));
}

// Several servers, an import and a pull may have filled a directory.
TEST(ModelNote, RemembersAllDevices) {
  using Devices = std::vector<std::string>;
  const std::string unknown(kUnknownDevice);
  const auto written = [](std::vector<Devices> writers) {
    sim::SimFileSystem files;
    EXPECT_TRUE(files.make_directories("/d"));
    for (const Devices& devices : writers) {
      ModelNote note = kNote;
      note.devices = devices;
      EXPECT_TRUE(write_model_note(files, "/d", note));
    }
    return read_model_note(files, "/d")->devices;
  };
  EXPECT_EQ(written({{"a"}}), Devices{"a"});
  EXPECT_EQ(written({{"a"}, {"a"}}), Devices{"a"});
  EXPECT_EQ(written({{"a"}, {"b"}, {"a"}}), (Devices{"a", "b"}));
  EXPECT_EQ(written({{}}), Devices{});
  EXPECT_EQ(written({{}, {"a"}}), (Devices{unknown, "a"})) << "an earlier version wrote the first";
  EXPECT_EQ(written({{"a"}, {}}), (Devices{"a", unknown}));
  EXPECT_EQ(written({{"a"}, {"b"}, {"c"}, {"d"}, {"e"}}), (Devices{"a", "b", "c", unknown}));
  EXPECT_EQ(written({{std::string(600, 'x')}}), Devices{unknown}) << "a name that is cut names nothing";
}

TEST(Pins, ComeBackAndBadLinesAreNone) {
  PrefixHash a, b;
  a.bytes.fill(1);
  b.bytes.fill(0xab);
  const std::string text = encode_pins({a, b});
  EXPECT_EQ(decode_pins(text), (std::vector{a, b}));
  EXPECT_EQ(decode_pins("junk\n" + text + "ABC\n\n"), (std::vector{a, b}));
  EXPECT_EQ(decode_pins(text.substr(0, text.size() - 1)), (std::vector{a, b})) << "without the last line end";
  EXPECT_EQ(decode_pins(text.substr(0, text.size() - 2)), (std::vector{a}));
  EXPECT_TRUE(decode_pins("").empty());
  std::string many;
  for (std::size_t i = 0; i < 2 * kMostPins; ++i) many += encode_pins({a});
  EXPECT_EQ(decode_pins(many).size(), kMostPins);
}

}  // namespace
}  // namespace kvkeep::inspect
