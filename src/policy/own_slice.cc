#include "policy/own_slice.h"

#include <algorithm>

namespace kvkeep::policy {

std::size_t OwnSlice::tokens() const {
  if (trial_ == Trial::kNone) return own_;
  return longer_next_ ? shorter() * 2 : shorter();
}

void OwnSlice::note(const SliceAt& at, std::size_t tokens, double ms) {
  ++slices_;
  if (trial_ == Trial::kNone) {
    if (slices_ >= kUntilTrial) begin(own_ > kLeastOwnSlice ? Trial::kShorter : Trial::kLonger);
    return;
  }
  if (tokens >= shorter() && tokens < shorter() * 4) {
    const bool is_longer = tokens >= shorter() * 2;
    longer_next_ = !is_longer;
    add(at, {.tokens = tokens, .is_longer = is_longer, .ms_per_token = ms / static_cast<double>(tokens)});
  } else {
    neighbours_ = 0;  // the rest of a prompt, or what comes before a cut
  }
  if (trial_ != Trial::kNone && slices_ >= kMostOfTrial) begin(Trial::kNone);
}

// Of three neighbours, the outer ones have one length and the inner one the other.
void OwnSlice::add(const SliceAt& at, const Slice& slice) {
  const bool follows = at.prompt == follows_.prompt && at.begin == follows_.begin;
  if (!follows || slice.is_longer == last_.back().is_longer) neighbours_ = 0;
  neighbours_ = std::min(neighbours_ + 1, last_.size());
  std::ranges::rotate(last_, last_.begin() + 1);
  last_.back() = slice;
  follows_ = {.prompt = at.prompt, .begin = at.begin + slice.tokens};
  if (neighbours_ < last_.size() || last_[0].tokens != last_[2].tokens) return;
  const double outer = (last_[0].ms_per_token + last_[2].ms_per_token) / 2;
  const double inner = last_[1].ms_per_token;
  if (outer <= 0 || inner <= 0) return;  // a clock may not have moved
  ratio_[ratios_++] = last_[1].is_longer ? inner / outer : outer / inner;
  if (ratios_ < kRatios) return;
  std::ranges::sort(ratio_);
  decide(ratio_[kRatios / 2] <= kGain);
}

void OwnSlice::decide(bool longer_pays) {
  if (trial_ == Trial::kShorter) {
    if (longer_pays) return begin(Trial::kLonger);
    own_ /= 2;
    return begin(own_ > kLeastOwnSlice ? Trial::kShorter : Trial::kNone);
  }
  if (longer_pays) own_ *= 2;
  begin(longer_pays ? Trial::kLonger : Trial::kNone);
}

void OwnSlice::begin(Trial trial) {
  trial_ = trial;
  slices_ = 0;
  neighbours_ = ratios_ = 0;
  longer_next_ = false;
}

}  // namespace kvkeep::policy
