#include "os/unix_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>

#include "os/paths.h"

namespace kvkeep::os {
namespace {

class UnixListenerTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "a.sock") const { return directory_.path() + "/" + name; }
  bool exists() const { return std::filesystem::exists(std::filesystem::symlink_status(path())); }
  bool can_connect() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    const Descriptor client(::socket(AF_UNIX, SOCK_STREAM, 0));
    return ::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  // A socket file at which nobody listens, as a killed server leaves it.
  void abandon() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    const Descriptor gone(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(gone.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  TemporaryDirectory directory_ = TemporaryDirectory::make("unix").value();
};

TEST_F(UnixListenerTest, OnlyItsUserMayConnectWhateverTheUmask) {
  const mode_t before = ::umask(0);
  const auto listener = UnixListener::listen(path(), 8);
  ::umask(before);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  struct stat info{};
  ASSERT_EQ(::stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_TRUE(can_connect());
}

TEST_F(UnixListenerTest, TheFileGoesWithTheListener) {
  { EXPECT_TRUE(UnixListener::listen(path(), 8).ok()); }
  EXPECT_FALSE(exists());
}

TEST_F(UnixListenerTest, AnAbandonedFileIsReplaced) {
  abandon();
  ASSERT_FALSE(can_connect());
  const auto listener = UnixListener::listen(path(), 8);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  EXPECT_TRUE(can_connect());
}

TEST_F(UnixListenerTest, AFileInUseIsBusyAndStays) {
  const auto first = UnixListener::listen(path(), 8);
  const auto second = UnixListener::listen(path(), 8);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(can_connect());
}

TEST_F(UnixListenerTest, AFileThatReplacedOursStays) {
  {
    const auto listener = UnixListener::listen(path(), 8);
    ASSERT_TRUE(listener.ok());
    // Another name first: a new file could get the number of a removed one.
    std::filesystem::rename(path(), path("old.sock"));
    abandon();
  }
  EXPECT_TRUE(exists());
}

TEST_F(UnixListenerTest, NothingElseIsReplaced) {
  std::ofstream(path()) << "precious";
  const auto listener = UnixListener::listen(path(), 8);
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.error().kind, ErrorKind::kInvalid);
  EXPECT_TRUE(exists());
  std::filesystem::remove(path());
  std::filesystem::create_symlink(path("target"), path());
  EXPECT_FALSE(UnixListener::listen(path(), 8).ok());
}

TEST_F(UnixListenerTest, NamesThatCannotBeAreInvalid) {
  for (const std::string& bad : {path("no/such.sock"), "/tmp/" + std::string(200, 'x') + ".sock", std::string()}) {
    const auto listener = UnixListener::listen(bad, 8);
    ASSERT_FALSE(listener.ok()) << bad;
    EXPECT_EQ(listener.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace kvkeep::os
