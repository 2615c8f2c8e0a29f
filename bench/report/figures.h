#pragma once

// The results of a measurement, as values: the player and the replayer fill them, the report prints them. Token counts
// are exact; times are wall milliseconds unless a name says otherwise. Pure data, which owns nothing outside itself.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvkeep::bench {

// How the prefilled tokens were counted.
enum class CountedBy : std::uint8_t {
  kEngine,  // by the shim in the server's process: what libllama got
  kReply,   // by the server's reply (a server that the bench did not start)
};

// One request and its reply.
struct RequestFigures {
  std::string label;                   // for people: "turn main 3", "main #7 (claude-code)"
  int status = 0;                      // of HTTP; 0: no reply at all
  std::string error;                   // why it failed, in the server's words; empty: it did not fail
  std::uint64_t prompt_tokens = 0;     // as the server counts them
  std::uint64_t cached_tokens = 0;     // as the reply claims
  std::uint64_t prefilled_tokens = 0;  // ids decoded, without sampled ids that were fed back
  std::uint64_t ideal_tokens = 0;      // prompt positions whose id prefix was never decoded before
  std::uint64_t reply_tokens = 0;
  std::optional<std::uint64_t> claimed_prefill;  // prefilled_tokens according to the reply
  std::string cache_source;                      // "memory-token", "disk-token"...; empty: unknown
  double ttft_ms = 0;                            // from sending to the first token
  double total_ms = 0;
  double decode_tokens_per_second = 0;  // 0: fewer than two tokens
};

// One workload or session, played once on one server.
struct RunFigures {
  std::string workload;  // short name, as on the command line
  std::string title;     // one line for people
  std::string server;    // name of a ServerInfo
  std::string variant;   // its difference from the server's usual flags ("-c too small"); empty: none
  CountedBy counted_by = CountedBy::kEngine;
  std::optional<double> bound;  // the highest ratio that is allowed
  std::vector<RequestFigures> requests;
  std::vector<std::string> problems;  // claims that differ from the counts, a server that died, failed requests
  // Why the server does not do a request of this workload, in its words: the run ended there, and its counts mean
  // nothing. That is no problem: a peer may allow less than a workload asks for. Empty: it refused none.
  std::string refused;
  std::uint64_t kills = 0;  // kill -9 and restart, on purpose
  // The least number of tokens that the server had before the first request. If it is not 0, the ratio means nothing.
  std::uint64_t known_before = 0;
  // For kReply: the claims of all requests together equal what the engine was given.
  bool sum_was_counted = false;
  // User and system time of the server's process, including the bench's own questions for ids; none: unknown.
  std::optional<double> server_cpu_s;

  std::uint64_t prompt_tokens() const;
  std::uint64_t prefilled_tokens() const;
  std::uint64_t ideal_tokens() const;
  // Prefilled tokens / tokens never computed before. None if nothing was new, the server knew some of it already, or it
  // refused the workload.
  std::optional<double> ratio() const;
};

struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

// By linear interpolation between the closest ranks. Precondition: `values` is not empty.
Quartiles quartiles_of(std::vector<double> values);

// Returns "24.4 (16.5-32.3)": median and quartiles.
std::string spread(const Quartiles& quartiles, int digits);

// A figure of one part and its goal: restore rate, bytes written, parity...
struct PartFigures {
  std::string name;  // "restoring 8,192 tokens in segments of 512 / bare state_seq_set_data"
  std::string unit;  // "ratio", "ms", "GB/s", "us of CPU per token"
  double median = 0;
  double low_quartile = 0;
  double high_quartile = 0;
  std::uint64_t samples = 0;
  std::string goal;           // "<= 1.03", "1 to 1.1"; empty: reported without a goal
  std::optional<bool> holds;  // whether the goal is met; none: no goal, or unknown
  std::string unmeasurable;   // why that is unknown; empty: it is known, or there is no goal
  bool is_count = false;      // does not depend on how fast the machine is
};

struct Goal {
  enum class Kind : std::uint8_t { kAtMost, kAtLeast, kWithin };
  Kind kind = Kind::kAtMost;
  double value = 0;
  double most = 0;  // for kWithin, whose lower bound is `value`
  // A median above this shows a disturbed measurement, such as a speed-up above its ceiling.
  std::optional<double> possible_most = {};
};

// Computes median, quartiles and whether the goal, if any, is met. A goal between the quartiles, or a median above what
// is possible, decides nothing: `unmeasurable` then says why. Precondition: `samples` is not empty.
PartFigures summarize(std::string name, std::string unit, std::vector<double> samples, std::optional<Goal> goal = {});

struct ServerInfo {
  std::string name;     // "kvkeep", "llama-server", or the address of a running one
  std::string version;  // as the server reports it
  std::string flags;    // the command line without paths of temporary files
};

struct Machine {
  std::string processor;
  std::uint32_t logical_cpus = 0;
  std::uint64_t memory_bytes = 0;
  std::string system;  // "Debian GNU/Linux 12", without the kernel
};

struct Report {
  std::string title;
  std::string started;  // ISO 8601, UTC, to the second
  std::string kvkeep_version;
  std::string libllama_version;
  std::string model;  // file name and summary, without directories
  Machine machine;
  std::vector<ServerInfo> servers;
  std::vector<RunFigures> runs;  // in the order played
  std::vector<PartFigures> parts;
  std::vector<std::string> problems;  // of no particular run: parts that could not be measured
  std::string other_work;             // what else the machine did meanwhile, in one sentence; empty: unknown
};

}  // namespace kvkeep::bench
