#pragma once

// The work that a reply leaves for the request that comes after it.
//
// The turn is remembered as it was sampled (exact_replay.h). If the template will write it otherwise before a next user
// message, most often without its thinking, that form is prefilled now, while there is nothing else to do: the next
// request then pays only for its new tokens. A request that comes meanwhile waits for one short slice.

#include <optional>
#include <string>
#include <vector>

#include "chat/render.h"
#include "chat/tools/reply_parser.h"
#include "server/routes/exact_replay.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

// One per request; used by one thread at a time.
class NextRequest {
 public:
  // Returns true if the template may write the messages of this request otherwise next time, so that they are kept
  // until then; false if nothing is prefilled ahead.
  static bool wants_history(const Service& service, const api::GenerationRequest& request);

  // `remembered`: false for requests whose turn is not kept.
  NextRequest(const Service& service, std::string id, std::optional<chat::RenderInput> history, TokenSpan prompt,
              bool remembered, const Tenant& tenant, engine::AdapterScales adapters = {});
  void add_token(TokenId token);
  void add(const chat::tools::ReplyDelta& delta);
  // The client got the reply, which a stop string may have ended.
  void remember(const std::string& stop_string);
  // Call after remember(). After complete calls their results come next, and until then templates keep a turn as it is.
  bool may_prefill_ahead(bool calls) const { return history_ && !calls; }
  // Renders and tokenizes, unless another request has come.
  void prefill_ahead();

 private:
  const Service& service_;
  const std::string id_;
  const Tenant tenant_;
  const engine::AdapterScales adapters_;
  std::optional<chat::RenderInput> history_;
  std::optional<TurnRecorder> recorder_;
  std::vector<TokenId> known_;  // prompt and reply; kept only with a history
  std::string text_;
  std::string reasoning_;
};

}  // namespace kvkeep::server
