#pragma once

// POST /slots/ID?action=save|restore|erase, as llama-server answers it, and the file that a saved slot is: JSON with
// the token ids of the conversation, and the model and the tenant that they belong to.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::server::api {

struct SlotAction {
  enum class Kind { kSave, kRestore, kErase } kind = Kind::kSave;
  std::size_t slot = 0;
  std::string file_name = {};   // not of kErase: a name without a directory
  std::string cache_salt = {};  // whose state it is (read_cache_salt())
};

inline constexpr std::size_t kLongestFileName = 200;

// `id` is the path's last part; as in llama-server, and as the `id_slot` of requests, it counts modulo the number of
// slots. All errors are kInvalid. Of kErase the body may be empty.
Result<SlotAction> parse_slot_action(std::string_view id, std::string_view action, std::string body, std::size_t slots);

// Files that are longer hold no conversation of any model.
inline constexpr std::size_t kLongestSavedSlot = 64 << 20;

// Returns the tokens of a conversation that a file may have: all but pictures and sounds at its end, for a restore
// computes the last token and has no files.
TokenSpan savable(TokenSpan tokens);
// Whose files these are: the name of the directory, below that of saved slots, in which a tenant's files lie; "" for
// kNoTenant, whose files lie in that of saved slots. The tenant cannot be computed from it.
std::string slot_owner(const Tenant& tenant);
// `owner`: slot_owner(). Precondition: savable().
std::string saved_slot(const FingerprintHash& model, std::string_view owner, TokenSpan tokens);
struct SavedSlot {
  std::vector<TokenId> tokens = {};
  bool names_owner = true;  // false: a former version saved it for any tenant and did not note which one
};
// kInvalid if the file is malformed, belongs to another model or holds as many tokens as the context or more. Another
// tenant's file is no_saved_slot(), as if it were not there.
Result<SavedSlot> read_saved_slot(std::string file, const FingerprintHash& model, std::string_view owner,
                                  std::size_t vocabulary_size, std::size_t context_tokens);
Error no_saved_slot();

std::string save_reply(const SlotAction& action, std::size_t tokens, std::size_t bytes, double ms);
std::string restore_reply(const SlotAction& action, std::size_t tokens, std::size_t bytes, double ms);
std::string erase_reply(const SlotAction& action, std::size_t tokens);

}  // namespace kvkeep::server::api
