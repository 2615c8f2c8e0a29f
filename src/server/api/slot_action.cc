#include "server/api/slot_action.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/media_ids.h"
#include "server/api/generation_fields.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

constexpr std::string_view kSlotFormat = "kvkeep_slot";
constexpr int kSlotVersion = 2;
constexpr int kVersionWithoutOwner = 1;

// A name that stays in its directory on any system.
bool is_file_name(std::string_view name) {
  constexpr std::string_view kSpecial = "/\\:*?\"<>|";
  const auto is_bad = [&](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || kSpecial.find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= kLongestFileName && name.find_first_not_of('.') != std::string_view::npos &&
         name.front() != ' ' && name.back() != ' ' && std::ranges::none_of(name, is_bad);
}

Result<SlotAction::Kind> kind_of(std::string_view action) {
  if (action == "save") return SlotAction::Kind::kSave;
  if (action == "restore") return SlotAction::Kind::kRestore;
  if (action == "erase") return SlotAction::Kind::kErase;
  return invalid("Invalid action: it is save, restore or erase");
}

// Ids of the vocabulary, and those of whole pictures and sounds between them.
Result<std::vector<TokenId>> read_conversation_ids(const Json& array, std::size_t vocabulary_size) {
  std::vector<TokenId> all;
  all.reserve(array.size());
  for (const Json& element : array) {
    const bool is_media = element.is_number_integer() && !element.is_number_unsigned() &&
                          element.get<std::int64_t>() >= std::numeric_limits<TokenId>::min();
    if (is_media) {
      all.push_back(static_cast<TokenId>(element.get<std::int64_t>()));
      continue;
    }
    TRY_ASSIGN(const std::vector<TokenId> id, read_token_ids(Json::array({element}), "tokens", vocabulary_size));
    all.push_back(id.front());
  }
  const bool ends_with_text = all.empty() || !is_media_id(all.back());
  if (!ends_with_text || !media_runs(all).ok()) return invalid("'tokens': there is no such picture or sound");
  return all;
}

Json times(const char* name, double ms) { return {{name, ms}}; }

}  // namespace

Result<SlotAction> parse_slot_action(std::string_view id, std::string_view action, std::string body,
                                     std::size_t slots) {
  SlotAction asked;
  TRY_ASSIGN(asked.kind, kind_of(action));
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), asked.slot);
  if (error != std::errc() || end != id.data() + id.size()) return invalid("Invalid slot ID");
  asked.slot %= slots;
  const bool erases = asked.kind == SlotAction::Kind::kErase;
  if (body.empty() && erases) return asked;
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  TRY_ASSIGN(asked.cache_salt, read_cache_salt(json));
  if (erases) return asked;
  if (field(json, "filename") == nullptr) return invalid("'filename' is required");
  TRY(read_string(json, "filename", asked.file_name));
  if (!is_file_name(asked.file_name)) return invalid("Invalid filename");
  return asked;
}

TokenSpan savable(TokenSpan tokens) {
  while (!tokens.empty() && is_media_id(tokens.back())) tokens = tokens.first(tokens.size() - 1);
  return tokens;
}

std::string slot_owner(const Tenant& tenant) {
  constexpr std::size_t kOwnerBytes = 16;
  if (tenant == kNoTenant) return {};
  ByteHasher hasher;
  hasher.append_field("owner of a saved slot");
  hasher.append_field(tenant.hex());
  return "tenant-" + hasher.finish<Hash256<struct SlotOwnerTag>>().hex(kOwnerBytes);
}

std::string saved_slot(const FingerprintHash& model, std::string_view owner, TokenSpan tokens) {
  return to_line({{kSlotFormat, kSlotVersion}, {"model", model.hex()}, {"owner", owner}, {"tokens", tokens}});
}

Result<SavedSlot> read_saved_slot(std::string file, const FingerprintHash& model, std::string_view owner,
                                  std::size_t vocabulary_size, std::size_t context_tokens) {
  const auto json = parse_body(std::move(file));
  const Json version = json ? json->value(kSlotFormat, Json(0)) : Json(0);
  if (version != kSlotVersion && version != kVersionWithoutOwner)
    return invalid("the file is no slot that kvkeep saved");
  SavedSlot slot{.names_owner = version == kSlotVersion};
  if (slot.names_owner ? json->value("owner", Json()) != owner : !owner.empty()) return no_saved_slot();
  if (json->value("model", Json("")) != model.hex()) {
    return invalid("the slot was saved by another model, or with other settings of its memory");
  }
  const Json tokens = json->value("tokens", Json());
  if (!tokens.is_array()) return invalid("the file is no slot that kvkeep saved");
  if (tokens.size() >= context_tokens) {
    return invalid(fmt::format("the slot has {} tokens, and the context {}: raise -c", tokens.size(), context_tokens));
  }
  TRY_ASSIGN(slot.tokens, read_conversation_ids(tokens, vocabulary_size));
  return slot;
}

Error no_saved_slot() { return invalid("there is no saved slot of this name"); }

std::string save_reply(const SlotAction& action, std::size_t tokens, std::size_t bytes, double ms) {
  return to_line({{"id_slot", action.slot},
                  {"filename", action.file_name},
                  {"n_saved", tokens},
                  {"n_written", bytes},
                  {"timings", times("save_ms", ms)}});
}

std::string restore_reply(const SlotAction& action, std::size_t tokens, std::size_t bytes, double ms) {
  return to_line({{"id_slot", action.slot},
                  {"filename", action.file_name},
                  {"n_restored", tokens},
                  {"n_read", bytes},
                  {"timings", times("restore_ms", ms)}});
}

std::string erase_reply(const SlotAction& action, std::size_t tokens) {
  return to_line({{"id_slot", action.slot}, {"n_erased", tokens}});
}

}  // namespace kvkeep::server::api
