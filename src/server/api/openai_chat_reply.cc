#include "server/api/openai_chat_reply.h"

#include <utility>

namespace kvkeep::server::api {
namespace {

Json choice(Json delta, Json finish_reason = nullptr) {
  Json one = {{"finish_reason", std::move(finish_reason)}, {"index", 0}, {"delta", std::move(delta)}};
  return Json::array({std::move(one)});
}

Json role_delta() { return {{"role", "assistant"}, {"content", nullptr}}; }

}  // namespace

ChatReplyWriter::ChatReplyWriter(ReplyHeader header, const GenerationRequest& request)
    : header_(std::move(header)),
      include_usage_(request.include_usage),
      timings_per_token_(request.timings_per_token),
      return_tokens_(request.return_tokens) {}

Json ChatReplyWriter::chunk(Json choices) const {
  return {
      {"choices", std::move(choices)},
      {"created", header_.created_s},
      {"id", header_.id},
      {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint},
      {"object", "chat.completion.chunk"},
  };
}

std::string ChatReplyWriter::first() const { return sse(chunk(choice(role_delta()))); }

std::string ChatReplyWriter::progress(const PrefillProgress& progress) const {
  Json json = chunk(choice(role_delta()));
  json["prompt_progress"] = progress_json(progress);
  return sse(json);
}

std::string ChatReplyWriter::delta(const Delta& delta) const {
  Json json = chunk(choice({{"content", delta.text}}));
  if (return_tokens_) json["tokens"] = delta.tokens;
  if (timings_per_token_ && delta.timings != nullptr) json["timings"] = timings_json(*delta.timings);
  return sse(json);
}

std::string ChatReplyWriter::finish(const GenerationResult& result) const {
  Json last = chunk(choice(Json::object(), to_string(result.finish)));
  std::string bytes;
  if (include_usage_) {
    bytes = sse(last);
    last = chunk(Json::array());
    last["usage"] = usage_json(result);
  }
  last["timings"] = timings_json(result.timings);
  return bytes.append(sse(last)).append(sse_done());
}

std::string ChatReplyWriter::whole(const GenerationResult& result) const {
  Json one = {{"finish_reason", to_string(result.finish)},
              {"index", 0},
              {"message", {{"role", "assistant"}, {"content", result.text}}}};
  Json json = {
      {"choices", Json::array({std::move(one)})},
      {"created", header_.created_s},
      {"model", header_.model},
      {"system_fingerprint", header_.system_fingerprint},
      {"object", "chat.completion"},
      {"usage", usage_json(result)},
      {"id", header_.id},
      {"timings", timings_json(result.timings)},
  };
  if (return_tokens_) json["tokens"] = result.tokens;
  return to_line(json);
}

}  // namespace kvkeep::server::api
