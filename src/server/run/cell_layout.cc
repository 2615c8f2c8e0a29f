#include "server/run/cell_layout.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "cache/cache.h"
#include "cache/cache_stats.h"
#include "server/run/calls.h"
#include "server/run/inbox.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {

namespace {

using Phase = Request::Phase;

constexpr std::int64_t kRetryNs = 250'000'000;  // each try captures what was computed since the last one
constexpr std::size_t kRecount = 16;            // steps: all tokens of all requests are compared for it
constexpr std::size_t kReplyShare = 8;          // of cells of its own, a reply must have room for this part

// Returns true if the request goes on from captured state as if nothing had happened, once all of it is captured.
bool is_resumable(const Request& request, const Sequences& sequences) {
  const bool reuses = request.tiers().memory && request.tiers().cache;
  return reuses && request.encoding == nullptr && sequences[*request.seq].occupant.cached;
}

policy::LayoutFacts facts_of(const engine::Description& model) {
  return {.row_bytes = static_cast<double>(model.row_bytes_per_token),
          .weight_bytes = static_cast<double>(model.model_bytes),
          .are_priced = !model.uses_gpu};
}

// What a request has in the model's memory, or will have.
struct Held {
  Tenant tenant;
  TokenSpan tokens;
};

// In order, each has the longest common prefix with one of its neighbours.
policy::DecodedView compare(std::vector<Held> all) {
  std::ranges::sort(all, [](const Held& a, const Held& b) {
    if (a.tenant != b.tenant) return a.tenant < b.tenant;
    return std::ranges::lexicographical_compare(a.tokens, b.tokens);
  });
  policy::DecodedView view{.requests = all.size()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool alike = i > 0 && all[i - 1].tenant == all[i].tenant;
    view.tokens += all[i].tokens.size();
    view.distinct += all[i].tokens.size() - (alike ? common_prefix(all[i - 1].tokens, all[i].tokens) : 0);
  }
  return view;
}

// Tokens that the request may still decode.
std::size_t left_to_decode(const Request& request) {
  const auto wanted = static_cast<std::size_t>(request.job.max_tokens.value_or(INT64_MAX));
  return wanted - std::min(wanted, request.stats.predicted_tokens);
}

// Those that run, and the first of those that wait, up to `most`.
std::vector<const Request*> coming(std::span<const std::unique_ptr<Request>> active, const RequestQueue& queue,
                                   std::size_t most) {
  std::vector<const Request*> all;
  for (const auto& each : active) {
    if (each->sink != nullptr) all.push_back(each.get());
  }
  for (const auto& each : queue.all()) {
    if (all.size() >= most) break;
    all.push_back(each.get());
  }
  return all;
}

}  // namespace

CellLayout::CellLayout(std::size_t parallel, engine::Engine& engine, Sequences& sequences, const cache::Cache& cache,
                       os::Clock& clock, Inbox& inbox, SetAside set_aside)
    : parallel_(std::max<std::size_t>(1, parallel)),
      engine_(engine),
      memory_(engine.memory()),
      sequences_(sequences),
      cache_(cache),
      clock_(clock),
      inbox_(inbox),
      set_aside_(std::move(set_aside)),
      possible_(engine.description().can_lay_out),
      choice_(facts_of(engine.description())) {
  inbox_.count([own = memory_.own_cells()](SchedulerStats& stats) { stats.own_cells = own; });
}

std::size_t CellLayout::own_tokens() const {
  if (memory_.own_cells()) return memory_.cells_total() / memory_.sequence_count();
  return engine_.description().context_tokens / parallel_;
}

bool CellLayout::lacks_cells(const Request& request) const {
  return possible_ && memory_.own_cells() && request.effective.tokens.size() > own_tokens();
}

bool CellLayout::any_too_long(std::span<const std::unique_ptr<Request>> active) const {
  return std::ranges::any_of(active, [most = own_tokens()](const auto& each) {
    return each->sink != nullptr && each->effective.tokens.size() > most;
  });
}

// ---- steps ----

void CellLayout::note(const ModelCall& call, std::int64_t begin_ns) {
  if (!possible_) return;
  const double ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  if (call.prefills != nullptr) return choice_.note_slice(sliced(call), ms);
  choice_.note_step(decoded(call), ms);
}

