#include "inspect/guest.h"

#include "store/layout.h"

namespace kvkeep::inspect {

Guest::Guest(const std::string& root, os::FileSystem& files, os::Clock& clock)
    : servers_(root + "/" + std::string(store::kServersName), files, clock) {}

// Publishes a total of 0: when the guest is gone, servers count the files that they find.
Status Guest::reserve(ByteCount bytes, const std::function<bool()>& wait) {
  TRY(servers_.publish(0, bytes.value()));
  do {
    TRY_ASSIGN(const store::ListedServers listed, servers_.list());
    const auto own = listed.find(servers_.id());
    if (own != listed.end() && own->second.granted >= bytes.value()) return {};
  } while (wait());
  return no_space("the server that keeps the budget of this directory made no room for " +
                  std::to_string((bytes.value() + 0xFFFFF) >> 20) + " MiB; try again, or stop the servers first");
}

}  // namespace kvkeep::inspect
