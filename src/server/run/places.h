#pragma once

// The places at which requests run, as monitors see them (GET /slots): as many as requests may run at a time. A request
// keeps its place from its first start to its end, also while it is set aside; afterwards the place shows what it did,
// until another request comes there. State is found by content and not by place; but a client may name a place to save
// or forget the conversation that ran there (orders.h), and the place that its request takes if it is free.
//
// The engine thread shows its requests, any thread reads. Thread safe.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "engine/sampling.h"
#include "policy/next_call.h"
#include "server/run/job.h"
#include "server/run/request_figures.h"

namespace kvkeep {
class TenantScope;
}

namespace kvkeep::server {

struct CellCounts;
struct Request;
struct SchedulerNow;
class RequestQueue;

// The tokens whose state a request left, all but the last one of its reply.
struct Conversation {
  std::vector<TokenId> tokens;
  Tenant tenant = kNoTenant;
};

struct Place {
  bool running = false;
  std::uint64_t task = 0;  // number of the request that runs here or ran here last, from 1 on; 0: none did yet
  policy::ScheduledRequest::Phase phase = {};  // of that request
  JobStats stats = {};                         // of that request
  std::optional<std::int64_t> max_tokens = {};
  engine::SamplingParams sampling = {};  // without grammar and biases, which may be long and show what was asked
  std::shared_ptr<const Conversation> conversation =
      {};  // of the request that ran here last; null: nothing stays of it
};

// "idle", "waiting", "loading", "prefilling" or "decoding".
std::string_view state_of(const Place& place);

// A request that ended a while ago.
struct EndedPlace {
  std::string id;
  std::string kind;
  Tenant tenant = kNoTenant;
  Finish how = Finish::kError;
  std::int64_t ended_ns = 0;  // by the wall clock
  JobStats stats = {};
};
inline constexpr std::size_t kMostEnded = 64;

class Places {
 public:
  explicit Places(std::size_t count) : places_(count) {}

  // Engine thread: shows the requests that are admitted, which are at most as many as places; those that have ended
  // leave theirs. Returns how many have not ended.
  std::size_t show(std::span<const std::unique_ptr<Request>> admitted);
  std::vector<Place> all() const;
  // Engine thread: the request has ended. The last kMostEnded of them are remembered; prefills ahead are none.
  void note_end(const Request& request, Finish how, std::int64_t now_ns);
  std::vector<EndedPlace> ended() const;  // the last one first
  // Sums over the requests of each tenant that ended, prefills ahead left out.
  TenantSums tenants() const;
  // Engine thread: the request leaves this conversation. A prefill ahead leaves one only where it goes on from there.
  void leave(const Request& request, Conversation conversation);
  // Engine thread. Returns null if there is none. kBusy while a request runs there.
  Result<std::shared_ptr<const Conversation>> conversation(std::size_t place) const;
  void forget(std::size_t place);
  // Engine thread: forgets conversations of these tenants that begin so.
  void forget_below(TokenSpan beginning, const TenantScope& tenants);

 private:
  void take(Request& request) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<Place> places_ GUARDED_BY(mutex_);
  std::deque<EndedPlace> ended_ GUARDED_BY(mutex_);
  TenantSums tenants_ GUARDED_BY(mutex_);
  std::uint64_t tasks_ GUARDED_BY(mutex_) = 0;
};

// Engine thread: shows the admitted requests, and counts what runs and what waits. Each request that waits counts for
// one cause; branches of a prompt that is not computed yet have no place, and those of a queued one await what it does.
SchedulerNow count_now(std::span<const std::unique_ptr<Request>> admitted, const RequestQueue& queue, Places& places,
                       const CellCounts& cells);

}  // namespace kvkeep::server
