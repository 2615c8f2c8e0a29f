#pragma once

// Decides whether replies that are being written and a slice of prefill share a call of the model, or have one each.
// Pure.
//
// Which way is faster depends on the backend: on processors two calls were, on a GPU one call was (docs/gpu.md). So
// both ways are tried on neighbouring slices of one prompt, in pairs, and the cheaper one is used: the one that takes
// less time per token of a round, decoded or prefilled. The order within a pair alternates, since each slice is a
// little deeper in the prompt than the one before. Two calls are used until one call was cheaper by kMargin, and again
// as soon as it is not cheaper any more. After a trial the way in use rests untried, each time for twice as many
// rounds.
//
// The number of running requests matters, so that each of its size classes (powers of two) has a way of its own.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvkeep::policy {

enum class CallWay { kApart, kTogether };

// As the user wants it. The default comes first, so that headers need only its declaration.
enum class DecodeWithPrefill { kApart, kTogether, kAuto };

// What a round is to compute, or has computed: a token of each running request, and a slice of one prompt.
struct RoundWork {
  std::uint64_t request = 0;  // whose prompt it is
  std::size_t from = 0;       // the slice's first position
  std::size_t slice = 0;      // tokens of it
  std::size_t runners = 0;
  bool operator==(const RoundWork&) const = default;
};

struct CallChoice {
  CallWay way = CallWay::kApart;
  bool measured = false;  // the round is half of a pair
  bool operator==(const CallChoice&) const = default;
};

class CallMeter {
 public:
  static constexpr double kMargin = 0.03;
  static constexpr std::uint32_t kFirstRounds = 4;  // slices grow in the first rounds, and cannot be compared
  static constexpr std::uint32_t kFirstRest = 128;  // rounds
  static constexpr std::uint32_t kLongestRest = 8'192;
  static constexpr std::size_t kMostPairs = 8;           // of a trial; a clear result ends it earlier
  static constexpr std::uint32_t kLongestTrial = 4 * 8;  // rounds, also if few of them make pairs

  // `left`: tokens that the prompt lacks, those of the slice included.
  CallChoice next(const RoundWork& work, std::size_t left) const;

  // A round did its work as `choice` says, in so much time. Returns the result of the trial that this ends, if it does.
  struct Result {
    CallWay way = CallWay::kApart;  // used from now on
    bool changed = false;
    double gain = 0;  // of one call: the share of time that it saves or, below 0, costs; the median of all pairs
  };
  std::optional<Result> note(const RoundWork& work, const CallChoice& choice, double ms);

 private:
  static constexpr std::size_t kClasses = 16;  // by the bits of the number of runners

  struct Trial {
    CallWay in_use = CallWay::kApart;
    std::uint32_t rest = kFirstRounds;  // rounds before it begins
    std::uint32_t next_rest = kFirstRest;
    std::uint32_t rounds = 0;
    std::vector<double> logs = {};  // of each pair: log(time of one call / time of two)

    CallWay first_of_pair() const { return logs.size() % 2 == 0 ? CallWay::kApart : CallWay::kTogether; }
    std::optional<CallWay> verdict() const;
    Result end(CallWay way);
  };
  struct Half {
    RoundWork work;
    CallWay way = CallWay::kApart;
    double ms_per_token = 0;
  };
  bool completes_pair(const RoundWork& work) const;

  std::array<Trial, kClasses> by_runners_;
  std::optional<Half> half_;  // of a pair whose other half may come next
};

// Limits of one call. `micro_batch`: libllama computes so many tokens of a call at a time.
struct CallSize {
  std::size_t batch = 512;
  std::size_t micro_batch = 512;
};

// Returns how many tokens of a slice go into one call with `runners` tokens: as many as the batch has room for and, if
// the slice may be shorter, as need no further micro-batch, which would cost as much as a call. 0: none do.
std::size_t slice_with_runners(std::size_t slice, std::size_t runners, const CallSize& size, bool may_be_shorter);

}  // namespace kvkeep::policy
