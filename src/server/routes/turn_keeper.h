#pragma once

// The sampled turns of one model (chat/replay), shared by all requests and kept beside the cache across restarts.
//
// A turn is written behind the request's back; what waits is bounded, and a disk that fails costs no more than what a
// restart will not know. Thread safe.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "chat/replay/turn_memory.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "store/record_log.h"

namespace kvkeep::server {

struct TurnKeeperOptions {
  ByteCount memory;       // of turns in memory; a file is written anew when it is twice as large
  std::string path = {};  // of the file; "" keeps none
  // False: another server writes the file at this time. Null: nobody else does. Outlives the keeper.
  std::function<bool()> may_write = {};
};

class TurnKeeper {
 public:
  // Reads the file: what is damaged or missing is forgotten. `files` and `executor` must outlive it; none is needed
  // without a path.
  TurnKeeper(TurnKeeperOptions options, os::FileSystem& files, os::Executor& executor);
  // Waits for what is to be written.
  ~TurnKeeper();
  TurnKeeper(const TurnKeeper&) = delete;
  TurnKeeper& operator=(const TurnKeeper&) = delete;

  std::vector<chat::TurnMemory::Turn> find(const PrefixHash& before);
  void remember(const PrefixHash& before, chat::SampledTurn turn);
  // Turns known, and bytes that they take.
  std::size_t size() const;
  ByteCount bytes() const;
  // Turns that could not be written, for want of a working disk or because too many waited.
  std::uint64_t unwritten() const;

 private:
  void load();
  void write(const std::vector<std::byte>& record);
  void rewrite();
  bool may_write() const { return !options_.may_write || options_.may_write(); }
  void note_unwritten(const Error& error);

  const TurnKeeperOptions options_;
  os::FileSystem& files_;
  os::Executor& executor_;
  std::optional<store::RecordLog> log_;  // executor only; none: to be written anew
  std::size_t until_next_try_ = 0;       // executor only; turns, after an error
  bool waits_for_file_ = false;          // executor only; another server wrote it

  mutable Mutex mutex_;
  chat::TurnMemory memory_ GUARDED_BY(mutex_);
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  std::uint64_t unwritten_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::server
