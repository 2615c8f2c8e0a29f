#pragma once

// `kvkeep doctor`: its command line, and its judgements. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "flag_set.h"
#include "serve_options.h"

namespace kvkeep::cli {

// ---- the command line: doctor_flags.cc ----

struct DoctorOptions {
  TierOptions tiers;               // --kv-disk-dir; the rest as the server's, if its flags are given
  std::vector<std::string> files;  // recordings: HAR, JSONL or traces
  // The flags of the server to look at, with its variables; empty if neither --serve nor a variable names any.
  std::optional<ServeOptions> server;
  bool tests_disk = true;  // --no-disk-test
  bool json = false;
};

struct ParsedDoctor {
  DoctorOptions options;
  bool wants_help = false;  // print doctor_help() and exit; `options` is meaningless then
};

// `arguments` are those after "doctor". Pure. Errors are one line; those of --serve's flags begin with --serve.
Result<ParsedDoctor> parse_doctor(const std::vector<std::string>& arguments, const os::Environment& environment);
std::string doctor_help();
CommandManual doctor_manual();

// ---- facts about a directory, a disk and a server's flags in, findings out: doctor_checks.cc ----

enum class Severity : std::uint8_t { kFine, kNote, kProblem };

struct Finding {
  Severity severity = Severity::kFine;
  std::string text;  // one line: the fact, and what to do
};

struct DirectoryFacts {
  std::string path;
  ByteCount used = {};
  // Empty: not known, since servers choose it by the space that is free at their start.
  std::optional<ByteCount> budget = {};
  ByteCount free = {};     // of the file system
  ByteCount reserve = {};  // servers stop storing when less is free
  std::size_t servers = 0;
  std::size_t models = 0;
  std::size_t distrusted = 0;   // models whose state an audit found wrong
  std::size_t quarantined = 0;  // damaged files
  std::size_t foreign_names = 0;
};
std::vector<Finding> judge_directory(const DirectoryFacts& facts);

// Its sizes and its prefill are a model's own.
struct ModelSpeed {
  std::string name;
  double bytes_per_token = 0;       // of the stored rows; 0: nothing is stored
  double prefill_tokens_per_s = 0;  // by all of its servers' prefill; 0: there was none
};

struct SpeedFacts {
  double write_mb_per_s = 0;
  double read_mb_per_s = 0;
  bool from_device = true;  // false: the file system answered out of memory, whatever was tried
  std::vector<ModelSpeed> models = {};
};
std::vector<Finding> judge_speed(const SpeedFacts& facts);

// Settings that make caching useless, or nearly so.
std::vector<Finding> judge_settings(const ServeOptions& options);

// There is no offender; `any_requests`: though requests were counted.
Finding judge_no_offender(bool any_requests);

// "ok    ...", "note  ...", "wrong ...", with a line end.
std::string finding_line(const Finding& finding);

}  // namespace kvkeep::cli
