#pragma once

// Sockets being served, so that they can be shut down when the drain deadline has passed. Thread safe.

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>

#include "base/mutex.h"
#include "os/clock.h"

namespace kvkeep::server {

class OpenSockets {
 public:
  void add(int socket) {
    MutexLock lock(mutex_);
    sockets_.insert(socket);
  }
  // Closes the socket under the lock: its number must not be another connection's when shut_down_all() sees it.
  void close(int socket) {
    MutexLock lock(mutex_);
    sockets_.erase(socket);
    ::close(socket);
    if (sockets_.empty()) empty_.notify_all();
  }
  std::size_t count() {
    MutexLock lock(mutex_);
    return sockets_.size();
  }
  // False: still open connections after `timeout_ms`.
  bool wait_until_empty(std::int64_t timeout_ms) {
    const std::int64_t deadline = os::real_clock().monotonic_ns() + timeout_ms * 1'000'000;
    MutexLock lock(mutex_);
    while (!sockets_.empty()) {
      const std::int64_t left = deadline - os::real_clock().monotonic_ns();
      if (left <= 0) return false;
      empty_.wait_for(mutex_, std::chrono::nanoseconds(left));
    }
    return true;
  }
  void shut_down_all() {
    MutexLock lock(mutex_);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
  }

 private:
  Mutex mutex_;
  CondVar empty_;
  std::set<int> sockets_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
