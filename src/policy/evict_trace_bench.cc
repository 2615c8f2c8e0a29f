// Hit rates of eviction, next to those of the longest unused first: tokens of prompts that one tier had, in percent of
// all tokens of prompts, with rows only and with points. Room is given in ten thousandths of everything.
//
// The workloads are made up (six agents for three days), and one is a recorded file that KVKEEP_BLOCK_TRACE names:
// lines of JSON, one request each, with `timestamp` in milliseconds and `hash_ids`, the names of its prompt's blocks of
// 512 tokens (equal names: equal prefixes), and `input_length` in tokens.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/evict_order.h"

namespace kvkeep::policy {
namespace {

constexpr std::uint64_t kRowBytes = 1000;
constexpr std::uint64_t kPointRows = 2400;  // a point takes as much as so many rows: a hybrid of 27 billion parameters
constexpr std::uint32_t kInterval = 2048;   // tokens between points of a long prefill
constexpr std::int64_t kSecondNs = 1'000'000'000;

// A message or block after those before it; equal ids are equal prefixes.
struct Piece {
  std::uint32_t id = 0;
  std::uint32_t tokens = 0;
};
struct Asked {
  std::int64_t at_ns = 0;
  std::vector<Piece> pieces;
  std::size_t prompt = 0;  // so many of them; the others are the reply
  std::size_t turn = 0;    // a point is taken after so many
};
using Workload = std::vector<Asked>;

// ---- the recorded one ----

// The text after `"name":` in a line, up to the end of a number or list.
std::string field(const std::string& line, const std::string& name, char until) {
  const std::size_t at = line.find("\"" + name + "\":");
  if (at == std::string::npos) return "";
  const std::size_t begin = line.find_first_of("[0123456789", at + name.size() + 3);
  return line.substr(begin, line.find(until, begin) - begin);
}

Workload recorded() {
  constexpr std::uint32_t kBlockTokens = 512;
  Workload read;
  const char* path = std::getenv("KVKEEP_BLOCK_TRACE");
  std::ifstream in(path == nullptr ? "" : path);
  for (std::string line; std::getline(in, line);) {
    Asked asked;
    asked.at_ns = std::stoll(field(line, "timestamp", ',')) * 1'000'000;
    std::istringstream ids(field(line, "hash_ids", ']').substr(1));
    for (std::uint32_t id = 0; ids >> id; ids.ignore(2, ' ')) asked.pieces.push_back({id, kBlockTokens});
    asked.prompt = asked.pieces.size();
    // A prompt that goes on has another block where this one ends in the middle of one.
    const bool partial = std::stoull(field(line, "input_length", ',')) % kBlockTokens != 0;
    asked.turn = asked.prompt - (partial && asked.prompt > 1 ? 1 : 0);
    read.push_back(std::move(asked));
  }
  return read;
}

// ---- agents ----

struct AgentStyle {
  double calls;               // in a task, usually
  bool renders_anew = false;  // the next user message renders the tool loop before it anew
};

// Sessions of six agents: tasks of tool calls, sub-agents, side requests, returns to an earlier task, compaction.
class Agents {
 public:
  explicit Agents(const AgentStyle& style) : style_(style) {}

  Workload make() {
    for (std::uint32_t agent = 0; agent < 6; ++agent) {
      for (std::int64_t day = 0; day < 3; ++day) {
        now_ns_ = (day * 24 + 8) * 3600 * kSecondNs;
        while (now_ns_ < (day * 24 + 17) * 3600 * kSecondNs) {
          session(agent);
          pause(1800);
        }
      }
    }
    std::ranges::sort(made_, {}, &Asked::at_ns);
    return std::move(made_);
  }

 private:
  using Path = std::vector<Piece>;

  std::uint32_t about(double mean) {
    return 1 + static_cast<std::uint32_t>(std::exponential_distribution(1 / mean)(random_));
  }
  bool chance(double share) { return std::uniform_real_distribution(0.0, 1.0)(random_) < share; }
  void pause(double seconds) { now_ns_ += static_cast<std::int64_t>(about(seconds)) * kSecondNs; }
  Piece fresh(std::uint32_t tokens) { return {next_id_++, tokens}; }
  // Tools that all agents have, then what an agent's project adds.
  Path beginning(std::uint32_t project, std::uint32_t own_tokens) { return {{0, 7000}, {1 + project, own_tokens}}; }
  static std::uint32_t length(const Path& path) {
    std::uint32_t tokens = 0;
    for (const Piece& piece : path) tokens += piece.tokens;
    return tokens;
  }

