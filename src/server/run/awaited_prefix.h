#pragma once

// Requests that wait for a part of their prompt which another request is about to compute.
//
// A request whose prompt shares more with one that prefills than it could reuse now waits until that one has computed
// the shared part, or no longer prefills; then it looks up the cache again, and forks. All others start at once. Engine
// thread only.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/types.h"
#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

// A request waits so often at most: each time it should find more than the time before.
inline constexpr std::uint32_t kMostAwaited = 8;

// The request could reuse `reused` tokens now. If another one is computing more of its prompt, it begins to wait for
// that (Request::awaits). Returns true if it does.
bool await_prefix(Request& request, Position reused, std::span<const std::unique_ptr<Request>> active,
                  const Sequences& sequences);

// Lets all requests go on, now, whose prefix is computed or will not be. Returns true if there were any.
bool release_awaiting(RequestQueue& queue, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                      std::int64_t now_ns);

// Returns the longest prefix worth waiting for, if the request could reuse `reused` tokens now; nullopt if there is
// none. `active` may contain the request itself.
std::optional<AwaitedPrefix> find_awaited(const Request& request, Position reused,
                                          std::span<const std::unique_ptr<Request>> active, const Sequences& sequences);

// Returns true if the prefix is computed, or will not be.
bool has_ended(const AwaitedPrefix& awaited, std::span<const std::unique_ptr<Request>> active,
               const Sequences& sequences);

}  // namespace kvkeep::server
