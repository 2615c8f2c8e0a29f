#include "policy/call_meter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace kvkeep::policy {

namespace {

constexpr std::size_t kClearlyDearer = 2;   // pairs that all speak against one call end a trial
constexpr std::size_t kClearlyCheaper = 4;  // pairs that all speak for it
constexpr std::size_t kLikeness = 16;       // slices of a pair differ in length by less than 1/16
constexpr double kLeastRoundMs = 0.001;     // a clock may not have moved

std::size_t runners_class(std::size_t runners, std::size_t classes) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(runners)), classes - 1);
}

CallWay other_way(CallWay way) { return way == CallWay::kApart ? CallWay::kTogether : CallWay::kApart; }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

bool CallMeter::completes_pair(const RoundWork& work) const {
  if (!half_) return false;
  const RoundWork& before = half_->work;
  const std::size_t longer = std::max(before.slice, work.slice);
  const std::size_t difference = longer - std::min(before.slice, work.slice);
  return before.request == work.request && before.from + before.slice == work.from && before.runners == work.runners &&
         difference <= std::max(work.runners, longer / kLikeness);
}

CallChoice CallMeter::next(const RoundWork& work, std::size_t left) const {
  const Trial& trial = by_runners_[runners_class(work.runners, kClasses)];
  if (trial.rest > 0) return {trial.in_use, false};
  if (completes_pair(work)) return {other_way(half_->way), true};
  if (left < 2 * work.slice) return {trial.in_use, false};  // the pair would lack its second half
  return {trial.first_of_pair(), true};
}

std::optional<CallMeter::Result> CallMeter::note(const RoundWork& work, const CallChoice& choice, double ms) {
  Trial& trial = by_runners_[runners_class(work.runners, kClasses)];
  const bool has_first_half = completes_pair(work);
  const Half before = has_first_half ? *half_ : Half{};
  half_.reset();
  if (trial.rest > 0) --trial.rest;
  if (!choice.measured) return std::nullopt;
  ++trial.rounds;
  const double ms_per_token = std::max(ms, kLeastRoundMs) / static_cast<double>(work.slice + work.runners);
  if (has_first_half && before.way != choice.way) {
    const double log = std::log(ms_per_token / before.ms_per_token);
    trial.logs.push_back(choice.way == CallWay::kTogether ? log : -log);
  } else if (choice.way == trial.first_of_pair()) {
    half_ = Half{work, choice.way, ms_per_token};
  }
  if (const auto way = trial.verdict()) return trial.end(*way);
  return std::nullopt;
}

// After an even number of pairs as many began with one call as with two.
std::optional<CallWay> CallMeter::Trial::verdict() const {
  if (rounds >= kLongestTrial) return in_use;
  const std::size_t pairs = logs.size();
  if (pairs < 2 || pairs % 2 == 1) return std::nullopt;
  const auto [cheapest, dearest] = std::ranges::minmax(logs);
  const bool in_one = in_use == CallWay::kTogether;
  const double least_log = in_one ? 0 : std::log(1 - kMargin);  // one call is used below it
  const double most_log = in_one ? std::log(1 + kMargin) : 0;
  if (pairs >= kClearlyDearer && cheapest > most_log) return CallWay::kApart;
  if (pairs >= (in_one ? kClearlyDearer : kClearlyCheaper) && dearest < least_log) return CallWay::kTogether;
  if (pairs < kMostPairs) return std::nullopt;
  return median(logs) < least_log ? CallWay::kTogether : CallWay::kApart;
}

CallMeter::Result CallMeter::Trial::end(CallWay way) {
  const bool changed = std::exchange(in_use, way) != way;
  if (changed) next_rest = kFirstRest;
  rest = next_rest;
  next_rest = std::min(next_rest * 2, kLongestRest);
  rounds = 0;
  const std::vector<double> measured = std::exchange(logs, {});
  const double gain = measured.empty() ? 0 : 1 - std::exp(median(measured));
  return {.way = way, .changed = changed, .gain = gain};
}

std::size_t slice_with_runners(std::size_t slice, std::size_t runners, const CallSize& size, bool may_be_shorter) {
  if (runners >= size.batch) return 0;
  const std::size_t fits = std::min(slice, size.batch - runners);
  const std::size_t micro_batches = (fits + size.micro_batch - 1) / size.micro_batch * size.micro_batch;
  if (!may_be_shorter || fits + runners <= micro_batches) return fits;
  return micro_batches > runners ? micro_batches - runners : 0;
}

}  // namespace kvkeep::policy
