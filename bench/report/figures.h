#pragma once

// What a measurement found, as values: the player and the replayer fill them, the report prints them. Token counts are
// exact; times are wall milliseconds unless a name says otherwise. Pure data, no ownership of anything.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvkeep::bench {

// Who counted the prefilled tokens.
enum class CountedBy : std::uint8_t {
  kEngine,  // the shim in the server's process: what libllama was given
  kReply,   // the server's own claim (a server that the bench did not start)
};

// One request and its reply.
struct RequestFigures {
  std::string label;                   // for people: "turn main 3", "main #7 (claude-code)"
  int status = 0;                      // of HTTP; 0: no reply at all
  std::string error;                   // why it failed, in the server's words; empty: it did not
  std::uint64_t prompt_tokens = 0;     // as the server counts them
  std::uint64_t cached_tokens = 0;     // as the reply claims
  std::uint64_t prefilled_tokens = 0;  // ids decoded, without sampled ids that were fed back
  std::uint64_t ideal_tokens = 0;      // prompt positions whose id prefix was never decoded before
  std::uint64_t reply_tokens = 0;
  std::optional<std::uint64_t> claimed_prefill;  // what the reply says of prefilled_tokens
  std::string cache_source;                      // "memory-token", "disk-token"...; empty: the server does not say
  double ttft_ms = 0;                            // from sending to the first token
  double total_ms = 0;
  double decode_tokens_per_second = 0;  // 0: fewer than two tokens
};

// One workload or session, played once on one server.
struct RunFigures {
  std::string workload;  // short name, as on the command line
  std::string title;     // one line for people
  std::string server;    // name of a ServerInfo
  std::string variant;   // what differs from the server's usual flags ("-c too small"); empty: nothing
  CountedBy counted_by = CountedBy::kEngine;
  std::optional<double> bound;  // the ratio must not be above it
  std::vector<RequestFigures> requests;
  std::vector<std::string> problems;  // claims that differ from what was counted, a server that died, failed requests
  std::uint64_t kills = 0;            // kill -9 and restart, on purpose
  // Tokens that the server had from before the first request, at least. Then the ratio says nothing.
  std::uint64_t known_before = 0;
  // Of kReply: the claims of all requests together are what the engine was given.
  bool sum_was_counted = false;
  // User and system time of the server's process, which the bench's own questions for ids are in; none: not known.
  std::optional<double> server_cpu_s;

  std::uint64_t prompt_tokens() const;
  std::uint64_t prefilled_tokens() const;
  std::uint64_t ideal_tokens() const;
  // Prefilled / never computed before. None: nothing was new, or the server knew some of it already.
  std::optional<double> ratio() const;
};

struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

// Linear interpolation between the closest ranks. Precondition: `values` is not empty.
Quartiles quartiles_of(std::vector<double> values);

// "24.4 (16.5-32.3)": median and quartiles.
std::string spread(const Quartiles& quartiles, int digits);

// A figure of one part beside its goal: restore rate, bytes written, parity...
struct PartFigures {
  std::string name;  // "restoring 8,192 tokens in segments of 512 / bare state_seq_set_data"
  std::string unit;  // "ratio", "ms", "GB/s", "us of CPU per token"
  double median = 0;
  double low_quartile = 0;
  double high_quartile = 0;
  std::uint64_t samples = 0;
  std::string goal;           // "<= 1.03", "1 to 1.1"; empty: reported without a goal
  std::optional<bool> holds;  // whether the goal is met; none if there is no goal, or if that cannot be told
  std::string unmeasurable;   // why it cannot be told here; empty: it can, or there is no goal
};

struct Goal {
  enum class Kind : std::uint8_t { kAtMost, kAtLeast, kWithin };
  Kind kind = Kind::kAtMost;
  double value = 0;
  double most = 0;  // of kWithin, whose least is `value`
  // A median above it can only come from a disturbed measurement, such as a speed-up above its ceiling.
  std::optional<double> possible_most = {};
};

// Median, quartiles and whether the goal is met, if there is one. A goal that lies between the quartiles, or a median
// above what is possible, decides nothing: then `unmeasurable` says why. Precondition: `samples` is not empty.
PartFigures summarize(std::string name, std::string unit, std::vector<double> samples, std::optional<Goal> goal = {});

struct ServerInfo {
  std::string name;     // "kvkeep", "llama-server", or the address of a running one
  std::string version;  // as it says itself
  std::string flags;    // the command line, paths of temporary files left out
};

struct Machine {
  std::string processor;
  std::uint32_t logical_cpus = 0;
  std::uint64_t memory_bytes = 0;
  std::string system;  // "Debian GNU/Linux 12", kernel left out
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
  std::vector<std::string> problems;  // of no single run: parts that could not be measured
  std::string other_work;             // what else the machine did meanwhile, a sentence; empty: not known
};

}  // namespace kvkeep::bench
