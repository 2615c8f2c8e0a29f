#pragma once

// The unsent part of one reply, between the threads that make it and the one that writes it to the socket. Makers never
// wait: bytes queue up here, up to a bound; a client that lets more pile up is dropped.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "server/http/unread_replies.h"

namespace kvkeep::server {

// Thread safe.
class Outbox {
 public:
  enum class End { kNotYet, kComplete, kCut };
  struct Taken {
    std::string bytes;
    std::shared_ptr<const std::string> body = {};  // comes after `bytes`; null: none
    End end = End::kNotYet;
    bool close_after = false;
  };
  // A task to run when nothing was written for this long.
  struct Silence {
    std::int64_t ms = 0;
    std::function<void()> task;
  };

  // `wake` is called from any thread when there are bytes to take, once until they are taken. `all` counts the bytes of
  // this reply as well, and outlives it.
  Outbox(std::size_t unsent_bytes_max, UnreadReplies& all, std::function<void()> wake)
      : unsent_bytes_max_(unsent_bytes_max), all_(all), wake_(std::move(wake)) {}
  ~Outbox() { leave(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // For makers. Returns false if the client is gone. One piece always fits: a whole reply has no other bound.
  bool append(std::string&& bytes);
  // For the last piece of a reply, which others may share, so that it counts as no byte of this one. Only end() may
  // follow.
  bool append_body(std::shared_ptr<const std::string> body);
  void end(End how, bool close_after);
  void set_silence(Silence silence);
  // The maker keeps so many more bytes for this reply, which count until the client is gone or the reply is. More than
  // one reply may have unsent drop the client.
  void note_kept(std::size_t bytes);
  // The writer runs `task` once when it has sent all that was appended. It is dropped if the client leaves.
  void when_sent(std::function<void()> task);
  bool gone() const { return gone_.load(std::memory_order_acquire); }
  // Returns true if some of the reply was appended.
  bool started() const { return started_.load(std::memory_order_acquire); }

  // For the writer.
  Taken take();
  void sent(std::size_t bytes);
  void leave();  // the client is gone: drops what it has not taken
  // With those that the maker keeps.
  std::size_t unsent_bytes();
  // Returns the task to run if all that was appended is sent; null if there is none, or not yet.
  std::function<void()> take_when_sent();
  // Returns the silence that was set last, once; its `task` is empty if there is no new one.
  Silence take_silence();

 private:
  void wake_once();
  bool has_room(std::size_t bytes) REQUIRES(mutex_);
  void drop() REQUIRES(mutex_);

  const std::size_t unsent_bytes_max_;
  UnreadReplies& all_;
  const std::function<void()> wake_;
  std::atomic<bool> gone_{false};
  std::atomic<bool> started_{false};
  Mutex mutex_;
  std::string bytes_ GUARDED_BY(mutex_);
  std::shared_ptr<const std::string> body_ GUARDED_BY(mutex_);
  std::size_t unsent_bytes_ GUARDED_BY(mutex_) = 0;  // queued here, or taken but not sent
  End end_ GUARDED_BY(mutex_) = End::kNotYet;
  bool close_after_ GUARDED_BY(mutex_) = false;
  bool awake_ GUARDED_BY(mutex_) = false;
  Silence silence_ GUARDED_BY(mutex_);
  std::size_t kept_bytes_ GUARDED_BY(mutex_) = 0;
  std::function<void()> when_sent_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
