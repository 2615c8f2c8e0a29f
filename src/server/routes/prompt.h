#pragma once

// Turns the prompt of a request into token ids.
//
// Tokenizing takes seconds per ten megabytes, so that a long text that cannot fit into the context, whatever its
// tokens, is not tokenized at all. A shorter one is, so that the refusal can name the number of tokens. It is stopped
// when the client leaves (chat/long_text.h).

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/prompt_parts.h"
#include "base/result.h"
#include "base/types.h"
#include "chat/turns.h"
#include "policy/cut.h"
#include "server/api/request.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

struct Prompt {
  std::vector<TokenId> ids;                       // empty if tokens_min shows that they are too many for the context
  std::vector<ChunkSource> media = {};            // of each chunk of a picture or sound among the ids, in their order
  std::size_t tokens_min = 0;                     // the number of tokens, or a lower bound of it
  bool is_counted = true;                         // tokens_min is exact
  std::shared_ptr<const PromptParts> parts = {};  // where the ids' text came from; null: it has no messages
  bool thinking_open = false;  // the prompt ends within a thought that the template opened for the reply
};

// Texts up to this size are always tokenized: some 50 ms.
inline constexpr std::size_t kAlwaysCountedBytes = 400 << 10;

// Whether a text that cannot fit is counted to its end, which may take seconds.
enum class Counting { kWhereItFits, kExact };

// Whether the messages of a prompt stay after it was made. A copy of them is as large as the request.
enum class MessagesAfter { kGone, kStay };

// Takes the text or messages out of `source`. Only prompts of `tenant` shape it or speed it up. service.stabilizers
// leave parts of messages out; messages that stay in `source` lack those parts, too. Errors of rendering and
// tokenizing, and of its files as settle_files() and PromptFiles have them; kAborted once `gone` returns true; a prompt
// that is too long is no error. Files that stay in `source` have no bytes any more. A text with a gap is cut so
// that a reply of `max_tokens` has room; kUnsupported if the model fills none in.
Result<Prompt> read_prompt(
    const Service& service, api::PromptSource& source, const Tenant& tenant = kNoTenant,
    const std::function<bool()>& gone = [] { return false; }, Counting counting = Counting::kWhereItFits,
    MessagesAfter messages = MessagesAfter::kGone, std::optional<std::int64_t> max_tokens = {});

// Where the next prompt may part from this one. A turn's beginning is the end of the message before it; pictures and
// sounds are messages of their own.
policy::PromptMarkers markers_of(TokenSpan prompt, const chat::TurnOpenings& openings);

}  // namespace kvkeep::server