policy::DecodedView CellLayout::decoded(const ModelCall& call) {
  if (!std::ranges::equal(call.runners, counted_, {}, &Request::number) || ++counts_ >= kRecount) {
    counts_ = 0;
    counted_.clear();
    std::vector<Held> held;
    for (const Request* runner : call.runners) {
      const Sequence& sequence = sequences_[*runner->seq];
      held.push_back({sequence.occupant.tenant, sequence.tokens});
      counted_.push_back(runner->number);
    }
    view_ = compare(std::move(held));
  } else {
    view_.tokens += call.runners.size();
    view_.distinct += call.runners.size();
  }
  const std::size_t used = memory_.own_cells() ? 0 : memory_.cells_used();
  view_.other_cells = used - std::min(used, view_.distinct);
  view_.fits_own_cells =
      std::ranges::all_of(call.runners, [this](const Request* runner) { return fits_own_cells(*runner); });
  return view_;
}

// In cells of their own, a pool is taken to hold what the last decode step read: to compare all tokens for each slice
// would take longer than the answer is worth.
policy::SliceView CellLayout::sliced(const ModelCall& call) const {
  policy::SliceView slice{.tokens = call.runners.size() + call.slice};
  const auto add = [&](const Request& request, std::size_t tokens) {
    const std::size_t own = sequences_[*request.seq].tokens.size();
    const std::size_t all = memory_.own_cells() ? view_.distinct + own : memory_.cells_used();
    slice.masked += static_cast<double>(tokens) * static_cast<double>(all - std::min(all, own));
    slice.fits_own_cells = slice.fits_own_cells && fits_own_cells(request);
  };
  for (const Request* runner : call.runners) add(*runner, 1);
  add(*call.prefills, call.slice);
  return slice;
}

bool CellLayout::fits_own_cells(const Request& request) const {
  const std::size_t most = own_tokens();
  return request.effective.tokens.size() + std::min(left_to_decode(request), most / kReplyShare) <= most;
}

// A conversation that is longer than cells of its own would bring the pool back with its next turn.
bool CellLayout::fit_idle() const {
  return std::ranges::all_of(sequences_.all(), [most = own_tokens()](const Sequence& each) {
    return each.state != Sequence::State::kIdle || each.tokens.size() <= most;
  });
}

// ---- requests that come ----

// Looks at each request once, with those that run and wait next to it then; if it comes next to no other, or before
// any call told how long steps take, with those that come after it.
bool CellLayout::comes_to_lose(std::span<const std::unique_ptr<Request>> active, const RequestQueue& queue) {
  if (!choice_.is_timed()) return false;
  const std::vector<const Request*> all = coming(active, queue, parallel_);
  std::uint64_t newest = foreseen_to_;
  for (const Request* each : all) newest = std::max(newest, each->number);
  if (all.size() < 2 || std::exchange(foreseen_to_, newest) == newest) return false;
  std::vector<Held> held;
  double steps = 0;
  bool fits = memory_.own_cells() || fit_idle();
  for (const Request* each : all) {
    held.insert(held.end(), 1 + each->branches.size(), Held{each->job.tenant, each->effective.tokens});
    steps += static_cast<double>(std::min(left_to_decode(*each), policy::kForeseen));
    fits = fits && fits_own_cells(*each);
  }
  coming_ = compare(std::move(held));
  const std::size_t used = memory_.own_cells() ? 0 : memory_.cells_used();
  coming_.other_cells = used - std::min(used, coming_.distinct);
  coming_.fits_own_cells = fits;
  return choice_.coming_pays(coming_, steps / static_cast<double>(all.size()));
}

// ---- changes ----

// Its place stays its own, and it is looked at before all that wait in the queue: whatever comes in between finds
// holds_.
bool CellLayout::begins_to_wait(const Request& request) {
  const bool waits = lacks_cells(request);
  holds_ = holds_ || waits;
  return waits;
}

