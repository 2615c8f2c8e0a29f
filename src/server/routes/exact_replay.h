#pragma once

// Exact replay on the way from messages to a prompt, and from a reply to what is remembered of it (chat/replay).

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

// False: nothing is remembered, or no answer is asked for.
bool may_replay(const Service& service, const chat::RenderInput& input);

// `rendered`: of `input`, not empty. `render` gives the same for a changed input. Only turns of the tenant count.
using Render = std::function<Result<Prompt>(chat::RenderInput input)>;
Prompt replay_sampled(const Service& service, const chat::RenderInput& input, Prompt rendered, const Render& render,
                      const Tenant& tenant = kNoTenant);

// A turn from the prompt on to what was sampled. One per request; not thread safe.
class TurnRecorder {
 public:
  // Of a chat that asks for an answer. Records nothing if the service keeps no turns or the template's openings are not
  // known.
  TurnRecorder(const Service& service, TokenSpan prompt, const Tenant& tenant = kNoTenant);
  void add_token(TokenId token);
  void add_call(std::string id);
  // The client got the reply. `stop_string`: what ended it and was not told; "": something else did.
  void finish(const std::string& stop_string);

 private:
  bool cut_before(const std::string& stop_string);

  const Service& service_;
  std::optional<PrefixHash> before_;
  chat::SampledTurn turn_;
  std::size_t prompt_tokens_ = 0;  // of the turn, before what was sampled
};

}  // namespace kvkeep::server
