#pragma once

// A process that is no server and writes into a directory that servers use. It takes part as a server does
// (store/servers.h) for as long as it lives: meanwhile servers leave its temporary files alone and keep the room that
// it reserved; when it is gone, they look at its files, count and serve them.

#include <functional>
#include <string>

#include "store/servers.h"

namespace kvkeep::inspect {

// Not thread safe.
class Guest {
 public:
  // `root`: of the cache, which exists.
  Guest(const std::string& root, os::FileSystem& files, os::Clock& clock);

  // kBusy: try again.
  Status join() { return servers_.join(); }
  // After join(): its temporary files are named after it.
  std::string own_mark() const { return servers_.id() + "-guest"; }

  // Asks the keeper for so many physical bytes, once. `wait` pauses for a moment and returns false after long enough.
  // kNoSpace: the keeper granted less.
  Status reserve(ByteCount bytes, const std::function<bool()>& wait);

 private:
  store::Servers servers_;
};

}  // namespace kvkeep::inspect
