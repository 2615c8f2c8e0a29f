#pragma once

// The internal request: every dialect's body becomes one.
//
// Wiring, on the HTTP thread: parse_chat / parse_completion (openai/chat.h, openai/completions.h) returns a
// GenerationRequest or an Error for error_reply (errors.h). Then
//   - a chat::RenderInput goes through chat::render_prompt and chat::tokenize_prompt (set local_time_s before),
//   - a std::string is tokenized as it is, with BOS as the vocabulary wants and spellings as markers,
//   - token ids are the prompt.
// The ids, `sampling` and `max_tokens` go to the scheduler; its events go to a ReplyWriter (reply.h).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.h"
#include "chat/render.h"
#include "chat/tools/piece_stream.h"
#include "chat/tools/reply_parser.h"
#include "engine/sampling.h"
#include "server/api/media_parts.h"
#include "server/api/output_format.h"

namespace kvkeep::server::api {

// Whether and how the model may call the tools of the prompt.
enum class ToolChoice {
  kAuto,      // the model chooses
  kNone,      // all its output is text; the tools stay in the prompt, since leaving them out would change its prefix
  kRequired,  // at least one call
  kNamed,     // one call, of the tool `name`
};

struct ToolUse {
  ToolChoice choice = ToolChoice::kAuto;
  std::string name = {};  // kNamed
  // The tools that may be called; empty: all of them. All tools stay in the prompt.
  std::vector<std::string> allowed = {};
  bool parallel = true;  // false: the reply ends with its first call
};

// A text with a gap that the reply fills. Markers are not looked for in any of its texts.
struct FillIn {
  struct File {
    std::string name;
    std::string text;
  };
  std::string prefix = {};
  std::string typed = {};  // goes on after the prefix; tokenized by itself
  std::string suffix = {};
  std::vector<File> files = {};  // other files, or parts of them
  bool names_files = false;      // the prompt names a repository and files, as llama-server's /infill does
};

using PromptSource = std::variant<chat::RenderInput, std::string, std::vector<TokenId>, MixedPrompt, FillIn>;

struct GenerationRequest {
  PromptSource prompt;
  std::vector<PromptSource> more_prompts = {};  // further ones, answered side by side
  std::size_t choices_per_prompt = 1;           // replies to each of them; prompt i has those from i times this on
  engine::SamplingParams sampling;
  std::vector<std::pair<std::string, float>> text_biases = {};  // added to logits of the tokens of each text
  std::optional<engine::AdapterScales> adapters = {};           // empty: the server's
  std::vector<TokenId> withheld = {};  // tokens that cannot come, for a reply that shows its settings
  std::vector<std::string> stop;
  std::optional<std::int64_t> max_tokens = {};  // empty: until the context is full; 0: prefill only
  std::int64_t kept_tokens = 0;                 // of the prompt, when the context shifts; -1: all of it
  std::size_t discarded_tokens = 0;             // when the context shifts; 0: half of those that are not kept
  double longest_prompt_ms = 0;                 // of the prefill; 0: no limit
  double longest_total_ms = 0;                  // from the arrival to the last token; 0: no limit
  chat::tools::LineLimitOptions lines = {};
  std::string model;  // as the client named it; "" if it did not
  bool stream = false;
  bool include_usage = false;                     // stream: a chunk with usage at the end
  bool return_progress = false;                   // stream: prompt_progress chunks while prefilling
  bool timings_per_token = false;                 // stream: timings in every chunk
  bool return_tokens = false;                     // the sampled ids next to the text
  bool echo = false;                              // of completions: the reply repeats the prompt
  bool score_prompt = false;                      // with echo: score the tokens of the prompt like those of the reply
  std::vector<std::string> response_fields = {};  // of native replies: the fields to send; empty: all
  // Score each token of the reply, and so many of the likeliest ones at its place; empty: no scores.
  std::optional<std::size_t> scored_tokens = {};
  std::optional<std::size_t> slot = {};  // the place where the reply is made, if it is free; it changes nothing else
  bool cache_prompt = true;              // false: neither reads nor writes the cache
  std::string cache_salt = {};           // who shares its cached state (read_cache_salt()); never logged
  std::int64_t keep_s = 0;               // how long the client asks to keep prompt and reply (read_keep_s())
  OutputFormat output = {};              // the form that the reply must have
  ToolUse tools = {};                    // matters only if the prompt has tools
  chat::tools::ReasoningFormat reasoning_format = chat::tools::ReasoningFormat::kDeepSeek;
  bool may_end_thought = false;  // the client may end the reply's thought before it ends by itself
  // The sender, for order and the trace, never for what is reused; "" if not sent.
  std::string user = {};
  std::string prompt_cache_key = {};
  int priority = 0;                              // of those that wait the lowest come first
  std::vector<std::string> unknown_fields = {};  // fields of the body (known_fields.h) that changed nothing

  std::size_t choices() const { return choices_per_prompt * (1 + more_prompts.size()); }
};

// The part of a body that says how long its prompt is, for routes that only count.
struct CountRequest {
  chat::RenderInput prompt;
  std::string model;
  std::string cache_salt;
  std::vector<std::string> unknown_fields;
};

// Values for fields that a request does not set, and the limits of the model that it goes to.
struct RequestDefaults {
  engine::SamplingParams sampling;
  std::optional<std::int64_t> max_tokens = {};
  std::int64_t kept_tokens = 0;  // see GenerationRequest
  bool cache_prompt = true;
  bool strict_fields = false;                        // refuse bodies with unknown fields
  std::size_t adapters = 0;                          // LoRA adapters that are loaded
  std::size_t vocabulary_size = 0;                   // token ids in requests must be below; 0: not checked
  OutputFormat output = {};                          // of replies whose request demands no form and has no tools
  std::string thought_ending = {};                   // the last words of a thought that is ended by force
  nlohmann::ordered_json template_kwargs = nullptr;  // more variables for chat templates; a request's own win
  chat::tools::ReasoningFormat reasoning_format = chat::tools::ReasoningFormat::kDeepSeek;
  std::optional<MediaRules> media = {};  // empty: the model takes text only

  const MediaRules* media_rules() const { return media ? &*media : nullptr; }
};

}  // namespace kvkeep::server::api
