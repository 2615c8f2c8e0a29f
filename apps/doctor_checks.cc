#include <fmt/format.h>

#include "doctor.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

using enum Severity;

std::string size_text(ByteCount bytes) { return text::memory_size(bytes.value()); }

}  // namespace

std::vector<Finding> judge_directory(const DirectoryFacts& facts) {
  std::vector<Finding> found;
  found.push_back({kFine, fmt::format("{}: {} of {} used, {} model{}, {} server{} running", facts.path,
                                      size_text(facts.used), size_text(facts.budget), facts.models,
                                      facts.models == 1 ? "" : "s", facts.servers, facts.servers == 1 ? "" : "s")});
  if (facts.free < mebibytes(1024)) {
    found.push_back({kProblem, fmt::format("the file system has only {} free: kvkeep stops storing below its reserve "
                                           "(--kv-disk-reserve-mb); make room, or name another --kv-disk-dir",
                                           size_text(facts.free))});
  }
  if (facts.used.value() > facts.budget.value() / 10 * 9) {
    found.push_back({kNote,
                     "the budget is nearly full: state is evicted; raise --kv-disk-space-mb, or remove what you "
                     "do not need (kvkeep cache ls, kvkeep cache rm)"});
  }
  if (facts.distrusted > 0) {
    found.push_back({kProblem, fmt::format("an audit found the stored state of {} model{} wrong: nothing of it is "
                                           "used (docs/audit.md says what to do)",
                                           facts.distrusted, facts.distrusted == 1 ? "" : "s")});
  }
  if (facts.quarantined > 0) {
    found.push_back({kProblem, fmt::format("{} damaged file{} in quarantine: check the disk, then run kvkeep cache "
                                           "verify",
                                           facts.quarantined, facts.quarantined == 1 ? " lies" : "s lie")});
  }
  if (facts.foreign_names > 0) {
    found.push_back({kNote, fmt::format("{} name{} in the directory {} not kvkeep's", facts.foreign_names,
                                        facts.foreign_names == 1 ? "" : "s", facts.foreign_names == 1 ? "is" : "are")});
  }
  return found;
}

std::vector<Finding> judge_speed(const SpeedFacts& facts) {
  std::vector<Finding> found;
  found.push_back({kFine, fmt::format("the disk writes {:.0f} and reads {:.0f} MB/s (32 MiB, partly from the system's "
                                      "own cache)",
                                      facts.write_mb_per_s, facts.read_mb_per_s)});
  if (facts.bytes_per_token <= 0 || facts.prefill_tokens_per_s <= 0) return found;
  const double loaded = facts.read_mb_per_s * 1e6 / facts.bytes_per_token;
  const std::string rates = fmt::format("the disk gives {:.0f} tokens/s back, prefill computes {:.0f} tokens/s", loaded,
                                        facts.prefill_tokens_per_s);
  if (loaded >= facts.prefill_tokens_per_s) {
    found.push_back({kFine, rates});
  } else {
    found.push_back({kProblem, rates +
                                   ": loading is slower than computing, so that --restore auto seldom loads; use "
                                   "a faster disk, more --cache-ram, or smaller rows (-ctk q8_0 -ctv q8_0 -fa on)"});
  }
  return found;
}

std::vector<Finding> judge_settings(const ServeOptions& options) {
  std::vector<Finding> found;
  const auto wrong = [&](std::string text) { found.push_back({kProblem, std::move(text)}); };
  const auto note = [&](std::string text) { found.push_back({kNote, std::move(text)}); };
  const bool no_ram = options.tiers.ram_budget == ByteCount{};
  if (!options.defaults.cache_prompt) wrong("--no-cache-prompt: no request uses the cache unless it asks for it");
  if (no_ram && !options.tiers.use_disk) {
    wrong("--cache-ram 0 with --no-kv-disk: a conversation that leaves the model's memory is lost");
  } else if (!options.tiers.use_disk) {
    note("--no-kv-disk: a restart forgets everything");
  }
  if (options.tiers.use_disk && options.tiers.disk_budget && *options.tiers.disk_budget < mebibytes(256)) {
    wrong("--kv-disk-space-mb is below 256: a single long conversation may take more");
  }
  if (options.cache.time_to_live_ns > 0 && options.cache.time_to_live_ns < 3'600'000'000'000) {
    note("--kv-cache-ttl-hours below an hour: state leaves while its user reads the answer");
  }
  if (options.chat.replay == Replay::kOff) {
    note("--replay off: answers that clients send back in other words are read again");
  }
  if (!options.match_text) note("--match token: an answer whose text comes back in other tokens is read again");
  if (!options.stabilizers.billing_line) {
    note("--stabilize without billing-line: each conversation of Claude Code begins with another line");
  }
  if (options.salt_by_key)
    note("--cache-salt-by-key: clients with different keys share nothing, not even a system prompt");
  if (found.empty()) found.push_back({kFine, "no flag keeps prompts from being reused"});
  return found;
}

std::string finding_line(const Finding& finding) {
  const char* word = finding.severity == kFine ? "ok   " : finding.severity == kNote ? "note " : "wrong";
  return fmt::format("{} {}\n", word, finding.text);
}

}  // namespace kvkeep::cli
