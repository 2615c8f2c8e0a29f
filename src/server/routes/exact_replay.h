#pragma once

// Exact replay between messages and a prompt, and between a reply and the memory of sampled turns (chat/replay).

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/render.h"
#include "chat/replay/replay.h"
#include "server/routes/prompt.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// Returns false if turns are not remembered, or no answer is asked for.
bool may_replay(const Service& service, const chat::RenderInput& input);

// `rendered` is the prompt of `input`, not empty; `render` makes one of a changed input. Only the tenant's turns count.
using Render = std::function<Result<Prompt>(chat::RenderInput input)>;
Prompt replay_sampled(const Service& service, const chat::RenderInput& input, Prompt rendered, const Render& render,
                      const Tenant& tenant = kNoTenant);

// Records a turn from the prompt to its last sampled token. One per request; not thread safe.
class TurnRecorder {
 public:
  // For a chat that asks for an answer. Records nothing if the service keeps no turns or the template's openings are
  // unknown.
  TurnRecorder(const Service& service, TokenSpan prompt, const Tenant& tenant = kNoTenant);
  void add_token(TokenId token);
  void add_call(std::string id);
  // The client got the reply. `stop_string`: the one that ended it, which the client did not get; "" if none did.
  void finish(const std::string& stop_string);

 private:
  bool cut_before(const std::string& stop_string);

  const Service& service_;
  std::optional<PrefixHash> before_;
  chat::SampledTurn turn_;
  std::size_t prompt_tokens_ = 0;  // tokens of the turn before the sampled ones
};

}  // namespace kvkeep::server