bool CellLayout::look(std::span<const std::unique_ptr<Request>> active, const RequestQueue& queue) {
  if (!possible_) return false;
  const bool too_long = any_too_long(active);
  const bool needed = too_long && memory_.own_cells();
  if (!needed && std::exchange(holds_, false)) return true;  // the one that waited for it has left
  const Reason reason = needed ? Reason::kNeeded : choice_.change_pays() ? Reason::kLoss : Reason::kComing;
  if (reason == Reason::kComing && !comes_to_lose(active, queue)) return false;
  if (!needed && too_long) {
    choice_.note_refused();
    return false;
  }
  for (const auto& each : active) {  // one that has grown too long finds no cell for its next token
    if (needed && each->seq && lacks_cells(*each)) set_aside_(*each);
  }
  const bool any_runs = std::ranges::any_of(active, [](const auto& each) { return each->seq.has_value(); });
  const std::int64_t begin_ns = clock_.monotonic_ns();
  if (any_runs && begin_ns < retry_ns_) return false;
  if (may_interrupt(active, needed)) return change(active, reason, begin_ns);
  retry_ns_ = clock_.monotonic_ns() + kRetryNs;
  if (!needed) choice_.note_refused();
  return false;
}

// Returns true if RAM or the disk takes what leaves the model's memory for a change. Before one to cells of their own
// all that may lie there later counts as well: a long request brings the pool back at any time.
bool CellLayout::has_room() const {
  const cache::CacheStats stats = cache_.stats();
  std::size_t held = 0;
  for (const Sequence& each : sequences_.all()) held += each.tokens.size();
  const std::size_t tokens = memory_.own_cells() ? held : memory_.cells_total();
  return stats.disk_budget > ByteCount{} || stats.ram_budget.value() / 2 >= memory_.rows_bytes(tokens);
}

// While nothing runs, a request that needs the pool gets it even if idle conversations are lost.
bool CellLayout::may_interrupt(std::span<const std::unique_ptr<Request>> active, bool needed) {
  std::vector<const Request*> held;
  for (const auto& each : active) {
    if (each->seq) held.push_back(each.get());
  }
  const bool resumable =
      std::ranges::all_of(held, [&](const Request* each) { return is_resumable(*each, sequences_); });
  if (!resumable || !sequences_.none_is_hidden()) return false;
  const bool may_lose = needed && held.empty();
  if (!may_lose && !has_room()) return false;
  return std::ranges::all_of(held, [&](const Request* each) {
    const bool computed = each->phase == Phase::kPrefill || each->phase == Phase::kDecode;
    return !computed || sequences_.store(*each->seq);
  });
}

bool CellLayout::change(std::span<const std::unique_ptr<Request>> active, Reason reason, std::int64_t begin_ns) {
  const bool own = !memory_.own_cells();
  const policy::DecodedView before = reason == Reason::kComing ? coming_ : view_;
  std::size_t interrupted = 0;
  for (const auto& each : active) {
    if (!each->seq) continue;
    set_aside_(*each);
    ++interrupted;
  }
  sequences_.leave_idle();
  const Status changed = engine_.lay_out(own);
  sequences_.begin_anew();
  holds_ = false;
  counted_.clear();
  if (!changed) {
    possible_ = false;
    spdlog::warn("the model's memory keeps {}, since it could not be made anew: {}; -kvu or -no-kvu settles the layout",
                 own ? "one pool of cells" : "cells of each request's own", changed.error().message);
    return true;
  }
  const double ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  choice_.note_changed(own, ms, reason == Reason::kComing);
  inbox_.count([own](SchedulerStats& stats) {
    stats.own_cells = own;
    ++stats.layout_changes;
  });
  const std::string why = reason == Reason::kNeeded
                              ? std::string("a request has more tokens than that")
                              : fmt::format("calls of the model {} faster so (replies: {}, sharing {} of {} tokens)",
                                            reason == Reason::kComing ? "will be" : "are", before.requests,
                                            before.tokens - before.distinct, before.tokens);
  spdlog::info("requests {} from now on: {}; the change took {:.0f} ms, and {} of them were interrupted",
               own ? fmt::format("have {} cells of their own each", own_tokens())
                   : fmt::format("share one pool of {} cells", memory_.cells_total()),
               why, ms, interrupted);
  return true;
}

}  // namespace kvkeep::server
