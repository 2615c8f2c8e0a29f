#include <algorithm>
#include <utility>

#include "bench/sessions/event_splitter.h"
#include "bench/sessions/reply_draft.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMaxReplyBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxOtherBytes = std::size_t{64} << 10;  // of a reply that is only awaited

enum class Form : std::uint8_t { kUndecided, kWhole, kEvents };

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view without_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

// The kind of a body, by its first bytes: a stream begins with a field's name or a comment.
Form form_of(std::string_view head) {
  if (head.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(head)) return Form::kUndecided;
  head = without_mark(head);
  head.remove_prefix(std::min(head.find_first_not_of(" \r\n\t"), head.size()));
  if (head.empty()) return Form::kUndecided;
  for (const std::string_view field : {":", "data:", "event:", "id:", "retry:"}) {
    if (head.starts_with(field)) return Form::kEvents;
    if (field.starts_with(head)) return Form::kUndecided;
  }
  return Form::kWhole;
}

std::string text_of_status(int status) { return "HTTP " + std::to_string(status); }

void set_error(ReplyFacts& facts, std::string text) {
  if (facts.error.empty()) facts.error = shortened(text);
}

// Returns a string, or a string inside the value, or the value's JSON.
std::string words_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (std::string message = text_field(value, "message"); !message.empty()) return message;
  return to_line(value);
}

}  // namespace

struct ReplyReader::State {
  State(Dialect of, int code)
      : dialect(of),
        status(code),
        events(kMaxReplyBytes, [this](std::string_view name, std::string_view data) { take_data(name, data); }) {}

  void take_data(std::string_view name, std::string_view data);
  void take_event(const Json& event);
  void take_whole();
  void close_stream();
  void settle();

  Dialect dialect;
  int status;
  Form form = Form::kUndecided;
  std::string bytes;  // received before the form was known, or the whole body
  bool overflowed = false;
  EventSplitter events;
  ReplyDraft draft;
};

ReplyReader::ReplyReader(Dialect dialect, int status) : state_(std::make_unique<State>(dialect, status)) {}
ReplyReader::ReplyReader(ReplyReader&&) noexcept = default;
ReplyReader& ReplyReader::operator=(ReplyReader&&) noexcept = default;
ReplyReader::~ReplyReader() = default;

bool ReplyReader::feed(std::string_view bytes) {
  State& state = *state_;
  if (state.form == Form::kEvents) {
    state.events.feed(bytes);
    return state.draft.answered;
  }
  const std::size_t limit = state.dialect == Dialect::kOther ? kMaxOtherBytes : kMaxReplyBytes;
  const std::size_t room = limit - std::min(limit, state.bytes.size());
  state.overflowed |= bytes.size() > room;
  state.bytes.append(bytes.substr(0, room));
  if (state.form == Form::kUndecided) state.form = form_of(state.bytes);
  if (state.form == Form::kEvents) return feed(without_mark(std::exchange(state.bytes, {})));
  if (state.form == Form::kWhole && state.status < 400) state.draft.answered = true;
  return state.draft.answered;
}

std::size_t ReplyReader::answer_bytes() const {
  return state_->draft.facts.text.size() + state_->draft.reasoning.size();
}

std::uint64_t ReplyReader::processed_tokens() const { return state_->draft.processed_tokens; }

ReplyFacts ReplyReader::finish() {
  State& state = *state_;
  if (state.form == Form::kEvents) {
    state.events.finish();
    state.close_stream();
  } else {
    state.take_whole();
  }
  state.settle();
  return std::move(state.draft.facts);
}

void ReplyReader::State::take_data(std::string_view name, std::string_view data) {
  if (data == "[DONE]") {
    draft.ended = true;
    return;
  }
  Result<Json> event = parse_json(data);
  if (!event) return set_error(draft.facts, "an event that is " + event.error().message);
  if (!name.empty() && event->is_object() && field(*event, "type") == nullptr) (*event)["type"] = std::string(name);
  take_event(*event);
}

