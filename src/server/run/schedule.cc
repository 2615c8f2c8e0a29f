#include "server/run/schedule.h"

#include <algorithm>
#include <utility>

#include "policy/cut.h"
#include "policy/share.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

// One that computes a prefix for others is as urgent as they are: else requests of a priority between would delay them.
void lend_priority(policy::ScheduleView& view, std::span<const std::unique_ptr<Request>> admitted,
                   const AwaitedPrefix& awaits, int priority) {
  for (std::size_t at = 0; at < admitted.size(); ++at) {
    const bool is_giver = admitted[at]->number == awaits.number && admitted[at]->seq == awaits.seq;
    if (is_giver) view.admitted[at].priority = std::min(view.admitted[at].priority, priority);
  }
}

// Where each capture copies the whole sequence. Copying 2,048 rows takes less than a thousandth of the time that
// computing them does. Rows of windowed models are few bytes next to their windows, and without a capture no position
// up to the next one is restorable.
constexpr std::size_t kLeastWhole = 2'048;
constexpr std::size_t kMostCopies = 3;
constexpr std::size_t kMostWindowCopies = 8;

std::size_t whole_stride(const Request& request, std::size_t least, std::size_t most_copies) {
  return policy::whole_capture_stride(request.captured_to.value(), least, most_copies);
}

}  // namespace

ScheduleOptions schedule_options(const SchedulerOptions& options, bool on_grid) {
  return {.parallel = options.parallel,
          .slice_ms = options.slice_ms,
          .ahead_slice_ms = options.ahead_slice_ms,
          .capture_prefilled_tokens = options.capture_prefilled_tokens,
          .least_window_slice_tokens = options.least_window_slice_tokens,
          .pinned_slice_tokens = options.pinned_slice_tokens,
          .on_grid = on_grid};
}

Schedule::Schedule(const ScheduleOptions& options, const engine::Description& model, const cache::ModelMemory& memory,
                   const Sequences& sequences)
    : options_(options), model_(model), memory_(memory), sequences_(sequences) {}

policy::ScheduleView Schedule::view(std::span<const std::unique_ptr<Request>> admitted, const RequestQueue& queue,
                                    const policy::Rates& rates) const {
  policy::ScheduleView view;
  for (const auto& request : admitted) {
    const std::size_t part = request->seq ? sequences_[*request->seq].part : 0;
    view.admitted.push_back(as_scheduled(*request, held(*request) - part, part, capture_stride(*request)));
  }
  for (const auto& waits : admitted) {
    if (waits->awaits) lend_priority(view, admitted, *waits->awaits, waits->job.priority);
  }
  for (const AwaitedPrompt& prompt : queue.awaited()) lend_priority(view, admitted, prompt.first, prompt.priority);
  view.queued = queue.facts();
  view.idle = sequences_.idle();
  view.most_admitted = options_.parallel;
  view.served_last = queue.served_last();
  view.limits = limits(rates);
  return view;
}

std::size_t Schedule::held(const Request& request) const {
  return request.seq ? sequences_[*request.seq].computed() : 0;
}

CaptureStride Schedule::capture_stride(const Request& request) const {
  const cache::StateShape shape = memory_.shape();
  const bool kept = request.job.cache_prompt && shape.cacheable;
  std::size_t least = std::min<std::size_t>(options_.capture_prefilled_tokens, model_.batch_tokens);
  CaptureStride stride;
  if (shape.window_tokens > 0 && kept) {
    least = std::max<std::size_t>(shape.window_tokens, options_.least_window_slice_tokens);
    const std::size_t tokens = memory_.own_cells() ? whole_stride(request, least, kMostWindowCopies) : least;
    stride = {.tokens = to_pin(request.captured_to, tokens), .bounds = true};
  } else {
    stride.tokens = memory_.own_cells() ? whole_stride(request, std::max(least, kLeastWhole), kMostCopies) : least;
  }
  if (options_.on_grid && kept) stride.grid = policy::share_grid(least);
  return stride;
}

// Where slices are pinned, no slice ends at a capture elsewhere: the rows that slide off between two windows are in
// none that is restored.
std::size_t Schedule::to_pin(Position captured, std::size_t stride) const {
  const std::size_t pin = pinned_tokens();
  if (pin == 0) return stride;
  const std::size_t end = captured.value() + stride;
  return (end + pin - 1) / pin * pin - captured.value();
}

std::size_t Schedule::pinned_tokens() const {
  return std::min<std::size_t>(options_.pinned_slice_tokens, model_.batch_tokens);
}

policy::CallLimits Schedule::limits(const policy::Rates& rates) const {
  const double slice_ms = std::max(0.0, options_.slice_ms - spent_ms_);
  const std::size_t by_time = options_.slice_ms > 0 ? slices_.within(slice_ms) : model_.batch_tokens;
  return {.batch_tokens = model_.batch_tokens,
          .shared_slice_tokens = by_time,
          .own_slice_tokens = std::max(by_time, slices_.efficient()),
          .ahead_slice_tokens = policy::ahead_slice(rates.prefill_tokens_per_s, options_.ahead_slice_ms),
          .pinned_tokens = pinned_tokens(),
          .restored_token = restored_token(rates),
          .slice_is_taken = slice_is_taken()};
}

double Schedule::restored_token(const policy::Rates& rates) const {
  constexpr std::size_t kMany = 1'024;  // so that the bytes of a header are few
  if (rates.ram_restore_bytes_per_s <= 0) return 0;
  const double bytes = static_cast<double>(memory_.rows_bytes(kMany)) / static_cast<double>(kMany);
  return std::min(1.0, bytes / rates.ram_restore_bytes_per_s * rates.prefill_tokens_per_s);
}

// A slice in what is left would be short, and short ones are slow.
bool Schedule::slice_is_taken() const { return spent_ms_ > 0 && spent_ms_ * 2 >= options_.slice_ms; }

void Schedule::begin_slice(std::span<const std::unique_ptr<Request>> admitted, const Request* last,
                           double restored_ms) {
  spent_ms_ = restored_ms;
  if (last != nullptr && slice_is_taken()) pass(admitted, *last);
}

void Schedule::pass(std::span<const std::unique_ptr<Request>> admitted, const Request& chosen) {
  for (const auto& other : admitted) other->passed = other.get() == &chosen ? 0 : other->passed + 1;
}

bool Schedule::note_slice(std::span<const std::unique_ptr<Request>> admitted, const Request& chosen, TokenRange slice,
                          std::optional<double> ms) {
  if (ms) slices_.note({.prompt = chosen.number, .begin = slice.begin}, slice.size(), *ms);
  pass(admitted, chosen);
  const std::uint64_t before = std::exchange(prefilled_last_, chosen.number);
  bool preempted = false;
  for (const auto& other : admitted) {
    const bool is_preempted =
        other->number == before && before != chosen.number && other->phase == Request::Phase::kPrefill;
    other->stats.preemptions += is_preempted ? 1 : 0;
    preempted |= is_preempted;
  }
  return preempted;
}

}  // namespace kvkeep::server
