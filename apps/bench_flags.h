#pragma once

// The command lines of `kvkeep bench`, `kvkeep replay` and `kvkeep demo`, and the files that the first two write their
// reports to.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "model_maker/make_model.h"
#include "server_address.h"

namespace kvkeep::cli {

// Paths of reports; empty: not wanted.
struct ReportFiles {
  std::string json;
  std::string html;
};

// --json and --html, bound to `files`, which must outlive them.
std::vector<Flag> report_flags(ReportFiles& files);

// ---- kvkeep bench ----

struct BenchCommandOptions {
  std::vector<std::string> workloads;  // names, or files that end with .txt; empty: all that come with the program
  bool quick = false;
  std::string model;                      // empty: a generated one
  std::string projector;                  // of `model`; empty: none
  std::string size;                       // of the generated one; empty: tiny with `quick`, else small
  std::string architecture;               // of the generated model; empty: llama
  std::vector<std::string> peer_command;  // empty if no peer is started
  std::string peer_url;
  std::vector<std::string> kvkeep_flags;
  bool variants = false;
  bool parts = false;
  bool parity = false;
  // Pairs of runs for `parity`, runs for `load`; 0: few with `quick`, else enough for a steady median.
  std::uint32_t pairs = 0;
  bool speed = false;
  bool pictures = false;
  std::string share_url;  // also measure servers that share this engine; empty: none
  bool load = false;
  std::vector<std::string> scenarios;  // of `load`; empty: all
  bool no_workloads = false;
  ReportFiles reports;
  std::string check;  // a kept report to compare with
  std::string keep;   // where to write one
  bool list = false;

  gguf::ModelSize model_size() const;
};

struct ParsedBench {
  BenchCommandOptions options;
  bool wants_help = false;  // print bench_help() and exit; `options` is meaningless then
};

// `arguments` are those after "bench". Pure: files named in them are not opened. Errors are one line.
Result<ParsedBench> parse_bench(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string bench_help();
CommandManual bench_manual();

// ---- kvkeep demo (demo_flags.cc) ----

struct DemoOptions {
  std::string model;  // empty: one with random weights is made
  bool quick = false;
};

struct ParsedDemo {
  DemoOptions options;
  bool wants_help = false;  // print demo_help() and exit; `options` is meaningless then
};

// `arguments` are those after "demo". Errors are one line.
Result<ParsedDemo> parse_demo(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string demo_help();
CommandManual demo_manual();

// ---- kvkeep replay ----

struct ReplayCommandOptions {
  std::vector<std::string> files;   // "-": standard input
  ServerAddress server{.url = ""};  // a running one
  std::string server_command;       // or the command that starts one; exactly one of the two is given
  std::string model;                // empty: as recorded
  bool fast = false;
  bool echo_generated = false;
  std::optional<std::uint32_t> reply_tokens;
  std::uint32_t in_flight_max = 32;
  std::uint32_t timeout_s = 600;
  ReportFiles reports;
};

struct ParsedReplay {
  ReplayCommandOptions options;
  bool wants_help = false;  // print replay_help() and exit; `options` is meaningless then
};

// `arguments` are those after "replay". Pure: files named in them are not opened. Errors are one line.
Result<ParsedReplay> parse_replay(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string replay_help();
CommandManual replay_manual();

}  // namespace kvkeep::cli