void ReplyReader::State::take_event(const Json& event) {
  switch (dialect) {
    case Dialect::kOpenAiChat:
    case Dialect::kOpenAiCompletion: take_openai_event(event, draft); break;
    case Dialect::kOpenAiResponses: take_responses_event(event, draft); break;
    case Dialect::kAnthropic: take_anthropic_event(event, draft); break;
    case Dialect::kOther: break;
  }
}

void ReplyReader::State::take_whole() {
  if (dialect == Dialect::kOther && status < 400) return;
  if (overflowed) return set_error(draft.facts, "a reply of more than 64 MiB");
  const Result<Json> body = parse_json(without_mark(bytes));
  if (status >= 400) {
    std::string words = body ? error_text(*body) : bytes;
    return set_error(draft.facts, words.empty() ? text_of_status(status) : std::move(words));
  }
  if (bytes.empty()) return set_error(draft.facts, "an empty reply");
  if (!body) return set_error(draft.facts, "a reply that is " + body.error().message);
  take_event(*body);
}

void ReplyReader::State::close_stream() {
  if (events.overflowed()) set_error(draft.facts, "a reply with a line of more than 64 MiB");
  if (status >= 400) return set_error(draft.facts, text_of_status(status));
  const bool ended = draft.ended || !draft.facts.finish_reason.empty() || dialect == Dialect::kOther;
  if (!ended) set_error(draft.facts, "the stream stopped before its end");
}

void ReplyReader::State::settle() {
  switch (dialect) {
    case Dialect::kOpenAiChat: finish_openai_chat(draft); break;
    case Dialect::kOpenAiCompletion: finish_openai_completion(draft); break;
    case Dialect::kOpenAiResponses: finish_responses(draft); break;
    case Dialect::kAnthropic: finish_anthropic(draft); break;
    case Dialect::kOther: break;
  }
}

std::string error_text(const Json& body) {
  for (const char* name : {"error", "message", "detail"}) {
    if (const Json* value = field(body, name)) return shortened(words_of(*value));
  }
  return body.is_object() && body.empty() ? std::string() : shortened(to_line(body));
}

void take_timings(const Json& event, ReplyDraft& draft) {
  if (const Json* progress = field(event, "prompt_progress")) {
    draft.processed_tokens = count_field(*progress, "processed").value_or(draft.processed_tokens);
  }
  const Json* timings = field(event, "timings");
  if (timings == nullptr) return;
  if (const auto computed = count_field(*timings, "prompt_n")) draft.computed_tokens = computed;
  if (const auto cached = count_field(*timings, "cache_n")) draft.timings_cached = cached;
  if (std::string source = text_field(*timings, "cache_source"); !source.empty()) draft.facts.cache_source = source;
  const Json* rate = field(*timings, "predicted_per_second");
  if (rate != nullptr && rate->is_number()) draft.facts.tokens_per_second = rate->get<double>();
  if (!draft.facts.reply_tokens) draft.facts.reply_tokens = count_field(*timings, "predicted_n");
}

void settle_counts(std::optional<std::uint64_t> prompt, ReplyDraft& draft) {
  ReplyFacts& facts = draft.facts;
  facts.cached_tokens = draft.cache_read_tokens ? draft.cache_read_tokens : draft.timings_cached;
  facts.prompt_tokens = prompt;
  if (!prompt && draft.computed_tokens) facts.prompt_tokens = *draft.computed_tokens + facts.cached_tokens.value_or(0);
  facts.prefilled_tokens = draft.computed_tokens;
  if (!facts.prefilled_tokens && facts.prompt_tokens && facts.cached_tokens) {
    facts.prefilled_tokens = *facts.prompt_tokens - std::min(*facts.prompt_tokens, *facts.cached_tokens);
  }
}

}  // namespace kvkeep::bench
