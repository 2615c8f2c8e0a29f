#pragma once

// The command line of `kvkeep bench`.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "model_maker/make_model.h"
#include "report_files.h"

namespace kvkeep::cli {

struct BenchCommandOptions {
  std::vector<std::string> workloads;  // names, or files that end with .txt; empty: all that come with the program
  bool quick = false;
  std::string model;                      // empty: a generated one
  std::string size;                       // of the generated one; empty: tiny with `quick`, else small
  std::string architecture;               // of the generated model; empty: llama
  std::vector<std::string> peer_command;  // empty if no peer is started
  std::string peer_url;
  std::vector<std::string> kvkeep_flags;
  bool variants = false;
  bool parts = false;
  bool parity = false;
  std::uint32_t pairs = 0;  // pairs of runs for `parity`; 0: few with `quick`, else enough for a steady median
  bool speed = false;
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

}  // namespace kvkeep::cli
