#pragma once

// For tests: reports of several kinds, and the page program of tests/bench_report.

#include <fmt/format.h>

#include <limits>
#include <random>
#include <string>

#include "bench/report/figures.h"

namespace kvkeep::bench {

inline RequestFigures request_of(const std::string& label, std::uint64_t prompt, std::uint64_t prefilled,
                                 std::uint64_t ideal, double ttft_ms) {
  RequestFigures request;
  request.label = label;
  request.status = 200;
  request.prompt_tokens = prompt;
  request.cached_tokens = prompt - prefilled;
  request.prefilled_tokens = prefilled;
  request.ideal_tokens = ideal;
  request.reply_tokens = 24;
  request.claimed_prefill = prefilled;
  request.cache_source = request.cached_tokens == 0 ? "" : "memory-token";
  request.ttft_ms = ttft_ms;
  request.total_ms = ttft_ms + 190.5;
  request.decode_tokens_per_second = 126;
  return request;
}

inline RequestFigures failed_request(const std::string& label, int status, const std::string& error) {
  RequestFigures request;
  request.label = label;
  request.status = status;
  request.error = error;
  return request;
}

inline Report empty_report() {
  Report report;
  report.title = "kvkeep bench";
  report.started = "2026-11-20T18:04:11Z";
  report.kvkeep_version = "0.1.0";
  report.libllama_version = "0.7.0";
  report.model = "small.gguf (llama, 12M parameters, F16)";
  report.machine = {"AMD EPYC", 2, std::uint64_t{24} << 30, "Debian GNU/Linux 12"};
  report.servers = {{"kvkeep", "0.1.0", "serve -c 8192 -t 1 --restore always"},
                    {"llama-server", "0.7.0 (build 11669)", "-c 8192 -t 1"}};
  return report;
}

inline RunFigures run_of(const std::string& workload, const std::string& title, const std::string& server) {
  RunFigures run;
  run.workload = workload;
  run.title = title;
  run.server = server;
  return run;
}

// Two servers, one workload, one failed request, one part that misses its goal.
inline Report small_report() {
  Report report = empty_report();
  RunFigures own = run_of("growing", "12 growing turns", "kvkeep");
  own.bound = 1.02;
  own.requests = {request_of("turn main 1", 1000, 1000, 1000, 40.25), request_of("turn main 2", 1180, 180, 180, 8.5)};
  own.server_cpu_s = 1.25;
  RunFigures peer = run_of("growing", "12 growing turns", "llama-server");
  peer.variant = "default cache";
  peer.counted_by = CountedBy::kReply;
  peer.bound = 1.02;
  peer.requests = {request_of("turn main 1", 1000, 1000, 1000, 41), request_of("turn main 2", 1180, 1180, 180, 44)};
  peer.requests.push_back(failed_request("turn main 3", 503, "Loading model"));
  peer.problems = {"turn main 3: status 503, Loading model"};
  report.runs = {own, peer};
  report.parts = {{"restoring 8,192 tokens in segments of 512 / bare state_seq_set_data", "ratio", 0.78, 0.75, 0.8, 9,
                   ">= 0.7", true, ""},
                  {"lookup of a 100k-token prompt", "ms", 2.5, 2.25, 2.75, 15, "<= 2 ms", false, ""},
                  {"decode", "us of CPU per token", 1628.4, 1600, 1700.75, 15, "", std::nullopt, ""}};
  return report;
}

// One conversation per workload; servers other than kvkeep sometimes lose computed state.
inline RunFigures realistic_run(const std::string& workload, const std::string& title, const std::string& server,
                                std::size_t requests, std::mt19937& random) {
  RunFigures run = run_of(workload, title, server);
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    const std::uint64_t ideal = i == 0 ? 1050 : 130 + random() % 90;
    const bool lost = server != "kvkeep" && i % 7 == 5;
    const std::uint64_t prefilled = ideal + (lost ? before * 3 / 4 : 0);
    const double ttft_ms = 4 + 0.9 * static_cast<double>(prefilled) + static_cast<double>(random() % 200) / 10;
    run.requests.push_back(request_of(fmt::format("turn main {}", i + 1), before + ideal, prefilled, ideal, ttft_ms));
    before += ideal + 24;
  }
  return run;
}

