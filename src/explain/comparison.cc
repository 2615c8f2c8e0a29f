#include "explain/comparison.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace kvkeep::explain {
namespace {

// The nearest common run is looked for among so many tokens of each side, all of them; a farther one among samples.
constexpr std::size_t kNear = 24;
// One of so many stretches of kLeastRun tokens is a sample, on both sides the same ones.
constexpr unsigned kSampleBits = 3;

// A value at a place is told by so many of its first tokens, its place by so many tokens before it.
constexpr std::size_t kValue = 4;
constexpr std::size_t kBeforeValue = 16;

struct Pair {
  std::size_t here;
  std::size_t there;
};

bool same_run(TokenSpan here, TokenSpan there, Pair at) {
  if (at.here + kLeastRun > here.size() || at.there + kLeastRun > there.size()) return false;
  return std::equal(here.begin() + static_cast<std::ptrdiff_t>(at.here),
                    here.begin() + static_cast<std::ptrdiff_t>(at.here + kLeastRun),
                    there.begin() + static_cast<std::ptrdiff_t>(at.there));
}

// Calls visit(at, hash) for each sample of the run from `from` on, until it returns true.
template <typename Visit>
void for_samples(TokenSpan run, std::size_t from, Visit visit) {
  constexpr std::uint64_t kBase = 0x9E3779B97F4A7C15;
  constexpr std::uint64_t kTop = [] {
    std::uint64_t power = 1;
    for (std::size_t i = 1; i < kLeastRun; ++i) power *= kBase;
    return power;
  }();
  std::uint64_t hash = 0;
  const std::size_t end = std::min(run.size(), kCompared);
  for (std::size_t i = from; i < end; ++i) {
    const std::size_t count = i - from;
    if (count >= kLeastRun) hash -= kTop * (static_cast<std::uint64_t>(run[i - kLeastRun]) + 1);
    hash = hash * kBase + (static_cast<std::uint64_t>(run[i]) + 1);
    if (count + 1 < kLeastRun) continue;
    const std::uint64_t mixed = (hash ^ (hash >> 32)) * kBase;
    if (mixed >> (64 - kSampleBits) == 0 && visit(i + 1 - kLeastRun, mixed)) return;
  }
}

// The places of samples in the known run.
class Samples {
 public:
  explicit Samples(TokenSpan run) : slots_(kSlots, 0) {
    for_samples(run, 0, [&](std::size_t at, std::uint64_t hash) {
      std::uint32_t& slot = slots_[hash & (kSlots - 1)];
      if (slot == 0) slot = static_cast<std::uint32_t>(at) + 1;  // the first of equal ones; others give way
      return false;
    });
  }
  std::optional<std::size_t> find(std::uint64_t hash) const {
    const std::uint32_t slot = slots_[hash & (kSlots - 1)];
    return slot == 0 ? std::nullopt : std::optional<std::size_t>(slot - 1);
  }

 private:
  static constexpr std::size_t kSlots = (kCompared >> kSampleBits) * 4;
  std::vector<std::uint32_t> slots_;
};

class Comparer {
 public:
  Comparer(TokenSpan here, TokenSpan there) : here_(here), there_(there) {}

  Comparison run() {
    Pair at{0, 0};
    while (found_.runs.size() < kMostRuns && at.here < std::min(here_.size(), kCompared)) {
      auto next = near(at);
      if (!next) next = far(at);
      if (!next) break;
      add(at, *next);
      const CommonRun& run = found_.runs.back();
      at = {run.here + run.size, run.there + run.size};
    }
    mark_moved();
    const bool any = !found_.runs.empty();
    found_.here_gap = any ? found_.runs.front().here : here_.size();
    found_.there_gap = any ? found_.runs.front().there : there_.size();
    return std::move(found_);
  }

 private:
  // The pair with the fewest tokens left out on both sides together.
  std::optional<Pair> near(Pair from) const {
    for (std::size_t skipped = 1; skipped < 2 * kNear; ++skipped) {
      const std::size_t first = skipped < kNear ? 0 : skipped - kNear + 1;
      for (std::size_t i = first; i <= std::min(skipped, kNear - 1); ++i) {
        const Pair at{from.here + i, from.there + (skipped - i)};
        if (same_run(here_, there_, at)) return at;
      }
    }
    return std::nullopt;
  }

  std::optional<Pair> far(Pair from) {
    if (!samples_) samples_.emplace(there_);
    std::optional<Pair> found;
    for_samples(here_, from.here, [&](std::size_t at, std::uint64_t hash) {
      const auto there = samples_->find(hash);
      if (!there || !same_run(here_, there_, {at, *there})) return false;
      found = Pair{at, *there};
      return true;
    });
    return found;
  }

  void add(Pair from, Pair at) {
    while (at.here > from.here && at.there > 0 && here_[at.here - 1] == there_[at.there - 1]) {
      --at.here;
      --at.there;
    }
    const std::size_t size = common_prefix(here_.subspan(at.here), there_.subspan(at.there));
    found_.common += size;
    found_.runs.push_back(
        {static_cast<std::uint32_t>(at.here), static_cast<std::uint32_t>(at.there), static_cast<std::uint32_t>(size)});
  }