  void session(std::uint32_t agent) {
    Path path = beginning(agent, 3000);
    std::vector<std::size_t> tasks;  // where each begins
    for (std::uint32_t left = about(8); left > 0; --left) {
      if (!tasks.empty() && chance(0.04)) path.resize(tasks[random_() % tasks.size()]);
      std::erase_if(tasks, [&](std::size_t begin) { return begin >= path.size(); });
      if (length(path) > 60'000) {
        path = beginning(agent, 3000);
        path.push_back(fresh(2000));
        tasks.clear();
      }
      tasks.push_back(path.size());
      task(path, about(style_.calls));
      if (chance(0.15)) {
        Path sub = beginning(100 + agent, 1500);
        task(sub, about(10));
      }
      pause(300);
    }
  }

  void task(Path& path, std::uint32_t calls) {
    path.push_back(fresh(about(200)));
    const std::size_t loop = path.size();
    for (; calls > 0; --calls) {
      ask(path, fresh(about(150)));
      if (calls > 1) path.push_back(fresh(about(600)));
      if (chance(0.1)) {
        Path side{{200, 300}, fresh(500)};
        ask(side, fresh(20));
      }
    }
    if (!style_.renders_anew) return;
    for (std::size_t i = loop; i < path.size(); ++i) path[i].id = next_id_++;
  }

  void ask(Path& path, Piece reply) {
    pause(20);
    Asked asked{now_ns_, path, path.size(), path.size()};
    path.push_back(reply);
    asked.pieces.push_back(reply);
    made_.push_back(std::move(asked));
  }

  const AgentStyle style_;
  std::mt19937_64 random_{1};
  std::int64_t now_ns_ = 0;
  std::uint32_t next_id_ = 1000;
  Workload made_;
};

// ---- orders ----

// The longest unused first, of paths the end.
class Recency {
 public:
  explicit Recency(OrderShape /*shape*/) {}
  void put(const EvictCandidate& candidate) {
    erase(candidate.segment);
    known_[candidate.segment] = candidate;
    hang(candidate, 1);
    if (below_[candidate.segment] == 0) leaves_.insert(place(candidate.segment));
  }
  void erase(SegmentId segment) {
    const auto found = known_.find(segment);
    if (found == known_.end()) return;
    leaves_.erase(place(segment));
    hang(found->second, -1);
    known_.erase(found);
  }
  std::vector<SegmentId> choose(const EvictOrder::Request& /*request*/, const EvictOrder::Stays& /*stays*/) {
    return {std::get<2>(*leaves_.begin())};
  }

 private:
  using Place = std::tuple<std::int64_t, std::int64_t, SegmentId>;
  Place place(SegmentId id) const {
    const EvictCandidate& known = known_.at(id);
    return {known.last_used_ns, -std::int64_t{known.begin.value()}, id};
  }
  void hang(const EvictCandidate& child, int more) {
    if (child.parent == kRootSegment) return;
    const bool here = known_.contains(child.parent);
    if (here) leaves_.erase(place(child.parent));
    if ((below_[child.parent] += more) == 0 && here) leaves_.insert(place(child.parent));
  }

  std::unordered_map<SegmentId, EvictCandidate> known_;
  std::unordered_map<SegmentId, int> below_;
  std::set<Place> leaves_;
};

// One tier that takes all it is asked for and lets go what the order says. Each night it starts anew, and then knows
// only when something was used last.
template <class Order>
class Tier {
 public:
  Tier(bool points, ByteCount room) : shape_{.needs_points = points}, room_(room), order_(std::in_place, shape_) {}

  void serve(const Asked& asked) {
    constexpr std::int64_t kNightNs = 10LL * 3600 * kSecondNs;
    if (asked.at_ns - last_ns_ > kNightNs) restart();
    last_ns_ = asked.at_ns;
    now_ns_ = std::max(now_ns_ + 1, asked.at_ns);
    const auto [known, restored] = found(asked);
    for (std::size_t i = 0; i < asked.prompt; ++i) {
      asked_for += asked.pieces[i].tokens;
      if (i < restored) hits += asked.pieces[i].tokens;
    }
    keep(asked, known, restored);
    while (used_ > room_) {
      for (const SegmentId victim : order_->choose({used_ - room_, SIZE_MAX, now_ns_}, [](SegmentId) { return false; }))
        leave(victim);
    }
  }
  std::uint64_t hits = 0;
  std::uint64_t asked_for = 0;
  ByteCount used() const { return used_; }

 private:
  static SegmentId rows_of(const Piece& piece) { return SegmentId{2 * piece.id + 1}; }
  static SegmentId point_of(const Piece& piece) { return SegmentId{2 * piece.id + 2}; }