// Like a full run: eight workloads, three columns, up to thirty requests.
inline Report realistic_report(bool with_problems) {
  std::mt19937 random(7);
  Report report = small_report();
  report.runs.clear();
  if (!with_problems) report.parts[1].holds = true;
  const std::pair<const char*, std::size_t> workloads[] = {
      {"12 growing turns", 12},
      {"12 growing turns, SIGKILL a second after turn 6", 12},
      {"6 sessions on one system prompt, 5 turns each, in turn", 30},
      {"Branch, new conversation, back to the main line", 15},
      {"30 requests after one 870-token system prompt", 30},
      {"Main conversation with title and summary requests between", 15},
      {"Two sessions whose sum exceeds the context", 16},
      {"Three conversations, each killed a second after its last answer", 12}};
  for (const auto& [title, requests] : workloads) {
    const std::string name = fmt::format("workload-{}", report.runs.size() / 3 + 1);
    report.runs.push_back(realistic_run(name, title, "kvkeep", requests, random));
    report.runs.back().bound = 1.02;
    report.runs.push_back(realistic_run(name, title, "kvkeep", requests, random));
    report.runs.back().variant = "-c too small";
    report.runs.push_back(realistic_run(name, title, "llama-server", requests, random));
  }
  if (with_problems) {
    RunFigures& run = report.runs[3];
    run.kills = 1;
    run.requests[5] = failed_request("turn main 6", 0, "connection closed before the first token");
    run.requests[7].prefilled_tokens += 700;
    run.problems = {"turn main 6: connection closed before the first token",
                    "turn main 8: prefilled 866 tokens, claims 166"};
  }
  return report;
}

// A server that never answered measured nothing, and no form may show figures for it.
inline Report report_without_an_answer() {
  Report report = empty_report();
  RunFigures run = run_of("growing", "12 growing turns", "llama-server");
  run.problems = {"llama-server did not start"};
  report.runs.push_back(run);
  run.workload = "refused";
  run.title = "Refused";
  run.requests = {failed_request("turn main 1", 0, "no connection")};
  report.runs.push_back(run);
  report.problems = {"parity: llama-server did not start"};
  return report;
}

// A peer that allows less than one of two workloads asks for.
inline Report report_with_a_refusal() {
  Report report = empty_report();
  for (const char* const server : {"kvkeep", "llama-server"}) {
    RunFigures run = run_of("growing", "12 growing turns", server);
    run.requests = {request_of("turn main 1", 1000, 1000, 1000, 40), request_of("turn main 2", 1180, 180, 180, 8)};
    report.runs.push_back(run);
    run.workload = "choices";
    run.title = "Several replies to each turn";
    report.runs.push_back(run);
  }
  report.runs[2].requests[1].prefilled_tokens = 1180;
  report.runs[3].requests.back() = failed_request("turn main 2", 400, "raise -np");
  report.runs[3].refused = "request 2 (turn main 2): status 400: raise -np";
  return report;
}

inline std::string hostile_text() {
  std::string text = "<script>alert(1)</script>\"' onload=x <!-- ]]> --> & &amp; | ` \\ \x01\x1b[31m\r\n\t\x7f";
  text += std::string("\0", 1) + "\xff\xfe\xc3(\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf";  // not UTF-8 in several ways
  return text + "\u202e\u2066\u2028 \u4e2d\u6587 \U0001F600 e\u0301 </style></title></textarea>";
}

// Every string is hostile, every number extreme.
inline Report hostile_report() {
  const std::string text = hostile_text();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  Report report{text, text, text,   text, text, {text, 0, largest, text}, {{text, text, text}, {"=1+1", "+1", "@x"}},
                {},   {},   {text}, text};
  RunFigures run = run_of(text, text, text);
  run.variant = text;
  run.problems = {text, std::string(100'000, 'x') + text};
  for (const double value : {nan, infinity, -infinity, 1e308, -1e308, -0.0, 5e-324}) {
    run.bound = value;
    run.requests.push_back({text, -1, std::string(100'000, '<') + text, largest, largest, largest, 1, largest, largest,
                            text, value, value, value});
    report.runs.push_back(run);
    report.parts.push_back({text, text, value, value, value, largest, text, false, text});
  }
  report.runs.push_back(run_of("=HYPERLINK(\"x\")", "", "-2+3"));
  report.runs.back().requests.push_back(failed_request("@SUM(A1)", 200, "  +1"));
  report.runs.back().requests.back().cache_source = "\t=1";
  return report;
}

inline Report huge_report(std::size_t runs, std::size_t requests) {
  std::mt19937 random(11);
  Report report = small_report();
  for (std::size_t i = 0; i < runs; ++i) {
    report.runs.push_back(realistic_run(fmt::format("long-{}", i), "", "llama-server", requests, random));
  }
  return report;
}

}  // namespace kvkeep::bench
