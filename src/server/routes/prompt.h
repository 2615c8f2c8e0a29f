#pragma once

// From what a request asks for to the token ids of its prompt.
//
// Tokenizing takes seconds per ten megabytes, so a long text that cannot fit into the context whatever its tokens are
// is not tokenized at all. A shorter one is, so that the refusal can say how many tokens there are. It is given up when
// the client leaves (chat/long_text.h).

#include <cstddef>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "chat/turns.h"
#include "policy/cut.h"
#include "server/api/request.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

struct Prompt {
  std::vector<TokenId> ids;        // left empty where tokens_min shows that they are too many for the context
  std::size_t tokens_min = 0;      // their number, or a lower bound of it
  bool is_counted = true;          // it is their number
  bool thinking_open = false;      // it ends within a thought that the template has opened for the reply
  std::size_t replayed_turns = 0;  // that stand there as they were sampled, not as their client spelled them
};

// Texts up to this size are always tokenized: some 50 ms.
inline constexpr std::size_t kAlwaysCountedBytes = 400 << 10;

// Whether a text that cannot fit is counted whole, which may take seconds.
enum class Counting { kWhereItFits, kExact };

// What becomes of the messages that a prompt was made of. A copy of them is as large as the request.
enum class MessagesAfter { kGone, kStay };

// Takes the text or messages out of `source`, in the name of `tenant`: what was learnt from others' prompts shapes or
// speeds up none. What service.stabilizers say is left out of messages. Errors of rendering and tokenizing; kAborted
// once `gone` says that nobody waits any more; too long a prompt is none. Messages that stay are as they were read:
// without what is left out of them.
Result<Prompt> read_prompt(
    const Service& service, api::PromptSource& source, const Tenant& tenant = kNoTenant,
    const std::function<bool()>& gone = [] { return false; }, Counting counting = Counting::kWhereItFits,
    MessagesAfter messages = MessagesAfter::kGone);

// Where a next prompt may part from this one. A turn's beginning is the end of the message before it.
policy::PromptMarkers markers_of(TokenSpan prompt, const chat::TurnOpenings& openings);

}  // namespace kvkeep::server
