#pragma once

// The sampled turns of one model (chat/replay), shared by all requests and kept next to the cache across restarts.
//
// A turn is written after its request was answered; the number of waiting turns is bounded, and a disk that fails costs
// only turns that a restart will not know. With a shared tier turns are published as well, and turns that other servers
// sampled are learnt from it. Thread safe.

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "chat/replay/turn_memory.h"
#include "format/notes.h"
#include "os/clock.h"
#include "os/executor.h"
#include "os/file_system.h"
#include "share/shared_store.h"
#include "store/small_files.h"

namespace kvkeep::server {

struct TurnKeeperOptions {
  ByteCount memory;  // of turns in memory; the file is rewritten when it is twice as large
  // Turns with other ids are not taken from the file or from other servers: no text belongs to them.
  std::size_t vocabulary_size;
  std::string path = {};  // of the file; "": turns are not written
  // Returns false while another server writes the file. Null: no other server does. Must outlive the keeper.
  std::function<bool()> may_write = {};
  // Null: there is no shared tier. Must outlive the keeper, as `clock`, which is needed with it.
  share::SharedStore* shared = nullptr;
  os::Clock* clock = nullptr;
};

class TurnKeeper {
 public:
  // Reads the file; damaged or missing turns are forgotten. `files` and `executor` must outlive the keeper; neither is
  // used without a path.
  TurnKeeper(TurnKeeperOptions options, os::FileSystem& files, os::Executor& executor);
  // Waits until all turns are written.
  ~TurnKeeper();
  TurnKeeper(const TurnKeeper&) = delete;
  TurnKeeper& operator=(const TurnKeeper&) = delete;

  std::vector<chat::TurnMemory::Turn> find(const PrefixHash& before);
  void remember(const PrefixHash& before, chat::SampledTurn turn);
  bool shares() const { return options_.shared != nullptr; }
  // Asks the shared tier for turns at these places at which none is known. Waits for the answer, some milliseconds. A
  // place where the tier has none is not asked about for some seconds, and longer each time, up to a minute: another
  // server may publish its turn a moment later, and places of a conversation that nobody shares are many. Returns true
  // if any turn was learnt. A use of the turns that are known is reported to the tier. Not on the engine thread.
  bool learn(const std::vector<PrefixHash>& places);
  // Known turns, and the bytes that they take.
  std::size_t size() const;
  ByteCount bytes() const;
  // Returns how many turns could not be written, because the disk failed or too many waited.
  std::uint64_t unwritten() const;

 private:
  Result<format::SampledTurnRecord> read(ByteSpan record) const;
  void offer(const PrefixHash& before, const chat::SampledTurn& turn);
  void keep(const PrefixHash& before, chat::SampledTurn turn);
  // Returns places about which the tier is to be asked; those of known turns are added to `known`.
  std::vector<PrefixHash> unknown_places(const std::vector<PrefixHash>& places, std::vector<PrefixHash>& known);
  void note_absent(const std::vector<PrefixHash>& places);
  void load();
  void write(const std::vector<std::byte>& record);
  void rewrite();
  bool may_write() const { return !options_.may_write || options_.may_write(); }
  void note_unwritten(const Error& error);

  const TurnKeeperOptions options_;
  os::FileSystem& files_;
  os::Executor& executor_;
  std::optional<store::RecordLog> log_;  // executor only; none: the file is to be rewritten
  std::size_t until_next_try_ = 0;       // executor only; turns to wait after an error
  bool waits_for_file_ = false;          // executor only; another server wrote it

  mutable Mutex mutex_;
  chat::TurnMemory memory_ GUARDED_BY(mutex_);
  std::size_t waiting_ GUARDED_BY(mutex_) = 0;
  struct Absent {
    std::int64_t until_ns = 0;
    std::int64_t for_ns = 0;
  };
  std::unordered_map<PrefixHash, Absent> absent_ GUARDED_BY(mutex_);  // in the shared tier, when it was asked
  std::uint64_t unwritten_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::server