  // The heaviest chain of runs that ascend on both sides stayed in order; the others moved. A phrase that is found
  // again far away by chance thus moves itself, and not all that follows it.
  void mark_moved() {
    std::vector<CommonRun>& runs = found_.runs;
    std::vector<std::size_t> weight(runs.size());
    std::vector<std::size_t> before(runs.size(), runs.size());  // the run before in the chain; runs.size(): none
    std::size_t last = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (runs[j].there + runs[j].size > runs[i].there || weight[j] <= weight[i]) continue;
        weight[i] = weight[j];
        before[i] = j;
      }
      weight[i] += runs[i].size;
      if (weight[i] > weight[last]) last = i;
    }
    if (runs.empty()) return;
    for (CommonRun& run : runs) run.moved = true;
    for (std::size_t i = last; i < runs.size(); i = before[i]) runs[i].moved = false;
    found_.moved = found_.common - weight[last];
  }

  const TokenSpan here_;
  const TokenSpan there_;
  std::optional<Samples> samples_;
  Comparison found_;
};

// ---- which known run is most alike ----

// All stretches of a short prompt are samples, and one of 1 << kFewBits of a long one: a known run has the same ones,
// for the first two tokens decide.
constexpr std::size_t kShortPrompt = 2'048;
constexpr unsigned kFewBits = 4;

// The samples of a prompt, in a table with open addresses; and which of them the known run has that is counted now.
class StretchSet {
 public:
  explicit StretchSet(TokenSpan here) : bits_(here.size() <= kShortPrompt ? 0 : kFewBits) {
    here = here.first(std::min(here.size(), kCompared));
    std::vector<std::uint64_t> samples;
    for_stretches(here, [&](std::uint64_t hash) { samples.push_back(hash); });
    slots_.resize(std::bit_ceil(2 * samples.size() + 1));
    for (const std::uint64_t hash : samples) slot(hash).hash = hash;
  }

  std::size_t count_in(TokenSpan known) {
    ++run_;
    std::size_t count = 0;
    for_stretches(known, [&](std::uint64_t hash) {
      Slot& found = slot(hash);
      if (found.hash != hash || found.run == run_) return;
      found.run = run_;
      ++count;
    });
    return count;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;  // 0: empty
    std::uint32_t run = 0;   // that had it last
  };
  static constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;

  static std::uint64_t bits_of(TokenId token) { return static_cast<std::uint32_t>(token); }

  template <typename Visit>
  void for_stretches(TokenSpan run, Visit visit) const {
    for (std::size_t i = 0; i + kLeastRun <= run.size(); ++i) {
      const std::uint64_t first = (bits_of(run[i]) << 32 | bits_of(run[i + 1])) * kMix;
      if (bits_ > 0 && first >> (64 - bits_) != 0) continue;
      std::uint64_t hash = first;
      for (std::size_t j = 2; j < kLeastRun; ++j) hash = (std::rotl(hash, 27) ^ bits_of(run[i + j])) * kMix;
      visit(hash | 1);
    }
  }
  // Returns the slot that has this hash, or the empty one where it belongs.
  Slot& slot(std::uint64_t hash) {
    std::size_t at = hash >> 32;
    while (true) {
      Slot& one = slots_[at++ & (slots_.size() - 1)];
      if (one.hash == hash || one.hash == 0) return one;
    }
  }

  const unsigned bits_;
  std::vector<Slot> slots_;
  std::uint32_t run_ = 0;
};

}  // namespace

std::size_t most_alike(TokenSpan here, std::span<const TokenSpan> known) {
  if (known.size() <= 1 || here.size() < kLeastRun) return 0;
  StretchSet samples(here);
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const std::size_t count = samples.count_in(known[i].first(std::min(known[i].size(), alike_tokens(known.size()))));
    if (count <= most) continue;
    most = count;
    best = i;
  }
  return best;
}

Comparison compare(TokenSpan here, TokenSpan there) { return Comparer(here, there).run(); }

OtherValues::OtherValues(TokenSpan prompt, Position at)
    : before_(prompt.first(at.value()).last(std::min<std::size_t>(at.value(), kBeforeValue))),
      own_(prompt.subspan(at.value(), std::min<std::size_t>(prompt.size() - at.value(), kValue))),
      at_(at) {}

void OtherValues::add(TokenSpan other) {
  if (other.size() < at_.value() + kValue) return;
  const auto same = [](TokenSpan a, TokenSpan b) { return std::ranges::equal(a, b); };
  if (!same(other.subspan(at_.value() - before_.size(), before_.size()), before_)) return;
  const TokenSpan value = other.subspan(at_.value(), kValue);
  const bool is_known =
      same(value, own_) || std::ranges::any_of(values_, [&](TokenSpan one) { return same(one, value); });
  if (!is_known) values_.push_back(value);
}

}  // namespace kvkeep::explain
