#include "server/trace/explanations.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/tenant_scope.h"
#include "format/notes.h"
#include "store/small_files.h"

namespace kvkeep::server {
namespace {

constexpr ByteCount kMostFileBytes = mebibytes(1);

format::OffenderRecord record_of(const explain::Offender& offender) {
  return {.client = offender.client,
          .place = offender.place,
          .kind = offender.kind,
          .what = offender.what,
          .line = offender.line,
          .times = offender.times,
          .lost_tokens = offender.lost_tokens,
          .lost_us = static_cast<std::uint64_t>(std::max(offender.lost_ms, 0.0) * 1e3),
          .last_ns = offender.last_ns};
}

std::vector<std::vector<std::byte>> records_of(const explain::Offenders& offenders) {
  std::vector<std::vector<std::byte>> records;
  for (const auto& [client, counted] : offenders.clients()) {
    records.push_back(
        format::encode_offender({.client = client, .times = counted.requests, .last_ns = counted.last_ns}));
  }
  for (const explain::Offender& offender : offenders.worst()) {
    records.push_back(format::encode_offender(record_of(offender)));
  }
  return records;
}

void add_record(const format::OffenderRecord& record, explain::Offenders& offenders) {
  if (record.place.empty()) return offenders.merge_client(record.client, {record.times, record.last_ns});
  offenders.merge({.client = record.client,
                   .place = record.place,
                   .kind = record.kind,
                   .what = record.what,
                   .line = record.line,
                   .times = record.times,
                   .lost_tokens = record.lost_tokens,
                   .lost_ms = static_cast<double>(record.lost_us) / 1e3,
                   .last_ns = record.last_ns});
}

}  // namespace

explain::Offenders read_offenders(os::FileSystem& files, const std::string& path) {
  explain::Offenders offenders;
  const auto records = store::read_records(files, path, format::kOffenderRecords, kMostFileBytes);
  if (!records) {
    spdlog::warn("offenders cannot be read: {}; counting anew", records.error().message);
    return offenders;
  }
  bool damaged = records->damaged;
  for (const auto& payload : records->payloads) {
    const auto record = format::decode_offender(payload);
    damaged |= !record;
    if (record) add_record(*record, offenders);
  }
  if (damaged) spdlog::warn("offenders: {} is damaged; what could be read of it is kept", path);
  return offenders;
}

Explanations::Explanations(ExplanationsOptions options, os::FileSystem& files, os::Executor& executor)
    : options_(std::move(options)), files_(files), executor_(executor) {
  if (options_.path.empty()) return;
  waits_for_file_ = options_.may_write && !options_.may_write();
  const MutexLock lock(mutex_);
  offenders_ = read_offenders(files_, options_.path);
}

Explanations::~Explanations() {
  if (options_.path.empty()) return;
  executor_.post([this] { write(); });
  executor_.drain();
}

namespace {

void add_request(const ExplainedRequest& request, const std::string& client, const std::string& line,
                 explain::Offenders& sums) {
  const explain::CacheBreak& found = request.found->found;
  sums.count(client, request.ended_ns);
  sums.add(client, found, line, lost_ms(found, request.stats), request.ended_ns);
}

}  // namespace

void Explanations::on_explained(ExplainedRequest request) {
  const bool is_private = is_salted(request.tenant);
  const std::string client = is_private ? std::string() : request.client;
  const std::string line = is_private ? std::string() : request.found->line;
  const MutexLock lock(mutex_);
  add_request(request, client, line, offenders_);
  if (!options_.path.empty()) add_request(request, client, line, unkept_);
  requests_.push_back(std::move(request));
  if (requests_.size() > options_.most_requests) requests_.pop_front();
  if (options_.path.empty() || ++unwritten_ < options_.write_every) return;
  unwritten_ = 0;
  executor_.post([this] { write(); });
}

void Explanations::read_anew() {
  explain::Offenders read = read_offenders(files_, options_.path);
  if (read.clients().empty()) return;  // missing or damaged: the offenders in memory are better
  const MutexLock lock(mutex_);
  read.merge(unkept_);
  offenders_ = std::move(read);
}

void Explanations::write() {
  if (options_.may_write && !options_.may_write()) {
    waits_for_file_ = true;
    return;
  }
  // The other server's sums are in the file only.
  if (std::exchange(waits_for_file_, false)) read_anew();
  std::vector<std::vector<std::byte>> records;
  explain::Offenders kept;
  {
    const MutexLock lock(mutex_);
    records = records_of(offenders_);
    kept = std::exchange(unkept_, {});
  }
  const auto written = store::RecordLog::rewrite(files_, options_.path, format::kOffenderRecords, records);
  if (written) return;
  {
    const MutexLock lock(mutex_);
    unkept_.merge(kept);
  }
  if (std::exchange(reported_failure_, true)) return;
  spdlog::warn("offenders cannot be written: {}; a restart will forget the newest", written.error().message);
}

std::vector<ExplainedRequest> Explanations::last(std::size_t most, const Wanted& wanted) const {
  std::vector<ExplainedRequest> found;
  const MutexLock lock(mutex_);
  for (auto request = requests_.rbegin(); request != requests_.rend() && found.size() < most; ++request) {
    if (wanted(*request)) found.push_back(*request);
  }
  return found;
}

std::optional<ExplainedRequest> Explanations::find(std::string_view id, const Wanted& wanted) const {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find_if(
      requests_, [&](const ExplainedRequest& request) { return request.id == id && wanted(request); });
  return found == requests_.end() ? std::nullopt : std::optional(*found);
}

explain::Offenders Explanations::offenders() const {
  const MutexLock lock(mutex_);
  return offenders_;
}

explain::Offenders Explanations::offenders(const Wanted& wanted) const {
  explain::Offenders sums;
  const MutexLock lock(mutex_);
  for (const ExplainedRequest& request : requests_) {
    if (wanted(request)) add_request(request, request.client, request.found->line, sums);
  }
  return sums;
}

// ---- as JSON ----

namespace {

using api::Json;
using explain::BreakKind;
using explain::CacheBreak;

double rounded_to_us(double ms) { return std::round(ms * 1e3) / 1e3; }

std::string_view field_name(PromptField field) {
  switch (field) {
    case PromptField::kTemplate: return "template";
    case PromptField::kContent: return "content";
    case PromptField::kThinking: return "thinking";
    case PromptField::kCalls: return "calls";
    case PromptField::kTool: return "tool";
    case PromptField::kOther: return "other";
  }
  return "other";
}

void add_place(Json& json, const CacheBreak& found) {
  json["place"] = explain::place_name(found);
  if (!found.has_place) return;
  json["field"] = field_name(found.place.field);
  if (found.place.field == PromptField::kTool) json["tool"] = found.place.index;
  if (found.place.role != PromptRole::kNone) json["message"] = found.place.index;
}

void add_texts(Json& json, const FoundBreak& found, BreakTexts texts) {
  if (texts == BreakTexts::kNone || !found.found.differs) return;
  const bool there = texts == BreakTexts::kAll || found.texts.shows_there;
  json["text"] = {{"before", found.texts.before},
                  {"here", found.texts.here},
                  {"there", there ? Json(found.texts.there) : Json(nullptr)}};
}

}  // namespace

Json break_json(const FoundBreak& shown, const JobStats& stats, BreakTexts texts) {
  const CacheBreak& found = shown.found;
  if (found.kind == BreakKind::kNone) return nullptr;
  Json json;
  json["kind"] = explain::to_string(found.kind);
  if (found.kind == BreakKind::kVolatileText) json["what"] = explain::to_string(found.what);
  if (found.at) json["at"] = found.at->value();
  add_place(json, found);
  json["lost_tokens"] = found.lost_tokens;
  json["lost_ms"] = rounded_to_us(lost_ms(found, stats));
  if (found.lost) {
    json["lost"] = {{"cause", explain::to_string(found.lost->cause)},
                    {"t", std::round(static_cast<double>(found.lost->when_ns) / 1e6) / 1e3}};
  }
  add_texts(json, shown, texts);
  if (const std::string_view advice = explain::advice(found); !advice.empty()) json["advice"] = advice;
  return json;
}

Json offenders_json(const explain::Offenders& offenders, bool with_lines) {
  constexpr std::size_t kMostShown = 20;
  Json list = Json::array();
  for (const explain::Offender& one : offenders.worst()) {
    if (list.size() == kMostShown) break;
    list.push_back({{"client", one.client},
                    {"place", one.place},
                    {"kind", one.kind},
                    {"what", one.what},
                    {"line", with_lines ? Json(one.line) : Json(nullptr)},
                    {"times", one.times},
                    {"requests", std::max(offenders.requests_of(one.client), one.times)},
                    {"lost_tokens", one.lost_tokens},
                    {"lost_ms", rounded_to_us(one.lost_ms)},
                    {"last", std::round(static_cast<double>(one.last_ns) / 1e6) / 1e3},
                    {"advice", explain::offence_advice(one)}});
  }
  return {{"offenders", std::move(list)}};
}

Json explained_json(const ExplainedRequest& request, BreakTexts texts) {
  const JobStats& stats = request.stats;
  return {{"id", request.id},
          {"route", request.kind},
          {"client", request.client.empty() ? Json(nullptr) : Json(request.client)},
          {"t", std::round(static_cast<double>(request.ended_ns) / 1e6) / 1e3},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"prefilled_tokens", stats.prefilled_tokens},
          {"prompt_ms", rounded_to_us(stats.prompt_ms)},
          {"cache_miss_reason", to_string(stats.miss)},
          {"cache_break", break_json(*request.found, stats, texts)}};
}

std::string server_timing(const FoundBreak& found, const JobStats& stats) {
  std::string text = fmt::format("queue;dur={:.1f}, restore;dur={:.1f}", stats.queue_ms, stats.load_ms);
  if (stats.prompt_ms > 0) text += fmt::format(", prefill;dur={:.1f}", std::max(stats.prompt_ms - stats.load_ms, 0.0));
  // Where all was reused, a kind of "none" would read as if nothing had been.
  const BreakKind kind = found.found.kind;
  const std::string why = kind == BreakKind::kNone ? "" : fmt::format(", {}", explain::to_string(kind));
  return text + fmt::format(", cache;desc=\"{} of {} tokens{}\"", stats.cached_tokens, stats.prompt_tokens, why);
}

}  // namespace kvkeep::server
