#pragma once

// llama-server's own dialect: replies of /completion, requests of /infill, and /props.
//
// A reply has the text as "content" at the top level, why it ended as "stop_type", and the settings it was made with.
// Requests of /completion are those of /v1/completions (openai/completions.h).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/monitoring.h"
#include "server/api/reply.h"

namespace kvkeep::server::api {

class NativeCompletionWriter final : public ReplyWriter {
 public:
  // `prompts`: each one's text; replies repeat it.
  NativeCompletionWriter(ReplyHeader header, const GenerationRequest& request, std::vector<std::string> prompts);

  std::string first(const ReplyStart& start) override;
  std::string progress(const PrefillProgress& progress) override;
  std::string delta(const Delta& delta) override;
  // The last event has no "[DONE]" after it.
  std::string finish(const GenerationResult& result) override;
  std::string end_choice(const GenerationResult& result) override { return finish(result); }
  std::string whole(const GenerationResult& result) override { return whole_of_all({result}).rest(); }
  // Several choices are an array of replies.
  JsonPieces whole_of_all(std::vector<GenerationResult> results) override;

 private:
  // A choice of a stream so far.
  struct Progress {
    std::size_t prompt_tokens = 0;
    std::size_t predicted = 0;
    bool has_new_line = false;
  };

  Json piece(std::size_t choice, std::optional<std::size_t> slot, std::string_view text,
             std::span<const TokenId> tokens) const;
  Json last(std::string_view text, const GenerationResult& result) const;

  const ReplyHeader header_;
  const std::vector<std::string> prompts_;
  const std::size_t choices_per_prompt_;
  const Json settings_;
  const std::vector<std::string> response_fields_;
  const std::optional<std::int64_t> max_tokens_;
  const bool timings_per_token_;
  const bool shows_scores_;
  const ScoreKind score_kind_;
  std::vector<Progress> choices_;
};

// POST /infill, for editors: body -> GenerationRequest. Replies are those of /completion.
//
// `input_prefix` and `input_suffix` are the text around the gap, `prompt` the beginning of the line with the gap, and
// `input_extra` other files or parts of them, which come first: they change least from one request to the next.
inline constexpr std::size_t kMostExtraFiles = 1'024;

// All errors are kInvalid (400).
Result<GenerationRequest> parse_infill(std::string body, const RequestDefaults& defaults);

// Reads the texts only.
Result<FillIn> read_fill_in(const Json& body);

// Returns how tokens are chosen and how many, as llama-server shows it in its settings.
Json sampling_json(const engine::SamplingParams& sampling, std::optional<std::int64_t> max_tokens);

// The facts that GET /props shows: clients and launchers ask for them first.
struct ServerProps {
  std::string model_name = {};
  std::string model_path = {};
  std::string chat_template = {};  // Jinja text
  Json chat_template_caps = {};    // template_caps() of it
  std::string bos_token = {};      // as templates write them; "": the vocabulary has none
  std::string eos_token = {};
  std::string build = {};
  std::size_t context_tokens = 0;
  std::size_t parallel = 0;    // requests decoded at the same time
  std::string file_type = {};  // how most weights are quantized
  Endpoints endpoints = {};
};

std::string props_reply(const ServerProps& props, const RequestDefaults& defaults);

}  // namespace kvkeep::server::api
