#include "server/trace/trace_file.h"

#include <spdlog/spdlog.h>

#include <cmath>
#include <utility>

#include "chat/text_streams.h"
#include "server/trace/explanations.h"

namespace kvkeep::server {
namespace {

using api::Json;

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// Clocks are exact to microseconds; more digits only make lines longer.
double rounded_ms(double ms) { return std::round(ms * 1e3) / 1e3; }

std::string_view name_of(format::PartKind kind) {
  switch (kind) {
    case format::PartKind::kRows: return "rows";
    case format::PartKind::kWindowRows: return "window";
    case format::PartKind::kPoint: return "point";
    case format::PartKind::kWhole: return "whole";
  }
  return "rows";
}

std::string short_name(const Tenant& tenant) { return tenant.hex(4); }

Json tiers_json(const JobStats& stats) {
  return {{"memory", stats.memory_tokens},
          {"ram", stats.ram_tokens},
          {"disk", stats.disk_tokens},
          {"shared", stats.shared_tokens}};
}

Json candidate_json(const policy::Candidate& candidate, format::PartKind restorable) {
  using Kind = policy::Candidate::Kind;
  const bool resident = candidate.kind == Kind::kResident;
  Json json;
  json["kind"] = resident ? "memory" : candidate.kind == Kind::kRows ? "rows" : name_of(restorable);
  json["tier"] = resident ? "memory" : to_string(candidate.tier);
  json["sequence"] = resident ? Json(candidate.seq.value()) : Json(nullptr);
  json["from"] = candidate.run.begin.value();
  json["to"] = candidate.run.end.value();
  json["reach"] = candidate.reach.value();
  json["bytes"] = candidate.bytes.value();
  json["verdict"] = to_string(candidate.verdict);
  return json;
}

Json candidates_json(const Explanation& explanation) {
  Json list = Json::array();
  for (const policy::Candidate& candidate : explanation.candidates) {
    list.push_back(candidate_json(candidate, explanation.restorable_kind));
  }
  return list;
}

Json run_json(TokenSpan tokens, const Vocabulary& vocabulary) {
  Json ids = Json::array();
  Json texts = Json::array();
  for (const TokenId id : tokens) {
    ids.push_back(id);
    const bool known = id >= 0 && static_cast<std::size_t>(id) < vocabulary.size();
    texts.push_back(known ? vocabulary.piece(id, true) : std::string());
  }
  return {{"ids", std::move(ids)}, {"texts", std::move(texts)}};
}

enum class Sides {
  kNone,  // the place only: token ids are text to anyone who has the model
  kPrompt,
  kBoth,
};

Json difference_json(const std::optional<Difference>& difference, const Vocabulary& vocabulary, Sides shown) {
  if (!difference) return nullptr;
  Json json;
  json["at"] = difference->at.value();
  json["begin"] = difference->begin.value();
  json["tier"] = difference->in_memory ? "memory" : "cache";
  json["known_beyond"] = difference->known_beyond;
  json["prompt"] = shown == Sides::kNone ? Json(nullptr) : run_json(difference->prompt, vocabulary);
  json["cached"] = shown == Sides::kBoth ? run_json(difference->cached, vocabulary) : Json(nullptr);
  return json;
}

Json rates_json(const policy::Rates& rates) {
  return {{"prefill_tokens_per_s", std::round(rates.prefill_tokens_per_s)},
          {"ram_restore_bytes_per_s", std::round(rates.ram_restore_bytes_per_s)},
          {"disk_read_bytes_per_s", std::round(rates.disk_read_bytes_per_s)},
          {"shared_read_bytes_per_s", std::round(rates.shared_read_bytes_per_s)},
          {"shared_wait_ms", rounded_ms(rates.shared_wait_s * 1e3)}};
}

// Why prefill began where it began: the same in a trace and in a lookup.
void explain(Json& json, const Explanation& explanation) {
  json["start"] = explanation.start.empty() ? Json(nullptr) : Json(explanation.start);
  json["text_from"] = explanation.text_from ? Json(explanation.text_from->value()) : Json(nullptr);
  json["known_tokens"] = explanation.known.value();
  json["candidates"] = candidates_json(explanation);
  json["candidates_left_out"] = explanation.candidates_left_out;
  json["restore"] = explanation.restore == policy::RestoreMode::kAlways ? "always" : "auto";
  json["rates"] = rates_json(explanation.rates);
}

Json cut_json(const TraceCut& cut) {
  Json json;
  json["at"] = cut.at.value();
  json["reason"] = policy::to_string(cut.reason);
  json["kind"] = name_of(cut.kind);
  json["tokens"] = cut.tokens;
  json["bytes"] = cut.bytes.value();
  json["ms"] = rounded_ms(cut.ms);
  json["complete"] = cut.complete;
  json["idle"] = cut.idle;
  return json;
}

void add_origin(Json& json, const RequestTrace& trace) {
  static const RequestOrigin kNobody;
  const RequestOrigin& origin = trace.origin != nullptr ? *trace.origin : kNobody;
  json["method"] = text_or_null(origin.method);
  json["path"] = text_or_null(origin.path);
  json["client"] = text_or_null(origin.client);
  json["model"] = text_or_null(origin.model);
  json["headers"] = Json::object();
  for (const auto& [name, value] : origin.headers) json["headers"][name] = value;
  json["user"] = text_or_null(origin.user);
  json["prompt_cache_key"] = text_or_null(origin.prompt_cache_key);
  json["ignored_fields"] = origin.ignored_fields;
  json["cache_prompt"] = trace.cache_prompt;
  json["tenant"] = trace.tenant == kNoTenant ? Json(nullptr) : Json(short_name(trace.tenant));
  json["inflight"] = trace.in_flight;
}

void add_counts(Json& json, const RequestTrace& trace) {
  const JobStats& stats = trace.stats;
  json["prompt_tokens"] = trace.sent_tokens;
  json["effective_prompt_tokens"] = stats.prompt_tokens;
  json["cached_tokens"] = stats.cached_tokens;
  json["disk_cached_tokens"] = stats.disk_tokens;
  json["prefilled_tokens"] = stats.prefilled_tokens;
  json["predicted_tokens"] = stats.predicted_tokens;
  json["cache_source"] = to_string(stats.source);
  json["cache_tokens"] = tiers_json(stats);
  json["cache_point"] = to_string(stats.point);
  json["cache_miss_reason"] = trace.started ? Json(to_string(stats.miss)) : Json(nullptr);
}

void add_work(Json& json, const RequestTrace& trace) {
  json["set_aside"] = trace.set_aside;
  json["restored_bytes"] = trace.stats.restored.bytes.value();
  json["restored_ms"] = rounded_ms(trace.stats.restored.ms);
  json["read_bytes"] = trace.stats.read.bytes.value();
  json["read_ms"] = rounded_ms(trace.stats.read.ms);
  json["shared_read_bytes"] = trace.stats.shared_read.bytes.value();
  json["shared_read_ms"] = rounded_ms(trace.stats.shared_read.ms);
  json["stored_bytes"] = trace.stored_bytes.value();
  json["stored_ms"] = rounded_ms(trace.stored_ms);
  json["cuts"] = Json::array();
  for (const TraceCut& cut : trace.cuts) json["cuts"].push_back(cut_json(cut));
  json["cuts_left_out"] = trace.cuts_left_out;
  json["queue_ms"] = rounded_ms(trace.stats.queue_ms);
  json["waited_ms"] = Json::object();
  for (const WaitCause cause : kWaitCauses) {
    json["waited_ms"][std::string(to_string(cause))] = rounded_ms(trace.stats.waits.ended()[cause]);
  }
  json["preemptions"] = trace.stats.preemptions;
  json["search_ms"] = rounded_ms(trace.stats.search_ms);
  json["load_ms"] = rounded_ms(trace.stats.load_ms);
  json["prompt_ms"] = rounded_ms(trace.stats.prompt_ms);
  json["predicted_ms"] = rounded_ms(trace.stats.predicted_ms);
  json["finish"] = to_string(trace.finish);
  json["error"] = text_or_null(trace.error);
}

// The text that the client got.
std::string reply_text(const RequestTrace& trace, const Vocabulary& vocabulary) {
  chat::Utf8Stream utf8;
  chat::StopStrings stops(trace.origin->stop);
  std::string text;
  for (const TokenId token : trace.reply) {
    if (!vocabulary.is_end_of_generation(token)) text += stops.feed(utf8.feed(vocabulary.piece(token, true)));
  }
  if (!stops.found()) text += stops.feed(utf8.finish()) + stops.finish();
  return text;
}

// Further fields that kvkeep replay needs.
void add_private(Json& json, const RequestTrace& trace, const Vocabulary& vocabulary) {
  if (trace.origin == nullptr || !trace.origin->with_prompt) return;
  const std::string& sent = trace.origin->body;
  Json body = Json::parse(sent, nullptr, false);
  // A salt is a secret; a replay only needs to tell one from another.
  if (body.is_object() && body.contains("cache_salt")) body["cache_salt"] = short_name(trace.tenant);
  if (!trace.origin->with_media) hide_media(body);
  json["body"] = body.is_discarded() ? Json(sent) : std::move(body);
  std::string text = reply_text(trace, vocabulary);
  // The assistant's turn as a client sends it back; a completion has no turns.
  if (trace.kind == "chat") {
    json["reply"] = {{"role", "assistant"}, {"content", std::move(text)}};
  } else {
    json["reply"] = {{"text", std::move(text)}};
  }
}

}  // namespace

Json trace_json(const RequestTrace& trace, const Vocabulary& vocabulary, bool private_text) {
  Json json;
  json["trace"] = kTraceVersion;
  json["t"] = std::round(static_cast<double>(trace.arrived_ns) / 1e3) / 1e6;
  json["id"] = trace.id;
  json["route"] = trace.kind;
  add_origin(json, trace);
  add_counts(json, trace);
  explain(json, trace.explanation);
  json["first_difference"] =
      difference_json(trace.explanation.difference, vocabulary, private_text ? Sides::kBoth : Sides::kNone);
  const BreakTexts texts = private_text ? BreakTexts::kAll : BreakTexts::kNone;
  json["cache_break"] = trace.found == nullptr ? Json(nullptr) : break_json(*trace.found, trace.stats, texts);
  add_work(json, trace);
  add_private(json, trace, vocabulary);
  return json;
}

Json trace_json(const AuditReport& report) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json json;
  json["trace"] = kTraceVersion;
  json["t"] = std::round(static_cast<double>(report.ended_ns) / 1e3) / 1e6;
  json["route"] = "audit";
  json["outcome"] = to_string(report.outcome);
  json["from"] = report.piece.begin.value();
  json["to"] = report.piece.end.value();
  json["disk"] = report.from_disk;
  json["difference"] = number(report.difference);
  json["noise"] = number(report.noise);
  json["audit_ms"] = report.ms;
  return json;
}

