#include "server/api/openai/completions_reply.h"

#include <utility>

namespace kvkeep::server::api {

CompletionReplyWriter::CompletionReplyWriter(ReplyHeader header, const GenerationRequest& request)
    : header_(std::move(header)),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens) {}

Json CompletionReplyWriter::body(std::string_view text, Json finish_reason) const {
  Json choice = {{"text", text}, {"index", 0}, {"logprobs", nullptr}, {"finish_reason", std::move(finish_reason)}};
  return {
      {"choices", Json::array({std::move(choice)})},      {"created", header_.created_s}, {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint}, {"object", "text_completion"},  {"id", header_.id},
  };
}

Json CompletionReplyWriter::final_body(std::string_view text, const GenerationResult& result) const {
  Json json = body(text, to_string(result.finish));
  json["usage"] = usage_json(result);
  json["timings"] = timings_json(result.timings);
  return json;
}

std::string CompletionReplyWriter::progress(const PrefillProgress& progress) {
  Json json = body("", nullptr);
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string CompletionReplyWriter::delta(const Delta& delta) {
  Json json = body(delta.text, nullptr);
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string CompletionReplyWriter::finish(const GenerationResult& result) {
  return sse(final_body("", result)).append(sse_done());
}

std::string CompletionReplyWriter::whole(const GenerationResult& result) {
  Json json = final_body(joined_text(result.content, PartKind::kText), result);
  if (return_tokens_) json["tokens"] = result.tokens;
  return to_line(json);
}

}  // namespace kvkeep::server::api