  // How many pieces of the prompt have rows, and up to which one a sequence can be put.
  std::pair<std::size_t, std::size_t> found(const Asked& asked) const {
    std::size_t known = 0;
    std::size_t restored = 0;
    for (; known < asked.prompt && here_.contains(rows_of(asked.pieces[known])); ++known) {
      if (!shape_.needs_points || here_.contains(point_of(asked.pieces[known]))) restored = known + 1;
    }
    return {known, restored};
  }

  void keep(const Asked& asked, std::size_t known, std::size_t restored) {
    std::uint32_t at = 0;
    std::uint32_t last_point = 0;
    SegmentId above = kRootSegment;
    for (std::size_t i = 0; i < asked.pieces.size(); ++i) {
      EvictCandidate rows;
      rows.segment = rows_of(asked.pieces[i]);
      rows.parent = rows.above = above;
      rows.begin = Position{at};
      rows.tokens = asked.pieces[i].tokens;
      rows.bytes = ByteCount{rows.tokens * kRowBytes};
      put(rows);
      above = rows.segment;
      at += rows.tokens;
      const std::size_t pieces = i + 1;
      const bool wanted =
          pieces == known || pieces == asked.turn || pieces == asked.pieces.size() || at - last_point >= kInterval;
      if (pieces < restored || !shape_.needs_points) continue;
      if (pieces != restored && !wanted) continue;
      last_point = at;
      EvictCandidate point = rows;
      point.segment = point_of(asked.pieces[i]);
      point.parent = point.above = above;
      point.begin = Position{at};
      point.tokens = 0;
      point.bytes = ByteCount{kPointRows * kRowBytes};
      point.kind = CandidateKind::kPoint;
      put(point);
    }
  }
  void put(EvictCandidate& candidate) {
    candidate.last_used_ns = now_ns_;
    if (here_.insert_or_assign(candidate.segment, candidate).second) used_ += candidate.bytes;
    order_->put(candidate);
  }
  void leave(SegmentId victim) {
    used_ -= here_.at(victim).bytes;
    here_.erase(victim);
    order_->erase(victim);
  }
  void restart() {
    order_.emplace(shape_);
    std::vector<EvictCandidate> all;
    for (const auto& [id, candidate] : here_) all.push_back(candidate);
    std::ranges::sort(all, {}, &EvictCandidate::segment);
    for (const EvictCandidate& candidate : all) order_->put(candidate);
  }

  const OrderShape shape_;
  const ByteCount room_;
  std::optional<Order> order_;
  std::unordered_map<SegmentId, EvictCandidate> here_;
  ByteCount used_;
  std::int64_t now_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

template <class Order>
void hit_rate(benchmark::State& state, const Workload& workload, bool points) {
  Tier<Recency> everything(points, ByteCount{UINT64_MAX});
  for (const Asked& asked : workload) everything.serve(asked);
  const ByteCount room{everything.used().value() / 10000 * static_cast<std::uint64_t>(state.range(0))};
  for (auto _ : state) {
    Tier<Order> tier(points, room);
    for (const Asked& asked : workload) tier.serve(asked);
    state.counters["hit_percent"] = 100.0 * static_cast<double>(tier.hits) / static_cast<double>(tier.asked_for);
  }
}

// Agents come back to nearly all that they read in a session, so that only a small room tells orders apart.
constexpr std::array kRooms{10, 50, 100, 250, 500, 1000, 2500};

using Rate = void (*)(benchmark::State&, const Workload&, bool);

void register_all() {
  static const std::map<std::string, Workload> workloads{{"recorded", recorded()},
                                                         {"agents_short_loops", Agents({.calls = 5}).make()},
                                                         {"agents_long_loops", Agents({.calls = 25}).make()},
                                                         {"agents_rendered_anew", Agents({12, true}).make()}};
  for (const auto& [name, workload] : workloads) {
    if (workload.empty()) continue;
    for (const bool points : {false, true}) {
      for (const auto& [order, rate] :
           {std::pair<std::string, Rate>{"order", hit_rate<EvictOrder>}, {"recency", hit_rate<Recency>}}) {
        const std::string title = "BM_HitRate/" + name + (points ? "/points/" : "/rows/") + order;
        auto* each = benchmark::RegisterBenchmark(
            title.c_str(), [&workload, points, rate](benchmark::State& state) { rate(state, workload, points); });
        for (const int room : kRooms) each->Arg(room);
        each->Iterations(1)->Unit(benchmark::kMillisecond);
      }
    }
  }
}
[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace kvkeep::policy
