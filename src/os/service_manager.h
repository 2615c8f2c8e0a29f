#pragma once

// The protocol between a service and systemd, or another manager that speaks it: sockets that the manager opened, and
// reports of the service's state. Nothing happens in a process that no manager started.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::os {

// A listening socket that the manager opened (systemd.socket). Its new owner closes the descriptor.
struct PassedSocket {
  int descriptor = -1;
  std::string host = {};  // numeric address; empty for a Unix socket
  int port = 0;
  std::string path = {};  // of a Unix socket; "@name" in Linux's abstract name space
};

// Returns the sockets that LISTEN_FDS and LISTEN_PID announce to this process. Removes these variables and marks the
// sockets, so that child processes take neither. Call it once, before other threads run. kInvalid if one of the sockets
// does not listen for streams.
Result<std::vector<PassedSocket>> take_passed_sockets();

enum class ServiceState { kReady, kReloading, kStopping };

// Reports a state, and a line about it that `systemctl status` shows, to the manager's socket ($NOTIFY_SOCKET). A
// report that cannot be delivered is dropped: the service works without its manager.
void notify_manager(ServiceState state, std::string_view status);

}  // namespace kvkeep::os