Json lookup_json(const Inspection& found, const Vocabulary& vocabulary, bool private_text) {
  const JobStats& stats = found.stats;
  Json json;
  json["prompt_tokens"] = found.sent_tokens;
  json["effective_prompt_tokens"] = stats.prompt_tokens;
  json["cached_tokens"] = stats.cached_tokens;
  json["disk_cached_tokens"] = stats.disk_tokens;
  json["prefill_tokens"] = stats.prompt_tokens - stats.cached_tokens;
  json["cache_source"] = to_string(stats.source);
  json["cache_tokens"] = tiers_json(stats);
  json["cache_point"] = to_string(stats.point);
  json["cache_miss_reason"] = to_string(stats.miss);
  explain(json, found.explanation);
  json["first_difference"] =
      difference_json(found.explanation.difference, vocabulary, private_text ? Sides::kBoth : Sides::kPrompt);
  return json;
}

Json stored_json(const cache::StoredPrefix& found, std::size_t prompt_tokens) {
  Json json;
  json["prompt_tokens"] = prompt_tokens;
  json["stored_tokens"] = found.rows.value();
  json["restorable_tokens"] = found.restorable.value();
  json["stored"] = {{"ram", found.ram}, {"disk", found.disk}, {"shared", found.shared}};
  return json;
}

