#pragma once

// A reply while it is being read, and one reader per dialect. Each takes events as they come; a body that is no stream
// is one event. Order of calls: take_*_event any number of times, finish_* once.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bench/sessions/dialect.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {

struct ReplyDraft {
  ReplyFacts facts;
  bool answered = false;               // a first piece of the answer came
  bool ended = false;                  // the dialect's end of a stream came
  std::uint64_t processed_tokens = 0;  // of the prompt, by the last event that says so
  std::string reasoning;
  std::map<std::uint64_t, Json> parts;             // by index: tool calls, content blocks or output items
  std::map<std::uint64_t, std::string> arguments;  // by index: JSON of a tool call, as far as it has come

  // Counts of the dialect; finish_* makes facts of them.
  std::optional<std::uint64_t> input_tokens;
  std::optional<std::uint64_t> cache_read_tokens;
  std::optional<std::uint64_t> cache_creation_tokens;
  std::optional<std::uint64_t> computed_tokens;  // timings.prompt_n
  std::optional<std::uint64_t> timings_cached;   // timings.cache_n
};

// Also for completions.
void take_openai_event(const Json& event, ReplyDraft& draft);
void finish_openai_chat(ReplyDraft& draft);
void finish_openai_completion(ReplyDraft& draft);

void take_responses_event(const Json& event, ReplyDraft& draft);
void finish_responses(ReplyDraft& draft);

void take_anthropic_event(const Json& event, ReplyDraft& draft);
void finish_anthropic(ReplyDraft& draft);

// Returns the server's own words in an error body or event of any dialect; "" if there are none.
std::string error_text(const Json& body);

// llama-server's and kvkeep's "timings".
void take_timings(const Json& event, ReplyDraft& draft);

// Fills prompt, cached and prefilled tokens. `prompt` is from the dialect's usage.
void settle_counts(std::optional<std::uint64_t> prompt, ReplyDraft& draft);

}  // namespace kvkeep::bench
