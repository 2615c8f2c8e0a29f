#include "server/api/slot_action.h"

#include <gtest/gtest.h>

#include <random>

#include "base/media_ids.h"
#include "server/api/body_fuzz_test.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

const std::string kNamed = R"({"filename":"x.bin"})";

std::string slot_error(std::string_view id, std::string_view action, const std::string& body) {
  const auto parsed = parse_slot_action(id, action, body, 2);
  return parsed ? "" : parsed.error().message;
}

TEST(SlotAction, NamesASlotAndAFile) {
  const SlotAction save = parse_slot_action("1", "save", kNamed, 2).value();
  EXPECT_EQ(save.slot, 1U);
  EXPECT_EQ(save.file_name, "x.bin");
  EXPECT_EQ(parse_slot_action("0", "restore", kNamed, 2).value().kind, SlotAction::Kind::kRestore);
  EXPECT_EQ(parse_slot_action("0", "erase", "", 2).value().kind, SlotAction::Kind::kErase);
  EXPECT_EQ(parse_slot_action("0", "erase", R"({"cache_salt":"s"})", 2).value().cache_salt, "s");
  EXPECT_EQ(save_reply(save, 14, 90, 1.5),
            R"({"id_slot":1,"filename":"x.bin","n_saved":14,"n_written":90,"timings":{"save_ms":1.5}})");
  EXPECT_EQ(restore_reply(save, 14, 90, 2.5),
            R"({"id_slot":1,"filename":"x.bin","n_restored":14,"n_read":90,"timings":{"restore_ms":2.5}})");
  EXPECT_EQ(erase_reply(save, 3), R"({"id_slot":1,"n_erased":3})");
}

TEST(SlotAction, CountsModuloTheSlotsAsRequestsDo) {
  EXPECT_EQ(parse_slot_action("2", "erase", "", 2).value().slot, 0U);
  EXPECT_EQ(parse_slot_action("7", "erase", "", 4).value().slot, 3U);
  EXPECT_EQ(erase_reply(parse_slot_action("7", "erase", "", 4).value(), 3), R"({"id_slot":3,"n_erased":3})");
}

TEST(SlotAction, FilesStayInTheirDirectory) {
  for (const char* name :
       {"../evil.bin", "sub/evil.bin", "..", ".", "", " x", "x ", "a\\\\b", "a\\u0000b", "a\\nb", "c:x"}) {
    const std::string body = std::string(R"({"filename":")") + name + "\"}";
    EXPECT_EQ(slot_error("0", "save", body), "Invalid filename") << name;
    EXPECT_EQ(slot_error("0", "restore", body), "Invalid filename") << name;
  }
  EXPECT_EQ(slot_error("0", "save", R"({"filename":")" + std::string(kLongestFileName + 1, 'a') + "\"}"),
            "Invalid filename");
  EXPECT_EQ(slot_error("0", "save", R"({"filename":".kept"})"), "");
}

TEST(SlotAction, Mistakes) {
  for (const char* id : {"abc", "", "-1", "1x", "99999999999999999999"}) {
    EXPECT_EQ(slot_error(id, "save", kNamed), "Invalid slot ID") << id;
  }
  EXPECT_EQ(slot_error("0", "drop", kNamed), "Invalid action: it is save, restore or erase");
  EXPECT_EQ(slot_error("0", "save", "{}"), "'filename' is required");
  EXPECT_NE(slot_error("0", "save", ""), "");
  EXPECT_NE(slot_error("0", "save", R"({"filename":5})"), "");
}

// Files of requests without a salt.
std::string saved(const FingerprintHash& model, TokenSpan tokens) { return saved_slot(model, "", tokens); }
Result<std::vector<TokenId>> read_back(std::string file, const FingerprintHash& model, std::size_t vocabulary,
                                       std::size_t context) {
  TRY_ASSIGN(SavedSlot slot, read_saved_slot(std::move(file), model, "", vocabulary, context));
  EXPECT_TRUE(slot.names_owner);
  return std::move(slot.tokens);
}

