#include "server/routes/held_files.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "server/http/budget.h"

namespace kvkeep::server {

namespace {
constexpr std::size_t kSmallFileBytes = 1 << 20;
}  // namespace

struct HeldFiles::Room {
  explicit Room(std::size_t most) : budget(most, kSmallFileBytes) {}

  Budget budget;
  Mutex mutex;
  std::map<MediaHash, std::weak_ptr<const std::string>> files GUARDED_BY(mutex);
};

// One file. Pointers to its bytes own it.
struct HeldFiles::Held {
  Held(std::shared_ptr<Room> in, const MediaHash& name, Bytes file)
      : room(std::move(in)), hash(name), bytes(std::move(file)), share(room->budget) {}
  ~Held() {
    const MutexLock lock(room->mutex);
    const auto entry = room->files.find(hash);
    // Another request may have come with the same file since the last pointer to this one was gone.
    if (entry != room->files.end() && entry->second.expired()) room->files.erase(entry);
    share.give_back();
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::shared_ptr<Room> room;
  const MediaHash hash;
  const Bytes bytes;
  Budget::Share share;
};

HeldFiles::HeldFiles(ByteCount most) : room_(std::make_shared<Room>(most.value())) {}

ByteCount HeldFiles::most_of_request() const { return ByteCount{room_->budget.most() - room_->budget.most() / 16}; }

Result<HeldFiles::Bytes> HeldFiles::hold(const MediaHash& hash, Bytes bytes) {
  // Goes, if it is of no use, after the lock, which it takes itself.
  const auto held = std::make_shared<Held>(room_, hash, std::move(bytes));
  const MutexLock lock(room_->mutex);
  std::weak_ptr<const std::string>& entry = room_->files[hash];
  if (Bytes known = entry.lock()) return known;
  if (!held->share.take(held->bytes->size())) {
    return busy(
        fmt::format("the files of all requests together may have {} MiB, and there is no room for its {} KiB: "
                    "try again later",
                    room_->budget.most() >> 20, held->bytes->size() >> 10));
  }
  Bytes kept(held, held->bytes.get());
  entry = kept;
  return kept;
}

Status SoundRoom::enter(double seconds, const std::function<bool()>& gone) {
  constexpr std::chrono::milliseconds kAskAgain{50};
  const MutexLock lock(mutex_);
  while (counted_ > 0 && counted_ + seconds > most_) {
    if (gone()) return aborted("the client left");
    changed_.wait_for(mutex_, kAskAgain);
  }
  counted_ += seconds;
  return {};
}

void SoundRoom::leave(double seconds) {
  const MutexLock lock(mutex_);
  counted_ -= seconds;
  changed_.notify_all();
}

}  // namespace kvkeep::server
