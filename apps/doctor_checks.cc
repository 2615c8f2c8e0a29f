#include <fmt/format.h>

#include "doctor.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

using enum Severity;

std::string size_text(ByteCount bytes) {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  if (bytes >= mebibytes(1024)) return text::memory_size(bytes.value());
  return fmt::format("{} MiB", (bytes.value() + kMebibyte - 1) / kMebibyte);
}

}  // namespace

std::vector<Finding> judge_directory(const DirectoryFacts& facts) {
  std::vector<Finding> found;
  const std::string of_budget = facts.budget ? " of " + size_text(*facts.budget) : std::string();
  found.push_back({kFine, fmt::format("{}: {}{} used, {} model{}, {} server{} running{}", facts.path,
                                      size_text(facts.used), of_budget, facts.models, facts.models == 1 ? "" : "s",
                                      facts.servers, facts.servers == 1 ? "" : "s",
                                      facts.budget ? "" : " (budget not known: --serve with --kv-disk-space-mb)")});
  if (facts.free < facts.reserve) {
    found.push_back({kProblem, fmt::format("the file system has only {} free, and kvkeep stops storing below its "
                                           "reserve of {} (--kv-disk-reserve-mb); make room, or name another "
                                           "--kv-disk-dir",
                                           size_text(facts.free), size_text(facts.reserve))});
  }
  if (facts.budget && facts.used.value() > facts.budget->value() / 10 * 9) {
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
    const bool one = facts.quarantined == 1;
    found.push_back(
        {kProblem, fmt::format("{} damaged file{} in quarantine: check the disk, run kvkeep cache verify to "
                               "check the other files, then kvkeep cache gc --all to remove {}",
                               facts.quarantined, one ? " lies" : "s lie", one ? "it" : "them")});
  }
  if (facts.foreign_names > 0) {
    found.push_back({kNote, fmt::format("{} name{} in the directory {} not kvkeep's", facts.foreign_names,
                                        facts.foreign_names == 1 ? "" : "s", facts.foreign_names == 1 ? "is" : "are")});
  }
  return found;
}

namespace {

Finding judge_model(const ModelSpeed& model, double read_mb_per_s) {
  const double loaded = read_mb_per_s * 1e6 / model.bytes_per_token;
  const std::string rates = fmt::format("{}: the disk gives {:.0f} tokens/s back, prefill computes {:.0f} tokens/s",
                                        model.name, loaded, model.prefill_tokens_per_s);
  if (loaded >= model.prefill_tokens_per_s) return {kFine, rates};
  return {kProblem, rates +
                        "; loading is slower than computing, so that --restore auto seldom loads: use a faster disk, "
                        "more --cache-ram, or smaller rows (-ctk q8_0 -ctv q8_0 -fa on)"};
}

}  // namespace

std::vector<Finding> judge_speed(const SpeedFacts& facts) {
  std::vector<Finding> found;
  found.push_back({kFine, fmt::format("the disk writes {:.0f} and reads {:.0f} MB/s (32 MiB)", facts.write_mb_per_s,
                                      facts.read_mb_per_s)});
  if (!facts.from_device) {
    found.push_back({kNote,
                     "the file was read out of memory, because its file system keeps files there: the disk may be "
                     "slower"});
  }
  for (const ModelSpeed& model : facts.models) {
    if (model.bytes_per_token > 0 && model.prefill_tokens_per_s > 0) {
      found.push_back(judge_model(model, facts.read_mb_per_s));
    }
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

Finding judge_no_offender(bool any_requests) {
  if (any_requests) return {kFine, "nothing kept prompts from being reused"};
  return {kNote, "nothing is known yet: no request is written down here"};
}

std::string finding_line(const Finding& finding) {
  const char* word = finding.severity == kFine ? "ok   " : finding.severity == kNote ? "note " : "wrong";
  return fmt::format("{} {}\n", word, finding.text);
}

}  // namespace kvkeep::cli
