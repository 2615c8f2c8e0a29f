#pragma once

// Replies of /v1/responses.
//
// Stream: response.created, response.in_progress, then for each item of the output response.output_item.added, its
// parts, response.output_item.done; at the end response.completed, or response.incomplete if the reply was cut by its
// length, with the whole response. Each event has its `event:` line, its `type` and a sequence_number. A failure in
// between is reported twice, as `error` and as response.failed, because clients look for one or the other.
//
// Thoughts are reasoning items. Their text is in `summary`, the one place that all clients show, and again in
// encrypted_content, since clients that store nothing on a server drop reasoning without it.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/api/errors.h"
#include "server/api/json_body.h"
#include "server/api/reply.h"
#include "server/api/responses/tools.h"

namespace kvkeep::server::api {

class ResponsesReplyWriter final : public ReplyWriter {
 public:
  // `echo`: ResponsesRequest::echo.
  ResponsesReplyWriter(ReplyHeader header, const GenerationRequest& request, ClientTools tools, Json echo);
  std::string first(const ReplyStart& start) override;
  // A response.in_progress with prompt_progress.
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  std::string finish(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override;

  // An event, not a comment: clients that wait for events take the silence of a long prefill for a dead connection.
  std::string keep_alive() override;
  ErrorReply error(const Error& error) const override;
  // In a stream the error is a stream of its own, as in the API: not all clients understand the status.
  ErrorReply context_exceeded(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens) const override;
  std::string stream_error(const ErrorReply& reply) const override;

 private:
  struct Item {
    ReplyPart part;
    std::string id;
  };

  Json response(std::string_view status, Json output) const;
  Json final_response(const GenerationResult& result, Json output) const;
  Json item_json(const Item& item, std::string_view status) const;
  Item make_item(ReplyPart part, std::size_t index) const;
  const ClientTool* client_tool(std::string_view name) const;

  // Sends the opening events first, if none were sent: numbers are given in the order in which events are made.
  std::string event(std::string_view type, Json fields);
  std::string item_event(std::string_view type, Json fields);  // with item_id and output_index
  std::string open_item(ReplyPart part);
  std::string open_parts();
  std::string add_text(PartKind kind, const Delta& delta);
  std::string close_parts();
  std::string close_item(std::string_view status = "completed");

  const ReplyHeader header_;
  const bool streams_;
  const bool timings_per_token_;
  const ClientTools tools_;
  const Json echo_;
  bool opened_ = false;
  std::size_t sequence_ = 0;  // of the next event
  std::optional<Item> item_;  // the open one
  Json output_ = Json::array();
};

// Errors in the shape of OpenAI's Responses API:
// {"error":{"message":"...","type":"invalid_request_error","param":"input[0].content","code":null}}.

// Makes the error for a status of HTTP. `param` is the field that the message begins with in quotes, if any.
ErrorReply responses_error(int status, std::string_view message);

// Status by kind: kInvalid and kUnsupported 400, kNotFound 404, kNoSpace 413, kBusy and kAborted 503, else 500.
ErrorReply responses_error_reply(const Error& error);

// A 400 with the code that clients look for before they shorten a conversation, and both numbers. `is_counted`: the
// number of tokens is exact, not a lower bound.
ErrorReply input_too_long_reply(std::size_t prompt_tokens, bool is_counted, std::size_t context_tokens);

// The answer to requests under /v1/responses/: nothing is stored, so that no id is known.
ErrorReply response_not_found();

// Returns the `error` of a body that one of these functions made.
Json error_of(const ErrorReply& reply);

}  // namespace kvkeep::server::api
