// Hit rates of scores on a recorded workload: KVKEEP_BLOCK_TRACE names a file of JSON lines, one request each, with
// `timestamp` in milliseconds and `hash_ids`, the names of its prompt's blocks of 512 tokens (equal names: equal
// prefixes). Without it nothing runs. Room is given in thousandths of all blocks.

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
      read.push_back(std::move(asked));
    }
    return read;
  }();
  return requests;
}

// One tier that takes what is asked and forgets by the score.
class Tier {
 public:
  Tier(const Score& score, std::size_t room) : order_(score), room_(room) {}

  void serve(const Asked& asked) {
    bool known = true;
    for (std::size_t i = 0; i < asked.blocks.size(); ++i) {
      const std::uint32_t id = asked.blocks[i];
      if (id >= blocks_.size()) blocks_.resize(id + 1);
      EvictCandidate& block = blocks_[id];
      known = known && here_.contains(id);
      hits += known ? 1 : 0;
      block.hits = known ? block.hits + 1 : 0;
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
  EvictOrder order_;
  Turnover turnover_;
  const std::size_t room_;
  std::vector<EvictCandidate> blocks_;
  std::unordered_set<std::uint32_t> here_;
};

void hit_rate(benchmark::State& state, const Score& score) {
  std::unordered_set<std::uint32_t> all;
  for (const Asked& asked : trace()) all.insert(asked.blocks.begin(), asked.blocks.end());
  const std::size_t room = all.size() * static_cast<std::size_t>(state.range(0)) / 1000;
  for (auto _ : state) {
    Tier tier(score, room);
    for (const Asked& asked : trace()) tier.serve(asked);
    state.counters["hit_percent"] = 100.0 * static_cast<double>(tier.hits) / static_cast<double>(tier.asked_for);
  }
}

void register_scores() {
  if (trace().empty()) return;
  for (const auto& [name, score] : {std::pair("value", &kByValue), {"recency", &kByRecency}}) {
    auto* each = benchmark::RegisterBenchmark((std::string("BM_HitRate/") + name).c_str(),
                                              [score](benchmark::State& state) { hit_rate(state, *score); });
    each->Arg(10)->Arg(50)->Arg(100)->Arg(250)->Iterations(1)->Unit(benchmark::kMillisecond);
  }
}
[[maybe_unused]] const bool kRegistered = (register_scores(), true);

}  // namespace
}  // namespace kvkeep::policy
