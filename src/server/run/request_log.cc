#include "server/run/request_log.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <utility>

namespace kvkeep::server {
namespace {

// A shorter wait is not worth a word.
constexpr double kQueueMs = 10;

// "(memory 8, disk 1822)".
std::string tiers_text(const JobStats& stats) {
  std::string text;
  const auto add = [&](const char* tier, std::size_t tokens) {
    if (tokens > 0) text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", tier, tokens);
  };
  add("memory", stats.memory_tokens);
  add("RAM", stats.ram_tokens);
  add("disk", stats.disk_tokens);
  add("shared", stats.shared_tokens);
  return text.empty() ? text : text + ")";
}

// " waited=(place 0.300s, prefix 0.200s)"; "" if it waited for nothing but its place, which queue= says.
std::string waits_text(const Waits& waits) {
  std::string text;
  bool is_more = false;
  for (const WaitCause cause : kWaitCauses) {
    if (waits.ended()[cause] < kQueueMs) continue;
    text += fmt::format("{}{} {:.3f}s", text.empty() ? "" : ", ", to_string(cause), waits.ended()[cause] / 1e3);
    is_more |= cause != WaitCause::kPlace;
  }
  return is_more ? fmt::format(" waited=({})", text) : std::string();
}

// Names the part of a conversation that a token lies in, without showing its text. Returns "" if there are no turns.
std::string part_of(Position at, const policy::PromptMarkers& markers) {
  const auto begun = [at](const std::vector<Position>& turns) {
    return std::ranges::count_if(turns, [at](Position begin) { return begin <= at; });
  };
  if (markers.user_turns.empty() && markers.assistant_turns.empty()) return {};
  if (markers.generation_prompt && *markers.generation_prompt <= at) return ", where the reply begins,";
  const auto users = begun(markers.user_turns);
  const auto replies = begun(markers.assistant_turns);
  if (users + replies == 0) return ", in the system prompt or the tools,";
  const bool is_reply = replies > 0 && (users == 0 || markers.assistant_turns[static_cast<std::size_t>(replies) - 1] >
                                                          markers.user_turns[static_cast<std::size_t>(users) - 1]);
  return is_reply ? fmt::format(", in or after turn {} of the assistant,", replies)
                  : fmt::format(", in turn {} of the user,", users);
}

std::string texts(const Difference& difference, const ShowTokens* show) {
  if (show == nullptr) return {};
  const std::size_t before = difference.at - difference.begin;
  const TokenSpan prompt(difference.prompt);
  return fmt::format(", after {}: here {}, there {}", (*show)(prompt.first(before)), (*show)(prompt.subspan(before)),
                     (*show)(TokenSpan(difference.cached).subspan(before)));
}

// For models that cannot go on from any token.
std::string points_text(std::size_t from) {
  const std::string last = from == 0 ? "none of them is kept" : fmt::format("the last of them at {}", from);
  return "this model can go on only from points (docs/cuts.md), " + last;
}

std::string branch_text(const EndedRequest& ended, const ShowTokens* show) {
  const JobStats& stats = ended.stats;
  const std::size_t known = std::max(stats.known_tokens, stats.cached_tokens);
  if (known > 0 && known <= ended.markers.beginning.value()) {
    return fmt::format("no known prompt is like it: only {}, with which the template begins, {} known",
                       known == 1 ? "one token" : fmt::format("{} tokens", known), known == 1 ? "was" : "were");
  }
  if (ended.difference == nullptr || ended.difference->at == Position{}) {
    if (stats.known_tokens == 0) return "no part of the prompt was known";
    if (stats.known_tokens <= stats.cached_tokens) return fmt::format("new from token {} on", stats.cached_tokens);
    return fmt::format("known up to token {}, but {}", stats.known_tokens, points_text(stats.cached_tokens));
  }
  const Difference& difference = *ended.difference;
  std::string text =
      fmt::format("parts at token {}{} from a known conversation with {} more tokens{}", difference.at.value(),
                  part_of(difference.at, ended.markers), difference.known_beyond, texts(difference, show));
  if (stats.cached_tokens < difference.at.value()) {
    text += "; before that " + points_text(stats.cached_tokens);
  }
  return text;
}

}  // namespace

void log_waiting(const Job& job, const JobStats& stats) {
  spdlog::debug("{} prompt={} waits until running requests need fewer cells of the context (-c) id={}", job.kind,
                stats.prompt_tokens, job.id);
}

void log_start(const Job& job, const JobStats& stats) {
  if (stats.cached_tokens > 0) {
    spdlog::debug(
        "kv cache hit tokens={} known={} source={} memory={} ram={} disk={} shared={} point={} load={:.1f} ms id={}",
        stats.cached_tokens, stats.known_tokens, to_string(stats.source), stats.memory_tokens, stats.ram_tokens,
        stats.disk_tokens, stats.shared_tokens, to_string(stats.point), stats.load_ms, job.id);
  } else {
    spdlog::debug("kv cache miss tokens={} known={} reason={} id={}", stats.prompt_tokens, stats.known_tokens,
                  to_string(stats.miss), job.id);
  }
  spdlog::debug("{} ctx={}..{}:{} prompt start id={}", job.kind, stats.cached_tokens, stats.prompt_tokens,
                stats.prompt_tokens - stats.cached_tokens, job.id);
}

void log_prompt_done(const Job& job, const JobStats& stats) {
  spdlog::debug("{} ctx={}..{}:{} prompt done {:.3f}s id={}", job.kind, stats.cached_tokens, stats.prompt_tokens,
                stats.prompt_tokens - stats.cached_tokens, stats.prompt_ms / 1e3, job.id);
}

void log_failed_read(const Job& job, const Error& error) {
  spdlog::warn("kv cache load failed: {}; using the state before it, if any id={}", error.message, job.id);
}

void log_set_aside(const Job& job, const JobStats& stats) {
  spdlog::debug("{} gives its cells back after {} tokens of its reply; it resumes later id={}", job.kind,
                stats.predicted_tokens, job.id);
}

void log_resumed(const Job& job, const JobStats& stats, std::size_t reused) {
  spdlog::debug("{} resumes, {} of {} tokens reused id={}", job.kind, reused,
                stats.prompt_tokens + stats.predicted_tokens, job.id);
}

void log_done(const Job& job, const EndedRequest& ended, const ShowTokens* show) {
  const auto level = ended.error ? spdlog::level::warn : job.ahead ? spdlog::level::debug : spdlog::level::info;
  if (!spdlog::should_log(level)) return;
  LogFields fields = done_fields(ended);
  fields.push_back({"route", job.kind});
  fields.push_back({"id", job.id});
  const WithLogFields beside(std::move(fields));
  spdlog::log(level, "{} done {} id={}", job.kind, done_text(ended, show), job.id);
}

namespace {

void add_loss(const EndedRequest& ended, LogFields& fields) {
  if (ended.found == nullptr) return;
  const explain::CacheBreak& found = ended.found->found;
  fields.push_back({"kind", std::string(explain::to_string(found.kind))});
  if (found.kind == explain::BreakKind::kNone) return;
  if (found.kind == explain::BreakKind::kVolatileText) {
    fields.push_back({"what", std::string(explain::to_string(found.what))});
  }
  if (found.lost) fields.push_back({"cause", std::string(explain::to_string(found.lost->cause))});
  if (found.at) fields.push_back({"at", static_cast<std::int64_t>(found.at->value())});
  fields.push_back({"place", explain::place_name(found)});
  fields.push_back({"lost_tokens", static_cast<std::int64_t>(found.lost_tokens)});
  fields.push_back({"lost_s", lost_ms(found, ended.stats) / 1e3});
}

void add_waits(const Waits& waits, LogFields& fields) {
  constexpr std::array<std::string_view, kWaitCauses.size()> kNames = {
      "waited_place_s", "waited_prefix_s", "waited_cells_s", "waited_disk_s", "waited_turn_s", "waited_encoder_s"};
  for (const WaitCause cause : kWaitCauses) {
    if (const double ms = waits.ended()[cause]; ms > 0) {
      fields.push_back({kNames[static_cast<std::size_t>(cause)], ms / 1e3});
    }
  }
}

}  // namespace

LogFields done_fields(const EndedRequest& ended) {
  const JobStats& stats = ended.stats;
  LogFields fields;
  const auto add = [&](std::string_view name, std::size_t count) {
    fields.push_back({name, static_cast<std::int64_t>(count)});
  };
  fields.push_back({"end", std::string(to_string(ended.how))});
  if (ended.error) fields.push_back({"error", ended.error->message});
  add("prompt", stats.prompt_tokens);
  fields.push_back({"queue_s", stats.queue_ms / 1e3});
  add_waits(stats.waits, fields);
  if (stats.preemptions > 0) add("preempted", stats.preemptions);
  if (!ended.started) return fields;
  add("cached", stats.cached_tokens);
  add("memory", stats.memory_tokens);
  add("ram", stats.ram_tokens);
  add("disk", stats.disk_tokens);
  add("shared", stats.shared_tokens);
  add("prefilled", stats.prefilled_tokens);
  fields.push_back({"prompt_s", stats.prompt_ms / 1e3});
  add("reply", stats.predicted_tokens);
  fields.push_back({"reply_s", stats.predicted_ms / 1e3});
  fields.push_back({"reason", std::string(to_string(stats.miss))});
  add_loss(ended, fields);
  return fields;
}

std::string done_text(const EndedRequest& ended, const ShowTokens* show) {
  const JobStats& stats = ended.stats;
  std::string text = fmt::format("end={}", to_string(ended.how));
  if (ended.error) text += fmt::format(" ({})", ended.error->message);
  text += fmt::format(" prompt={}", stats.prompt_tokens);
  if (stats.queue_ms >= kQueueMs) text += fmt::format(" queue={:.3f}s", stats.queue_ms / 1e3);
  text += waits_text(stats.waits);
  if (stats.preemptions > 0) text += fmt::format(" preempted={}", stats.preemptions);
  if (!ended.started) return text + ": never started";
  text += fmt::format(" cached={}{} prefilled={} in {:.3f}s reply={} in {:.3f}s reason={}", stats.cached_tokens,
                      tiers_text(stats), stats.prefilled_tokens, stats.prompt_ms / 1e3, stats.predicted_tokens,
                      stats.predicted_ms / 1e3, to_string(stats.miss));
  return text + ": " + miss_text(ended, show) + loss_text(ended);
}

std::string loss_text(const EndedRequest& ended) {
  if (ended.found == nullptr) return {};
  const explain::CacheBreak& found = ended.found->found;
  if (found.lost_tokens < explain::kLeastLost || explain::bypasses_cache(found.kind)) return {};
  std::string text = fmt::format("; {}", explain::to_string(found.kind));
  if (found.kind == explain::BreakKind::kVolatileText) text += fmt::format(" ({})", explain::to_string(found.what));
  if (found.lost) text += fmt::format(" ({})", explain::to_string(found.lost->cause));
  return text + fmt::format(" in {}: {} tokens prefilled again in {:.3f}s", explain::place_name(found),
                            found.lost_tokens, lost_ms(found, ended.stats) / 1e3);
}

std::string miss_text(const EndedRequest& ended, const ShowTokens* show) {
  switch (ended.stats.miss) {
    case MissReason::kWholePrompt: return "the whole prompt was known";
    case MissReason::kCacheOff: return "the request does not use the cache (cache_prompt)";
    case MissReason::kPromptScored: return "the request asks for probabilities of its prompt (echo with logprobs)";
    case MissReason::kNotCacheable: return "this model's state cannot be cached";
    case MissReason::kLoadFailed: return "more was known, but could not be loaded; a warning says why";
    case MissReason::kLoadTooSlow: return "more was known, but prefilling it is faster than loading it (--restore)";
    case MissReason::kNoCells: return "more was known, but the context (-c) has no room for it";
    case MissReason::kNewTokens:
    case MissReason::kNothingCached:
    case MissReason::kNoPoint: break;
  }
  return branch_text(ended, show);
}

}  // namespace kvkeep::server
