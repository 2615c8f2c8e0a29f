#pragma once

// One generating request, from its parsed body to the last byte of the reply.

#include <memory>
#include <string>

#include "server/api/errors.h"
#include "server/api/reply.h"
#include "server/http/http_message.h"
#include "server/routes/routes.h"

namespace kvkeep::server {

struct Generation {
  std::string kind;  // for the log
  std::string id;    // of the reply
  api::Dialect dialect;
  api::GenerationRequest request;
  const HttpRequest& http;
  ResponseWriter& writer;
  std::unique_ptr<api::ReplyWriter> reply;
};

// Renders, tokenizes and submits. An Answer (answer.h) then makes the reply that the request asked for, a stream or one
// body; errors of the request are answered before this returns.
void generate(const Service& service, Generation generation);

// Moves the body out for its one reader, who frees its memory. A copy stays only if the trace shows it.
std::string take_body(const Service& service, HttpRequest& http);

// kNotFound if the model is not served here and --strict-model-names is set. Without the flag any name is served, and
// the log names once each name that the operator did not give.
Status check_model(const Service& service, const std::string& name);

// Counts the tokens of a request's prompt, without the model or the cache. Errors are those of check_model() and of
// rendering, and kAborted if the client of `http` leaves.
Result<std::size_t> count_prompt(const Service& service, const HttpRequest& http, const std::string& model,
                                 chat::RenderInput prompt, const Tenant& tenant);

void send_error(ResponseWriter& writer, const api::ErrorReply& error);
// The same for an error of the scheduler: 503 or 529 comes with the time after which trying again makes sense.
void send_refusal(const Service& service, ResponseWriter& writer, const api::ErrorReply& error);
// Makes a header with a fresh id that begins with `prefix`.
api::ReplyHeader reply_header(const Service& service, const std::string& prefix);

}  // namespace kvkeep::server
