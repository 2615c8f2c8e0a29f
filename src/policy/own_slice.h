#pragma once

// How many tokens a slice of prefill should have where nobody waits for its end. Longer ones hold up a request that may
// come, so a slice is twice as long only where that prefills faster. Pure.
//
// Two lengths are tried in turn within one prompt. A token takes more time the longer the context is, so that slices of
// different prompts, or of different parts of one, say nothing about their lengths: a slice is compared with its two
// neighbours, whose mean lies at the same depth. What pays at one depth does not pay at another, and machines have bad
// moments: the trial is repeated now and then.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

inline constexpr std::size_t kLeastOwnSlice = 128;  // from here on, longer ones pay only on some machines

// Where a slice lies.
struct SliceAt {
  std::uint64_t prompt = 0;  // the number of the request
  Position begin = {};
};

class OwnSlice {
 public:
  // Returns the length of the next slice; a longer one may be taken where that is no longer than others would wait for.
  std::size_t tokens() const;
  // A slice took so long.
  void note(const SliceAt& at, std::size_t tokens, double ms);

 private:
  static constexpr std::size_t kRatios = 3;          // that decide a trial, by their median
  static constexpr std::uint32_t kMostOfTrial = 24;  // slices; prompts may be too short for a trial, or cut too often
  static constexpr std::uint32_t kUntilTrial = 64;   // slices from one trial to the next
  static constexpr double kGain = 0.93;              // of the time per token, at least

  enum class Trial : std::uint8_t {
    kNone,
    kLonger,   // slices of own_ and of twice as many
    kShorter,  // slices of half as many and of own_
  };
  struct Slice {
    std::size_t tokens = 0;
    bool is_longer = false;  // of the two lengths
    double ms_per_token = 0;
  };

  std::size_t shorter() const { return trial_ == Trial::kShorter ? own_ / 2 : own_; }
  void add(const SliceAt& at, const Slice& slice);
  void decide(bool longer_pays);
  void begin(Trial trial);

  std::size_t own_ = kLeastOwnSlice;
  Trial trial_ = Trial::kLonger;
  std::uint32_t slices_ = 0;  // since the trial began, or ended
  bool longer_next_ = false;
  SliceAt follows_ = {};            // where a neighbour of the last slice begins
  std::size_t neighbours_ = 0;      // of the last slices, at most 3
  std::array<Slice, 3> last_ = {};  // the latest is the last
  std::size_t ratios_ = 0;
  std::array<double, kRatios> ratio_ = {};  // of longer slices to shorter ones, in time per token
};

}  // namespace kvkeep::policy
