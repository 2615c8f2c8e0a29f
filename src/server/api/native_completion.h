#pragma once

// llama-server's own dialect: replies of /completion, and /props.
//
// A reply has the text as "content" at the top level, why it ended as "stop_type", and the settings it was made with.
// Requests are those of /v1/completions (openai/completions.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/api/reply.h"

namespace kvkeep::server::api {

class NativeCompletionWriter final : public ReplyWriter {
 public:
  // `prompt`: as text; the reply repeats it.
  NativeCompletionWriter(ReplyHeader header, const GenerationRequest& request, std::string prompt);

  std::string first(const ReplyStart& start) override;
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  // The last event has no "[DONE]" after it.
  std::string finish(const GenerationResult& result) override;
  std::string whole(const GenerationResult& result) override;

 private:
  Json piece(std::string_view text, std::span<const TokenId> tokens) const;
  Json last(std::string_view text, const GenerationResult& result) const;

  const ReplyHeader header_;
  const std::string prompt_;
  const Json settings_;
  const std::optional<std::int64_t> max_tokens_;
  const bool timings_per_token_;
  const bool shows_scores_;
  std::size_t prompt_tokens_ = 0;
  std::size_t predicted_ = 0;  // tokens of the stream so far
  bool has_new_line_ = false;  // in the stream so far
};

// The facts that GET /props shows: clients and launchers ask for them first.
struct ServerProps {
  std::string model_name = {};
  std::string model_path = {};
  std::string chat_template = {};  // Jinja text
  std::string bos_token = {};      // as templates write them; "": the vocabulary has none
  std::string eos_token = {};
  std::string build = {};
  std::size_t context_tokens = 0;
  std::size_t parallel = 0;  // requests decoded at the same time
};

std::string props_reply(const ServerProps& props, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