namespace {

// The approximate size of a trace: that of the parts that may be large.
std::size_t size_of(const RequestTrace& trace) {
  std::size_t bytes = sizeof(RequestTrace) + trace.reply.size() * sizeof(TokenId) +
                      trace.cuts.size() * sizeof(TraceCut) +
                      trace.explanation.candidates.size() * sizeof(policy::Candidate);
  if (trace.origin != nullptr) bytes += trace.origin->body.size();
  return bytes;
}

}  // namespace

TraceFile::TraceFile(os::AppendFile file, std::shared_ptr<const Vocabulary> vocabulary, os::Executor& executor,
                     bool private_text, TraceLimits limits)
    : file_(std::move(file)),
      vocabulary_(std::move(vocabulary)),
      executor_(executor),
      private_text_(private_text),
      limits_(limits) {}

TraceFile::~TraceFile() {
  executor_.drain();
  const MutexLock lock(mutex_);
  if (dropped_ + failed_ == 0) return;
  spdlog::warn("trace: {} requests are missing: {} because too many waited to be written, {} because of errors",
               dropped_ + failed_, dropped_, failed_);
}

void TraceFile::on_request(RequestTrace trace) {
  const std::size_t bytes = size_of(trace);
  if (!has_room(bytes)) return;
  executor_.post([this, bytes, held = std::make_shared<const RequestTrace>(std::move(trace))] {
    write(trace_json(*held, *vocabulary_, private_text_));
    made_room(bytes);
  });
}

