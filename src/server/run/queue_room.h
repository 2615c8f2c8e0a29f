#pragma once

// How many replies may run and wait, and how long their prompts may be together: in all, and of one client, so that
// others find room as well. Pure; not thread safe.

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/result.h"

namespace kvkeep::server {

struct Job;
struct SchedulerOptions;

// Replies, and the tokens of the prompts that they are to.
struct OpenReplies {
  std::size_t replies = 0;
  std::size_t tokens = 0;  // a prompt counts once, however many replies it has

  OpenReplies operator+(const OpenReplies& more) const { return {replies + more.replies, tokens + more.tokens}; }
  OpenReplies operator-(const OpenReplies& less) const { return {replies - less.replies, tokens - less.tokens}; }
};

// Replies that may be open: that run, as many as there are places, and that wait.
struct QueueLimits {
  std::size_t places = 0;
  std::size_t queue = 0;
  std::size_t of_key = SIZE_MAX;  // of one Job::owner whose requests have a Job::key
  std::size_t tokens = SIZE_MAX;  // of all open prompts; one that comes while none waits is taken, however long it is
  std::size_t open() const { return places + queue; }
};
// Where the options do not say how many tokens all open prompts may have: 256 MiB of ids, which are 1,024 prompts of
// 65,536 tokens, or 64 prompts as long as the context if that is more.
QueueLimits queue_limits(const SchedulerOptions& options, std::size_t context_tokens);

// Returns how many replies and tokens an owner may have open, next to so many others that have some, while more than
// half of the queue, or of all tokens, is taken: besides all places an equal part of the queue, and an equal part of
// the tokens, of which a sixteenth is kept free. So one that is alone has nearly all, and another one that comes finds
// room and then gets what becomes free until both have as much.
OpenReplies share_of_queue(const QueueLimits& limits, std::size_t others);

class QueueRoom {
 public:
  explicit QueueRoom(const QueueLimits& limits) : limits_(limits) {}

  // Accepted and not ended. A prefill ahead makes room for others, so that it is counted here and takes none.
  const OpenReplies& open() const { return open_; }
  // `more` come, all of the job's owner and key, while so many replies wait for a place: kBusy if that is too much;
  // kInvalid if there are more replies than may ever be open.
  Status check(const OpenReplies& more, const Job& job, std::size_t waiting) const;
  void add(const OpenReplies& more, std::uint64_t owner, bool ahead);
  // They ended, or one of them. Precondition: they were added.
  void remove(const OpenReplies& ended, std::uint64_t owner, bool ahead);

 private:
  Status check_share(const OpenReplies& all, const OpenReplies& more, const Job& job, std::size_t waiting) const;

  const QueueLimits limits_;
  OpenReplies open_;
  OpenReplies ahead_;  // of these, prefills ahead
  // Of these, by owner; those without one are not counted.
  std::unordered_map<std::uint64_t, OpenReplies> of_owner_;
};

}  // namespace kvkeep::server