TEST(SavedSlot, ComesBackForItsModelOnly) {
  FingerprintHash model;
  FingerprintHash other;
  other.bytes[0] = 1;
  const std::vector<TokenId> tokens = {3, 1, 2};
  const std::string file = saved(model, tokens);
  EXPECT_EQ(read_back(file, model, 10, 100).value(), tokens);
  EXPECT_FALSE(read_back(file, other, 10, 100).ok());
  EXPECT_FALSE(read_back(file, model, 3, 100).ok()) << "no such token";
  EXPECT_FALSE(read_back(file, model, 10, 3).ok()) << "no room for a reply";
  for (std::size_t size = 0; size < file.size() - 1; ++size) {
    EXPECT_FALSE(read_back(file.substr(0, size), model, 10, 100).ok()) << size;
  }
}

TEST(SavedSlot, ComesBackForItsTenantOnly) {
  const FingerprintHash model;
  const std::string none = slot_owner(kNoTenant);
  const std::string one = slot_owner(tenant_of(model, "one"));
  const std::string other = slot_owner(tenant_of(model, "other"));
  EXPECT_EQ(none, "");
  EXPECT_NE(one, other);
  EXPECT_EQ(one, slot_owner(tenant_of(model, "one")));
  EXPECT_EQ(one.find(tenant_of(model, "one").hex(8)), std::string::npos) << "a tenant is the key of its state's names";
  for (const std::string& mine : {none, one, other}) {
    for (const std::string& asks : {none, one, other}) {
      const auto slot = read_saved_slot(saved_slot(model, mine, std::vector<TokenId>{1, 2}), model, asks, 10, 100);
      EXPECT_EQ(slot.ok(), mine == asks) << mine << " for " << asks;
      if (slot) continue;
      EXPECT_EQ(slot.error().message, no_saved_slot().message) << "as if it were not there";
    }
  }
}

TEST(SavedSlot, OfAFormerVersionNamesNobody) {
  const FingerprintHash model;
  const std::string former = R"({"kvkeep_slot":1,"model":")" + model.hex() + R"(","tokens":[1,2]})";
  const SavedSlot slot = read_saved_slot(former, model, "", 10, 100).value();
  EXPECT_FALSE(slot.names_owner);
  EXPECT_EQ(slot.tokens, (std::vector<TokenId>{1, 2}));
  const auto salted = read_saved_slot(former, model, slot_owner(tenant_of(model, "one")), 10, 100);
  EXPECT_EQ(salted.error().message, no_saved_slot().message);
}

TEST(SavedSlot, KeepsWholePictures) {
  const FingerprintHash model;
  std::vector<TokenId> tokens = media_ids({}, 0, {.embeddings = 2, .positions = 2});
  tokens.insert(tokens.begin(), 3);
  EXPECT_EQ(savable(tokens).size(), 1U) << "a restore computes the last token";
  tokens.push_back(1);
  EXPECT_EQ(savable(tokens).size(), tokens.size());
  EXPECT_EQ(read_back(saved(model, tokens), model, 10, 100).value(), tokens);
  for (const std::size_t lost : {1U, 3U, 6U}) {  // the head, an id within, the last one
    std::vector<TokenId> damaged = tokens;
    damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(lost));
    EXPECT_FALSE(read_back(saved(model, damaged), model, 10, 100).ok()) << lost;
  }
  tokens.pop_back();
  EXPECT_FALSE(read_back(saved(model, tokens), model, 10, 100).ok()) << "no text at the end";
  EXPECT_FALSE(read_back(saved(model, std::vector<TokenId>{1, -5, 2}), model, 10, 100).ok());
  std::string beyond = saved(model, std::vector<TokenId>{1, 2});
  beyond.replace(beyond.find("[1,2]"), 5, "[1,-9000000000,2]");
  EXPECT_FALSE(read_back(beyond, model, 10, 100).ok());
}

TEST(SavedSlotFuzz, AnyFileIsReadOrRefused) {
  constexpr std::string_view kWords[] = {"kvkeep_slot", "model", "tokens", "filename"};
  const FingerprintHash model;
  std::mt19937_64 random(20261123);
  for (int round = 0; round < 2'000; ++round) {
    Json file = Json::parse(saved(model, std::vector<TokenId>{1, 2, 3}));
    for (std::uint64_t edits = random() % 3; edits > 0; --edits) mutate_body(random, kWords, file);
    const auto tokens = read_back(file.dump(), model, 10, 100);
    if (!tokens) continue;
    EXPECT_TRUE(are_segment_ids(*tokens, 10));
  }
}

}  // namespace
}  // namespace kvkeep::server::api
