// Hit rates of scores on a recorded workload: KVKEEP_BLOCK_TRACE names a file of JSON lines, one request each, with
// `timestamp` in milliseconds and `hash_ids`, the names of its prompt's blocks of 512 tokens (equal names: equal
// prefixes), and `input_length` in tokens. Without it nothing runs. Room is given in thousandths of all blocks.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_set>
#include <vector>

#include "policy/evict_order.h"
#include "policy/turnover.h"

namespace kvkeep::policy {
namespace {

constexpr std::uint32_t kBlockTokens = 512;

struct Asked {
  std::int64_t at_ns = 0;
  std::vector<std::uint32_t> blocks;  // SegmentIds
  bool partial = false;               // the last of them is not full: what continues the prompt has another there
};

// What stands behind `"name":` in a line, up to the end of a number or list.
std::string field(const std::string& line, const std::string& name, char until) {
  const std::size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) return "";
  const std::size_t begin = line.find_first_of("[0123456789", at + name.size() + 3);
  return line.substr(begin, line.find(until, begin) - begin);
}

const std::vector<Asked>& trace() {
  static const std::vector<Asked> requests = [] {
    std::vector<Asked> read;
    const char* path = std::getenv("KVKEEP_BLOCK_TRACE");
    std::ifstream in(path == nullptr ? "" : path);
    for (std::string line; std::getline(in, line);) {
      Asked asked;
      asked.at_ns = std::stoll(field(line, "timestamp", ',')) * 1'000'000;
      std::istringstream ids(field(line, "hash_ids", ']').substr(1));
      for (std::uint32_t id = 0; ids >> id; ids.ignore(2, ' ')) asked.blocks.push_back(id + 1);
      asked.partial = std::stoull(field(line, "input_length", ',')) % kBlockTokens != 0;
      read.push_back(std::move(asked));
    }
    return read;
  }();
  return requests;
}

// What else may tell how likely a block is to be needed again, as a factor of its worth.
struct Sign {
  std::uint32_t turn = 1;  // of the conversation that brought it: 1 and those before that are known
  bool partial = false;    // it ends where the prompt did
};
using Likelihood = std::uint32_t (*)(const Sign& sign);
std::uint32_t alike(const Sign& /*sign*/) { return 1; }
// Who went on with a conversation is at it.
std::uint32_t twice_if_active(const Sign& sign) { return sign.turn > 1 ? 2 : 1; }
std::uint32_t as_often_as_turns(const Sign& sign) { return sign.turn; }
std::uint32_t by_why_it_ends(const Sign& sign) { return sign.partial ? 1 : 50; }

// One tier that takes what is asked and forgets by the score.
class Tier {
 public:
  Tier(const Score& score, Likelihood likelihood, std::size_t room)
      : order_(score), likelihood_(likelihood), room_(room) {}

  void serve(const Asked& asked) {
    const std::uint32_t turn = turn_of(asked);
    bool known = true;
    for (std::size_t i = 0; i < asked.blocks.size(); ++i) {
      const std::uint32_t id = asked.blocks[i];
      if (id >= blocks_.size()) {
        blocks_.resize(id + 1);
        turns_.resize(id + 1);
        hits_.resize(id + 1);
      }
      EvictCandidate& block = blocks_[id];
      known = known && here_.contains(id);
      hits += known ? 1 : 0;
      hits_[id] = known ? hits_[id] + 1 : 0;
      if (!known) turns_[id] = turn;
      const bool partial = asked.partial && i + 1 == asked.blocks.size();
      // A score multiplies by hits + 1.
      block.hits = (hits_[id] + 1) * likelihood_({.turn = turns_[id], .partial = partial}) - 1;
      block.segment = SegmentId{id};
      block.parent = i == 0 ? kRootSegment : SegmentId{asked.blocks[i - 1]};
      block.begin = Position{static_cast<std::uint32_t>(i) * kBlockTokens};
      block.tokens = kBlockTokens;
      block.bytes = ByteCount{1};
      block.last_used_ns = asked.at_ns;
      order_.put(block);
      here_.insert(id);
    }
    asked_for += asked.blocks.size();
    if (here_.size() <= room_) return;
    EvictOrder::Request request{ByteCount{here_.size() - room_}};
    request.now_ns = asked.at_ns;
    for (const SegmentId victim : order_.choose(request, [](SegmentId) { return false; })) {
      order_.erase(victim);
      here_.erase(victim.value());
    }
    const auto half_life_ns = turnover_.note_left(request.needed, ByteCount{room_}, asked.at_ns);
    if (half_life_ns) order_.set_half_life(*half_life_ns);
  }
  std::uint64_t hits = 0;
  std::uint64_t asked_for = 0;

 private:
  // The first block is one that most conversations begin with: it tells of none.
  std::uint32_t turn_of(const Asked& asked) const {
    std::size_t known = 0;
    while (known < asked.blocks.size() && here_.contains(asked.blocks[known])) ++known;
    return known > 1 ? turns_[asked.blocks[known - 1]] + 1 : 1;
  }

  EvictOrder order_;
  const Likelihood likelihood_;
  Turnover turnover_;
  const std::size_t room_;
  std::vector<std::uint32_t> turns_;
  std::vector<std::uint32_t> hits_;
  std::vector<EvictCandidate> blocks_;
  std::unordered_set<std::uint32_t> here_;
};

struct Variant {
  const char* name;
  const Score* score;
  Likelihood likelihood = alike;
};

void hit_rate(benchmark::State& state, const Variant& variant) {
  std::unordered_set<std::uint32_t> all;
  for (const Asked& asked : trace()) all.insert(asked.blocks.begin(), asked.blocks.end());
  const std::size_t room = all.size() * static_cast<std::size_t>(state.range(0)) / 1000;
  for (auto _ : state) {
    Tier tier(*variant.score, variant.likelihood, room);
    for (const Asked& asked : trace()) tier.serve(asked);
    state.counters["hit_percent"] = 100.0 * static_cast<double>(tier.hits) / static_cast<double>(tier.asked_for);
  }
}

void register_scores() {
  if (trace().empty()) return;
  for (const Variant& variant : {Variant{"value", &kByValue},
                                 {"recency", &kByRecency},
                                 {"value, active twice", &kByValue, twice_if_active},
                                 {"value, by turns", &kByValue, as_often_as_turns},
                                 {"value, ends of prompts first", &kByValue, by_why_it_ends}}) {
    auto* each = benchmark::RegisterBenchmark((std::string("BM_HitRate/") + variant.name).c_str(),
                                              [variant](benchmark::State& state) { hit_rate(state, variant); });
    each->Arg(10)->Arg(50)->Arg(100)->Arg(250)->Iterations(1)->Unit(benchmark::kMillisecond);
  }
}
[[maybe_unused]] const bool kRegistered = (register_scores(), true);

}  // namespace
}  // namespace kvkeep::policy
