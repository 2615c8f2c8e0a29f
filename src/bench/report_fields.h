#pragma once

// The keys of a report's JSON form beside the fields they stand for: one list for writing and for reading, so that both
// always agree. A key never changes its meaning; a change that old readers would misread needs a new kReportVersion.

#include <concepts>
#include <string_view>
#include <type_traits>

#include "bench/figures.h"

namespace kvkeep::bench {

inline constexpr const char* kReportFormat = "kvkeep-bench-report";
inline constexpr std::uint64_t kReportVersion = 1;

// A figure to read from, or one to fill.
template <typename Value, typename Figures>
concept PerhapsConst = std::same_as<std::remove_const_t<Value>, Figures>;

// Keys that later programs added to version 1: a report without them is whole.
constexpr bool may_be_missing(std::string_view key) {
  return key == "sum_was_counted" || key == "server_cpu_seconds" || key == "unmeasurable" || key == "other_work" ||
         key == "known_before";
}

void each_field(PerhapsConst<RequestFigures> auto& request, auto&& field) {
  field("label", request.label);
  field("status", request.status);
  field("error", request.error);
  field("prompt_tokens", request.prompt_tokens);
  field("cached_tokens", request.cached_tokens);
  field("prefilled_tokens", request.prefilled_tokens);
  field("ideal_tokens", request.ideal_tokens);
  field("reply_tokens", request.reply_tokens);
  field("claimed_prefill", request.claimed_prefill);
  field("cache_source", request.cache_source);
  field("ttft_ms", request.ttft_ms);
  field("total_ms", request.total_ms);
  field("decode_tokens_per_second", request.decode_tokens_per_second);
}

void each_field(PerhapsConst<RunFigures> auto& run, auto&& field) {
  field("workload", run.workload);
  field("title", run.title);
  field("server", run.server);
  field("variant", run.variant);
  field("counted_by", run.counted_by);
  field("bound", run.bound);
  field("kills", run.kills);
  field("sum_was_counted", run.sum_was_counted);
  field("server_cpu_seconds", run.server_cpu_s);
  field("known_before", run.known_before);
  field("problems", run.problems);
  field("requests", run.requests);
}

void each_field(PerhapsConst<PartFigures> auto& part, auto&& field) {
  field("name", part.name);
  field("unit", part.unit);
  field("median", part.median);
  field("low_quartile", part.low_quartile);
  field("high_quartile", part.high_quartile);
  field("samples", part.samples);
  field("goal", part.goal);
  field("holds", part.holds);
  field("unmeasurable", part.unmeasurable);
}

void each_field(PerhapsConst<ServerInfo> auto& server, auto&& field) {
  field("name", server.name);
  field("version", server.version);
  field("flags", server.flags);
}

void each_field(PerhapsConst<Machine> auto& machine, auto&& field) {
  field("processor", machine.processor);
  field("logical_cpus", machine.logical_cpus);
  field("memory_bytes", machine.memory_bytes);
  field("system", machine.system);
}

void each_field(PerhapsConst<Report> auto& report, auto&& field) {
  field("title", report.title);
  field("started", report.started);
  field("kvkeep_version", report.kvkeep_version);
  field("libllama_version", report.libllama_version);
  field("model", report.model);
  field("machine", report.machine);
  field("servers", report.servers);
  field("runs", report.runs);
  field("parts", report.parts);
  field("problems", report.problems);
  field("other_work", report.other_work);
}

}  // namespace kvkeep::bench
