#include "os/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>

#include "os/descriptor.h"
#include "os/paths.h"

namespace kvkeep::os {
namespace {

// Stands for the manager: receives what notify_manager() sends.
class Manager {
 public:
  // `name`: a path, or "@name".
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name.front() == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() { ::unsetenv("NOTIFY_SOCKET"); }
  std::string next() const {
    std::array<char, 1000> buffer{};
    const ssize_t count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    return count < 0 ? "" : std::string(buffer.data(), static_cast<std::size_t>(count));
  }

 private:
  Descriptor socket_;
};

TEST(NotifyManager, SendsOneDatagramPerState) {
  const auto directory = TemporaryDirectory::make("notify").value();
  const Manager manager(directory.path() + "/notify");
  notify_manager(ServiceState::kReady, "serving tiny");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=serving tiny\n");
  notify_manager(ServiceState::kReloading, "logs");
  const std::string reloading = manager.next();
  EXPECT_TRUE(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=")) << reloading;
  EXPECT_TRUE(reloading.ends_with("\nSTATUS=logs\n")) << reloading;
  notify_manager(ServiceState::kStopping, "bye");
  EXPECT_EQ(manager.next(), "STOPPING=1\nSTATUS=bye\n");
}

TEST(NotifyManager, KnowsAbstractNames) {
  const Manager manager("@kvkeep-test-" + std::to_string(::getpid()));
  notify_manager(ServiceState::kReady, "x");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=x\n");
}

TEST(NotifyManager, IsSilentWithoutAManager) {
  ::unsetenv("NOTIFY_SOCKET");
  notify_manager(ServiceState::kReady, "x");
  for (const char* name : {"", "relative", "/no/such/socket", "vsock:2:1"}) {
    ::setenv("NOTIFY_SOCKET", name, 1);
    notify_manager(ServiceState::kReady, "x");
  }
  ::unsetenv("NOTIFY_SOCKET");
}

TEST(TakePassedSockets, AreForTheProcessThatIsNamedAndTakenOnce) {
  ::setenv("LISTEN_FDS", "1", 1);
  EXPECT_TRUE(take_passed_sockets()->empty()) << "no LISTEN_PID";
  ::setenv("LISTEN_FDS", "1", 1);
  ::setenv("LISTEN_PID", std::to_string(::getppid()).c_str(), 1);
  EXPECT_TRUE(take_passed_sockets()->empty()) << "of another process";
  EXPECT_EQ(std::getenv("LISTEN_FDS"), nullptr);
  EXPECT_EQ(std::getenv("LISTEN_PID"), nullptr);
}

TEST(TakePassedSockets, NoMoreThanAReasonableNumber) {
  ::setenv("LISTEN_FDS", "1000000", 1);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_FALSE(take_passed_sockets().ok());
}

}  // namespace
}  // namespace kvkeep::os
