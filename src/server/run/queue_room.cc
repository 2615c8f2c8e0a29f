#include "server/run/queue_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/next_call.h"
#include "server/run/job.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {

namespace {

constexpr std::size_t kQueuedContexts = 64;
constexpr std::size_t kQueuedTokens = 1ULL << 26;

}  // namespace

QueueLimits queue_limits(const SchedulerOptions& options, std::size_t context_tokens) {
  return {.places = options.parallel,
          .queue = options.queue_limit,
          .of_key = options.key_limit,
          .tokens = options.queue_tokens.value_or(std::max(kQueuedTokens, kQueuedContexts * context_tokens))};
}

OpenReplies share_of_queue(const QueueLimits& limits, std::size_t others) {
  const auto divided = [](std::size_t all, std::size_t parts) { return all / parts + (all % parts > 0 ? 1 : 0); };
  const auto part = [&](std::size_t all) {
    const std::size_t kept_free = all < 2 ? 0 : divided(all, 16);
    return divided(all - kept_free, others + 1);
  };
  return {limits.places + part(limits.queue), part(limits.tokens)};
}

Status QueueRoom::check(const OpenReplies& more, const Job& job, std::size_t waiting) const {
  const std::size_t most = job.key == policy::kNoKey ? limits_.open() : std::min(limits_.open(), limits_.of_key);
  if (more.replies > most) {
    return invalid(
        fmt::format("{} replies are more than this server may hold at a time{}: ask for at most {}, or start "
                    "it with a larger --{}",
                    more.replies, most < limits_.open() ? " for one API key" : "", most,
                    most < limits_.open() ? "key-limit" : "queue-limit"));
  }
  const OpenReplies all = open_ - ahead_ + more;
  if (all.replies > limits_.open()) return busy("too many requests are waiting; try again later");
  if (all.tokens > limits_.tokens && waiting > 0) {
    return busy(
        fmt::format("the prompts that run and wait have {} tokens, and the queue has room for {}; try again later",
                    all.tokens - more.tokens, limits_.tokens));
  }
  return job.owner == policy::kNoKey ? Status{} : check_share(all, more, job, waiting);
}

// `all`: with these `more`.
Status QueueRoom::check_share(const OpenReplies& all, const OpenReplies& more, const Job& job,
                              std::size_t waiting) const {
  const auto found = of_owner_.find(job.owner);
  const OpenReplies own = found == of_owner_.end() ? OpenReplies{} : found->second;
  if (job.key != policy::kNoKey && own.replies + more.replies > limits_.of_key) {
    return busy(fmt::format("{} requests with this API key run or wait, and {} may; try again later", own.replies,
                            limits_.of_key));
  }
  if (own.replies == 0) return {};
  const OpenReplies share = share_of_queue(limits_, of_owner_.size() - 1);
  if (all.replies > limits_.places + limits_.queue / 2 && own.replies + more.replies > share.replies) {
    return busy(
        fmt::format("{} requests of this client run or wait, and the queue has room for {} of one client: the rest is "
                    "for others; try again later",
                    own.replies, share.replies));
  }
  if (all.tokens <= limits_.tokens / 2 || own.tokens + more.tokens <= share.tokens || waiting == 0) return {};
  return busy(
      fmt::format("the prompts of this client that run and wait have {} tokens, and the queue has room for {} of one "
                  "client: the rest is for others; try again later",
                  own.tokens, share.tokens));
}

void QueueRoom::add(const OpenReplies& more, std::uint64_t owner, bool ahead) {
  open_ = open_ + more;
  if (ahead) ahead_ = ahead_ + more;
  if (owner != policy::kNoKey) of_owner_[owner] = of_owner_[owner] + more;
}

void QueueRoom::remove(const OpenReplies& ended, std::uint64_t owner, bool ahead) {
  open_ = open_ - ended;
  if (ahead) ahead_ = ahead_ - ended;
  const auto found = of_owner_.find(owner);
  if (found == of_owner_.end()) return;
  found->second = found->second - ended;
  if (found->second.replies == 0) of_owner_.erase(found);
}

}  // namespace kvkeep::server
