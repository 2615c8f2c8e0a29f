#include "server/http/outbox.h"

#include <algorithm>
#include <utility>

namespace kvkeep::server {

// Counts the bytes; without room the client is dropped.
bool Outbox::has_room(std::size_t bytes) {
  if (unsent_bytes_ >= unsent_bytes_max_) {
    leave();
    return false;
  }
  unsent_bytes_ += bytes;
  return true;
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
    if (has_room(body->size())) body_ = std::move(body);
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
  unsent_bytes_ -= std::min(bytes, unsent_bytes_);  // includes bytes of the writer's own
}

Outbox::Silence Outbox::take_silence() {
  const MutexLock lock(mutex_);
  return std::exchange(silence_, {});
}

}  // namespace kvkeep::server
