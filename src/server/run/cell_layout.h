#pragma once

// Changes the layout of the model's cells while the server runs: from one pool to cells of each request's own where
// calls are faster so (policy/layout_choice.h), or where they are about to be for requests that come together, and back
// where that is, or where a request does not fit into cells of its own. Does nothing if the engine cannot, or the
// layout is given.
//
// The memory is made anew for it. Requests that run are interrupted and go on from captured state, so that none of them
// is computed again; idle conversations leave and come back in the same way. While a request runs whose state is not
// all captured, nothing is changed; but if one waits for the pool, no other starts until those that run have ended.
// Engine thread only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cache/model_memory.h"
#include "os/clock.h"
#include "policy/layout_choice.h"
#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/sequences.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

class Inbox;
struct ModelCall;

class CellLayout {
 public:
  // Has a request give back its sequence, of which all is captured.
  using SetAside = std::function<void(Request&)>;
  // All arguments must outlive this. `parallel`: requests that run at a time.
  CellLayout(std::size_t parallel, engine::Engine& engine, Sequences& sequences, const cache::Cache& cache,
             os::Clock& clock, Inbox& inbox, SetAside set_aside);

  // A call that began then was made. The sequences do not have its tokens yet.
  void note(const ModelCall& call, std::int64_t begin_ns);
  // Changes the layout if it is time. Returns true if requests that waited may start now.
  bool look(std::span<const std::unique_ptr<Request>> active, const RequestQueue& queue);
  // Returns true while a request waits for the pool, and for those that run: no other may start.
  bool holds_starts() const { return holds_; }
  // Returns true if the request has more tokens than cells of its own, and has to wait for the pool.
  bool begins_to_wait(const Request& request);

 private:
  std::size_t own_tokens() const;
  bool lacks_cells(const Request& request) const;
  bool any_too_long(std::span<const std::unique_ptr<Request>> active) const;
  bool may_interrupt(std::span<const std::unique_ptr<Request>> active, bool needed);
  bool has_room() const;
  enum class Reason : std::uint8_t { kLoss, kComing, kNeeded };
  bool change(std::span<const std::unique_ptr<Request>> active, Reason reason, std::int64_t begin_ns);
  bool comes_to_lose(std::span<const std::unique_ptr<Request>> active, const RequestQueue& queue);
  policy::DecodedView decoded(const ModelCall& call);
  policy::SliceView sliced(const ModelCall& call) const;
  bool fits_own_cells(const Request& request) const;
  bool fit_idle() const;

  const std::size_t parallel_;
  engine::Engine& engine_;
  const cache::ModelMemory& memory_;
  Sequences& sequences_;
  const cache::Cache& cache_;
  os::Clock& clock_;
  Inbox& inbox_;
  const SetAside set_aside_;
  bool possible_;
  policy::LayoutChoice choice_;
  bool holds_ = false;
  std::int64_t retry_ns_ = 0;           // after a refusal, not before
  std::vector<std::uint64_t> counted_;  // the requests of view_, by number
  std::size_t counts_ = 0;              // steps since their tokens were compared
  policy::DecodedView view_;            // of the last step
  std::uint64_t foreseen_to_ = 0;       // requests up to this number were looked at before they decoded
  policy::DecodedView coming_;          // those that were looked at last
};

}  // namespace kvkeep::server
