#include "server/http/outbox.h"

#include <algorithm>
#include <utility>

namespace kvkeep::server {

// Counts the bytes; without room the client is dropped.
bool Outbox::has_room(std::size_t bytes) {
  if (gone()) return false;
  if (unsent_bytes_ >= unsent_bytes_max_) {
    all_.note_end(UnreadCause::kBytes);
    drop();
    return false;
  }
  unsent_bytes_ += bytes;
  all_.add(bytes);
  return true;
}

// Its maker may hold this object for as long as it computes.
void Outbox::drop() {
  gone_.store(true, std::memory_order_release);
  std::string().swap(bytes_);
  body_.reset();
  all_.remove(std::exchange(unsent_bytes_, 0) + std::exchange(kept_bytes_, 0));
}

// The task may own the maker, whose end calls this object.
void Outbox::leave() {
  std::function<void()> dropped;
  const MutexLock lock(mutex_);
  drop();
  dropped = std::exchange(when_sent_, nullptr);
}

std::size_t Outbox::unsent_bytes() {
  const MutexLock lock(mutex_);
  return unsent_bytes_ + kept_bytes_;
}

void Outbox::note_kept(std::size_t bytes) {
  {
    const MutexLock lock(mutex_);
    if (gone()) return;
    kept_bytes_ += bytes;
    all_.add(bytes);
    if (kept_bytes_ > unsent_bytes_max_) {
      all_.note_end(UnreadCause::kBytes);
      drop();
    }
  }
  wake_once();
}

void Outbox::when_sent(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    if (gone()) return;
    when_sent_ = std::move(task);
  }
  wake_once();
}

std::function<void()> Outbox::take_when_sent() {
  const MutexLock lock(mutex_);
  return unsent_bytes_ == 0 ? std::exchange(when_sent_, nullptr) : nullptr;
}

bool Outbox::append(std::string&& bytes) {
  if (gone()) return false;
  {
    const MutexLock lock(mutex_);
    if (has_room(bytes.size())) {
      if (bytes_.empty()) {
        bytes_ = std::move(bytes);
      } else {
        bytes_ += bytes;
      }
    }
  }
  started_.store(true, std::memory_order_release);
  wake_once();
  return !gone();
}

bool Outbox::append_body(std::shared_ptr<const std::string> body) {
  if (gone()) return false;
  {
    const MutexLock lock(mutex_);
    if (!gone()) body_ = std::move(body);
  }
  wake_once();
  return !gone();
}

void Outbox::end(End how, bool close_after) {
  {
    const MutexLock lock(mutex_);
    end_ = how;
    close_after_ = close_after;
  }
  wake_once();
}

void Outbox::set_silence(Silence silence) {
  {
    const MutexLock lock(mutex_);
    silence_ = std::move(silence);
  }
  wake_once();
}

// Called outside the lock, since the writer may take at once.
void Outbox::wake_once() {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(awake_, true)) return;
  }
  wake_();
}

Outbox::Taken Outbox::take() {
  const MutexLock lock(mutex_);
  awake_ = false;
  return {std::exchange(bytes_, {}), std::exchange(body_, {}), end_, close_after_};
}

void Outbox::sent(std::size_t bytes) {
  const MutexLock lock(mutex_);
  const std::size_t counted = std::min(bytes, unsent_bytes_);  // `bytes` may include the writer's own
  unsent_bytes_ -= counted;
  all_.remove(counted);
}

Outbox::Silence Outbox::take_silence() {
  const MutexLock lock(mutex_);
  return std::exchange(silence_, {});
}

}  // namespace kvkeep::server
