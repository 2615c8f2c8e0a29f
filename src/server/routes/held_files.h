#pragma once

// The bytes of the pictures and sounds of all requests, from when their prompts are read until nobody needs them any
// more: their rows are known or computed, or their requests have ended.
//
// A body's room is given back when it was parsed, but a request that waits holds its files; a short body may name a
// thousand of them by URL. So all files together have a bound. Requests with the same file share one copy. Thread safe.

#include <cstddef>
#include <memory>
#include <string>

#include "base/media_ids.h"
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
  // of the pointer is gone, also if that outlives this. kBusy if there is no room now.
  Result<Bytes> hold(const MediaHash& hash, Bytes bytes);
  // Most bytes that the files of one request may have: with more it could never be served.
  ByteCount most_of_request() const;

 private:
  struct Room;
  struct Held;

  const std::shared_ptr<Room> room_;
};

}  // namespace kvkeep::server
