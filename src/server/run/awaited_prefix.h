#pragma once

// Requests that wait for a part of their prompt which another request is about to compute.
//
// A request whose prompt shares more with one that prefills than it could reuse now waits until that one has computed
// the shared part, or no longer prefills; then it looks up the cache again, and forks. All others start at once.
//
// Rows that another request is reading or restoring would be in the model's memory twice, and be restored twice, if a
// second request took them from the cache: it waits as well, and forks, where that saves most of its own restore and
// takes about as long.
//
// A look-up takes milliseconds for a long prompt, and a thousand requests may await one prefix. Where the one that
// prefills found nothing known of the shared part when it looked up, nothing more can be known of the others' prompts:
// they begin to wait without a look-up of their own. Engine thread only.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "os/clock.h"
#include "policy/cached_prefix.h"
#include "server/run/request.h"
#include "server/run/request_queue.h"
#include "server/run/sequences.h"

namespace kvkeep::server {

// A request waits so often at most: each time it should find more than the time before.
inline constexpr std::uint32_t kMostAwaited = 8;

// The request could reuse `prefix` now. If another one is computing more of its prompt, or restoring the same, it
// begins to wait for that (Request::awaits). Returns true if it does.
bool await_prefix(Request& request, const policy::CachedPrefix& prefix,
                  std::span<const std::unique_ptr<Request>> active, const Sequences& sequences, os::Clock& clock);

// The same before the request is looked up: it waits for a part of which nothing was known when the other one began.
bool await_unknown(Request& request, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                   os::Clock& clock);

// The last of `active` came from the queue and has no place: it ended, or it awaits a prefix and goes back. Then those
// in the queue that await_unknown() is true of wait as well, so that none of them is chosen in vain. Returns how many.
// Cost: O(queue) comparisons of prompts.
std::size_t leave_place(std::vector<std::unique_ptr<Request>>& active, RequestQueue& queue, const Sequences& sequences,
                        os::Clock& clock);

// So many requests are chosen in vain in a round at most: each costs a look at the queue, and most of them a look-up.
inline constexpr std::size_t kMostPlaceless = 16;

// Lets all requests go on, now, whose prefix is computed or will not be. Returns true if there were any.
bool release_awaiting(RequestQueue& queue, std::span<const std::unique_ptr<Request>> active, const Sequences& sequences,
                      std::int64_t now_ns);

// Returns the longest prefix worth waiting for, if the request could reuse `prefix` now; nullopt if there is none.
// `active` may contain the request itself.
std::optional<AwaitedPrefix> find_awaited(const Request& request, const policy::CachedPrefix& prefix,
                                          std::span<const std::unique_ptr<Request>> active, const Sequences& sequences);

// Returns true if the prefix is computed, or will not be.
bool has_ended(const AwaitedPrefix& awaited, std::span<const std::unique_ptr<Request>> active,
               const Sequences& sequences);

}  // namespace kvkeep::server
