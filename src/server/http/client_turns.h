#pragma once

// Work of many clients on a few threads, one task of each client at a time: a client whose tasks wait for something has
// one thread, however many tasks it sends, and the others are served in between.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "os/threads.h"

namespace kvkeep::server {

// Thread safe.
class ClientTurns {
 public:
  // `pool` must outlive every post() and task; it runs what was posted before it ends.
  explicit ClientTurns(os::ThreadPool& pool) : pool_(pool) {}

  void post(std::uint64_t client, std::function<void()> task) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::deque<std::function<void()>>& waiting = clients_[client];
    waiting.push_back(std::move(task));
    if (waiting.size() == 1) pool_.post([this, client] { run_first(client); });
  }

 private:
  // A client's task stays at the front while it runs, so that no other one of it begins.
  void run_first(std::uint64_t client) EXCLUDES(mutex_) {
    std::function<void()> task;
    {
      const MutexLock lock(mutex_);
      task = std::move(clients_[client].front());
    }
    task();
    task = nullptr;
    const MutexLock lock(mutex_);
    const auto found = clients_.find(client);
    found->second.pop_front();
    if (found->second.empty()) {
      clients_.erase(found);
    } else {
      pool_.post([this, client] { run_first(client); });  // after those of other clients
    }
  }

  os::ThreadPool& pool_;
  Mutex mutex_;
  std::map<std::uint64_t, std::deque<std::function<void()>>> clients_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
