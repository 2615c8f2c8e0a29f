#pragma once

// Shows policy/next_call.h the scheduler's requests, and how long slices of prefill may be (policy/slice_meter.h).
// Engine thread only.

#include <memory>
#include <optional>
#include <span>

#include "cache/model_memory.h"
#include "engine/engine.h"
#include "policy/next_call.h"
#include "policy/restore.h"
#include "policy/slice_meter.h"
#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

struct ScheduleOptions {
  std::size_t parallel = 4;
  double slice_ms = 0;
  double ahead_slice_ms = 0;
  std::size_t capture_prefilled_tokens = 0;
  std::size_t least_window_slice_tokens = 0;
  std::size_t pinned_slice_tokens = 0;
  bool on_grid = false;  // state is captured where other servers look for it
};

struct SchedulerOptions;
ScheduleOptions schedule_options(const SchedulerOptions& options, bool on_grid);

class Schedule {
 public:
  // All arguments must outlive this.
  Schedule(const ScheduleOptions& options, const engine::Description& model, const cache::ModelMemory& memory,
           const Sequences& sequences);

  // The queue's facts are referred to, not copied.
  policy::ScheduleView view(std::span<const std::unique_ptr<Request>> admitted, const RequestQueue& queue,
                            const policy::Rates& rates) const;
  // Tokens of the request that the model's memory holds.
  std::size_t held(const Request& request) const;
  // How far apart state of a request that prefills is captured.
  CaptureStride capture_stride(const Request& request) const;

  // A round's slice begins. Restores took so long of it, `last` had the last of them; null: there was none.
  void begin_slice(std::span<const std::unique_ptr<Request>> admitted, const Request* last, double restored_ms);
  // The chosen request got a slice: it took so long with its capture (nullopt: nobody knows), and passed the others.
  // Returns true if one of them had the slice before it and is not done: it was preempted.
  bool note_slice(std::span<const std::unique_ptr<Request>> admitted, const Request& chosen, TokenRange slice,
                  std::optional<double> ms);

 private:
  static void pass(std::span<const std::unique_ptr<Request>> admitted, const Request& chosen);
  bool slice_is_taken() const;
  double restored_token(const policy::Rates& rates) const;
  policy::CallLimits limits(const policy::Rates& rates) const;
  std::size_t pinned_tokens() const;
  std::size_t to_pin(Position captured, std::size_t stride) const;

  const ScheduleOptions options_;
  const engine::Description& model_;
  const cache::ModelMemory& memory_;
  const Sequences& sequences_;
  policy::SliceMeter slices_;
  double spent_ms_ = 0;               // of this round's slice
  std::uint64_t prefilled_last_ = 0;  // the number of the request that had the last slice
};

}  // namespace kvkeep::server
