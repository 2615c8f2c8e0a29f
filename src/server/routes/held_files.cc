#include "server/routes/held_files.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/http/budget.h"

namespace kvkeep::server {

namespace {
constexpr std::size_t kSmallFileBytes = 1 << 20;
}  // namespace

// Pointers to the bytes of a file own it, and through it the file.
struct HeldFiles::Use {
  std::shared_ptr<Held> file;
};

class HeldFiles::Room {
 public:
  explicit Room(std::size_t most) : budget_(most, kSmallFileBytes) {}

  Budget& budget() { return budget_; }
  // Returns null if there is no room.
  Bytes hold(const std::shared_ptr<Held>& made, Bytes bytes) EXCLUDES(mutex_);
  std::shared_ptr<Held> find(const MediaHash& hash) EXCLUDES(mutex_);
  Bytes use_spare(const std::shared_ptr<Held>& file) EXCLUDES(mutex_);
  void forget(const MediaHash& hash) EXCLUDES(mutex_);

 private:
  static Bytes use(const std::shared_ptr<Held>& file);
  bool find_room(Held& file, std::size_t bytes, std::vector<std::shared_ptr<Held>>& looked_at) REQUIRES(mutex_);

  Budget budget_;
  Mutex mutex_;
  std::map<MediaHash, std::weak_ptr<Held>> files_ GUARDED_BY(mutex_);  // their members, too, but for their names
};

// One file. It is spare if nobody uses it, and has no bytes if it gave up its room since.
struct HeldFiles::Held {
  Held(std::shared_ptr<Room> in, const MediaHash& name) : room(std::move(in)), hash(name), share(room->budget()) {}
  ~Held() { room->forget(hash); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::shared_ptr<Room> room;
  const MediaHash hash;
  Bytes bytes;
  Budget::Share share;
  std::weak_ptr<Use> use;
};

HeldFiles::Bytes HeldFiles::Room::use(const std::shared_ptr<Held>& file) {
  std::shared_ptr<Use> use = file->use.lock();
  if (use == nullptr) {
    use = std::make_shared<Use>(file);
    file->use = use;
  }
  return {use, file->bytes.get()};
}

HeldFiles::Bytes HeldFiles::Room::hold(const std::shared_ptr<Held>& made, Bytes bytes) {
  // These may be the last to own a file, whose end takes the lock.
  std::vector<std::shared_ptr<Held>> looked_at;
  std::shared_ptr<Held> file = made;
  const MutexLock lock(mutex_);
  std::weak_ptr<Held>& entry = files_[made->hash];
  if (std::shared_ptr<Held> known = entry.lock()) file = std::move(known);
  if (file->bytes == nullptr) {
    if (!find_room(*file, bytes->size(), looked_at)) return nullptr;
    file->bytes = std::move(bytes);
  }
  entry = file;
  return use(file);
}

bool HeldFiles::Room::find_room(Held& file, std::size_t bytes, std::vector<std::shared_ptr<Held>>& looked_at) {
  if (file.share.take(bytes)) return true;
  for (const auto& [hash, each] : files_) {
    const std::shared_ptr<Held>& other = looked_at.emplace_back(each.lock());
    if (other == nullptr || !other->use.expired()) continue;
    other->bytes = nullptr;
    other->share.give_back();
    if (file.share.take(bytes)) return true;
  }
  return false;
}

std::shared_ptr<HeldFiles::Held> HeldFiles::Room::find(const MediaHash& hash) {
  const MutexLock lock(mutex_);
  const auto entry = files_.find(hash);
  return entry == files_.end() ? nullptr : entry->second.lock();
}

HeldFiles::Bytes HeldFiles::Room::use_spare(const std::shared_ptr<Held>& file) {
  const MutexLock lock(mutex_);
  return file->bytes == nullptr ? nullptr : use(file);
}

// Another request may have come with the same file since the last pointer to this one was gone.
void HeldFiles::Room::forget(const MediaHash& hash) {
  const MutexLock lock(mutex_);
  const auto entry = files_.find(hash);
  if (entry != files_.end() && entry->second.expired()) files_.erase(entry);
}

HeldFiles::HeldFiles(ByteCount most) : room_(std::make_shared<Room>(most.value())) {}

ByteCount HeldFiles::most_of_request() const {
  const std::size_t most = room_->budget().most();
  return ByteCount{most - most / 16};
}

Result<HeldFiles::Bytes> HeldFiles::hold(const MediaHash& hash, Bytes bytes) {
  const std::size_t size = bytes->size();
  if (Bytes held = room_->hold(std::make_shared<Held>(room_, hash), std::move(bytes))) return held;
  return busy(
      fmt::format("the files of all requests together may have {} MiB, and there is no room for its {} KiB: "
                  "try again later",
                  room_->budget().most() >> 20, size >> 10));
}

std::function<HeldFiles::Bytes()> HeldFiles::keep_spare(const MediaHash& hash) {
  std::shared_ptr<Held> file = room_->find(hash);
  if (file == nullptr) return {};
  return [room = room_, file = std::move(file)] { return room->use_spare(file); };
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
