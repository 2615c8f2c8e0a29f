#pragma once

// One generating request from parsed body to last byte.

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

// Renders, tokenizes and submits. An Answer (answer.h) then makes the reply as the request asked, stream or one body;
// what is wrong with the request is answered before this returns.
void generate(const Service& service, Generation generation);

// For its one reader, who gives its memory back. It stays only where the trace shows it.
std::string take_body(const Service& service, HttpRequest& http);

// kNotFound for a model that is not served here under --strict-model-names. Without it any name is: the log names
// once each name that is none of those the operator gave.
Status check_model(const Service& service, const std::string& name);

// Tokens of the prompt that a request would have; neither the model nor the cache is asked. Errors are those of
// check_model() and of rendering, and kAborted if the client of `http` leaves.
Result<std::size_t> count_prompt(const Service& service, const HttpRequest& http, const std::string& model,
                                 chat::RenderInput prompt, const Tenant& tenant);

void send_error(ResponseWriter& writer, const api::ErrorReply& error);
// With a fresh id that begins with `prefix`.
api::ReplyHeader reply_header(const Service& service, const std::string& prefix);

}  // namespace kvkeep::server