void TraceFile::on_audit(const AuditReport& report) {
  if (!has_room(sizeof report)) return;
  executor_.post([this, report] {
    write(trace_json(report));
    made_room(sizeof report);
  });
}

// A trace that waits by itself is never too large.
bool TraceFile::has_room(std::size_t bytes) {
  const MutexLock lock(mutex_);
  const bool full = waiting_ >= limits_.requests || (waiting_ > 0 && waiting_bytes_ + bytes > limits_.bytes);
  if (full) {
    if (dropped_++ == 0) spdlog::warn("trace: requests end faster than they are written; lines will be missing");
    return false;
  }
  ++waiting_;
  waiting_bytes_ += bytes;
  return true;
}

void TraceFile::made_room(std::size_t bytes) {
  const MutexLock lock(mutex_);
  --waiting_;
  waiting_bytes_ -= bytes;
}

void TraceFile::reopen() {
  executor_.post([this] {
    if (const Status opened = file_.reopen(); !opened) spdlog::warn("trace: {}", opened.error().message);
  });
}

void TraceFile::write(const api::Json& line) { note_written(file_.append(api::to_line(line) + "\n")); }

void TraceFile::note_written(const Status& status) {
  if (status) return;
  const MutexLock lock(mutex_);
  if (failed_++ == 0) spdlog::warn("trace: {}; requests are served, but lines will be missing", status.error().message);
}

std::uint64_t TraceFile::dropped() const {
  const MutexLock lock(mutex_);
  return dropped_;
}

std::uint64_t TraceFile::failed() const {
  const MutexLock lock(mutex_);
  return failed_;
}

}  // namespace kvkeep::server
