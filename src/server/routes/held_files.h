#pragma once

// The bytes of the pictures and sounds of all requests, from when their prompts are read until their requests end.
//
// A body's room is given back when it was parsed, but a request that waits holds its files; a short body may name a
// thousand of them by URL. So all files together have a bound. Requests with the same file share one copy.
//
// A file is in use until its rows are known or computed. After that it is spare: the request needs it again only if it
// has to leave the model's memory, and the cache has lost the rows. Spare files go when others need the room. Thread
// safe.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/media_ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::server {

// Room for the files of some hundred requests with screenshots; a server whose bodies may be larger has more.
inline constexpr ByteCount kHeldFilesBytes = mebibytes(512);

class HeldFiles {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  // `most`: bytes of all files. Files of more than 1 MiB leave a sixteenth to smaller ones.
  explicit HeldFiles(ByteCount most);

  // Returns the file's bytes, or those that another request holds already; room is taken for them until the last copy
  // of the pointer, and of those that keep_spare() returns, is gone, also if that outlives this. kBusy if there is no
  // room now.
  Result<Bytes> hold(const MediaHash& hash, Bytes bytes);
  // Keeps a file that is held, after its use is over, for as long as the returned function lives and there is room. It
  // returns the bytes, which are in use again, or null if others needed the room.
  std::function<Bytes()> keep_spare(const MediaHash& hash);
  // Most bytes that the files of one request may have: with more it could never be served.
  ByteCount most_of_request() const;

 private:
  class Room;
  struct Held;
  struct Use;

  const std::shared_ptr<Room> room_;
};

// Seconds of all sounds that are being counted: libmtmd decodes all of a sound to tell how many tokens it has. Thread
// safe.
class SoundRoom {
 public:
  // `most`: seconds at a time; a longer sound is counted alone. By default the longest sound that is read.
  explicit SoundRoom(double most = 1'800) : most_(most) {}

  // Returns what `count` does, once there is room for these seconds; kAborted if `gone` returned true before.
  template <typename T>
  Result<T> with(double seconds, const std::function<bool()>& gone, const std::function<Result<T>()>& count) {
    TRY(enter(seconds, gone));
    Result<T> counted = count();
    leave(seconds);
    return counted;
  }

 private:
  Status enter(double seconds, const std::function<bool()>& gone) EXCLUDES(mutex_);
  void leave(double seconds) EXCLUDES(mutex_);

  const double most_;
  Mutex mutex_;
  CondVar changed_;
  double counted_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::server
