#pragma once

// One connection to a Valkey (or Redis) server, with deadlines. The only user of hiredis, and with it of TLS.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "os/clock.h"
#include "share/engines/engine_url.h"
#include "share/object_engine.h"

namespace kvkeep::share {

// Returns false if this build has no hiredis.
bool has_valkey();

// An answer of the server. Errors of single commands are answers, too.
struct ValkeyReply {
  enum class Kind { kNothing, kText, kNumber, kList, kError };
  Kind kind = Kind::kNothing;
  std::string text = {};  // bytes, a status, or an error's message
  std::int64_t number = 0;
  std::vector<ValkeyReply> list = {};
};

// Returns the error of this port (object_engine.h) that a server's message means.
Error valkey_error(std::string_view message);

// The CAs that connections of one engine trust, read with the first of them: the system's are hundreds. Thread safe.
class ValkeyTrust;
std::shared_ptr<ValkeyTrust> make_valkey_trust();

struct ValkeyAccess {
  std::shared_ptr<ValkeyTrust> trust = make_valkey_trust();
  bool tls = false;
  std::string ca_file = {};  // empty: the system's
  std::string user = {};
  std::string password = {};
  std::string password_from = {};  // as in EngineSecrets
};

// Not thread safe. After an error of kIo or kDamaged the connection is of no more use.
class ValkeyConnection {
 public:
  // `address` is numeric, so that nothing is resolved here; `host` is compared with the server's certificate.
  // Authenticates. Fails with kIo, kInvalid (refused), kUnsupported.
  static Result<std::unique_ptr<ValkeyConnection>> open(const std::string& address, const HostPort& host,
                                                        const ValkeyAccess& access, os::Clock& clock,
                                                        std::int64_t deadline_ns);
  ~ValkeyConnection();

  // Returns false if the server hung up since the last answer, or sent anything more.
  bool quiet() const;
  using Words = std::initializer_list<std::string_view>;
  // Queues a command; send() sends what is queued.
  void queue(const Words& words);
  Status send(const TransferLimits& limits);
  // Sends a command whose word at `place` is `bytes`, without a copy of all of them.
  Status send_large(const Words& before, ByteSpan bytes, const Words& after, const TransferLimits& limits);
  // Returns the next answer. Fails with kDamaged if it would be longer than `most_bytes`, or has more or deeper lists
  // than any command's. With `bytes`, a text that is the whole answer goes there, and not into the reply.
  Result<ValkeyReply> receive(std::size_t most_bytes, const TransferLimits& limits,
                              std::vector<std::byte>* bytes = nullptr);
  // Receives a text of exactly out.size() bytes. `arrived` is called with their number so far. kNotFound: it is absent
  // or has another size.
  using Arrived = std::function<void(std::size_t)>;
  Status receive_into(MutableByteSpan out, const Arrived& arrived, const TransferLimits& limits);

 private:
  struct Wire;
  ValkeyConnection(std::unique_ptr<Wire> wire, os::Clock& clock);
  Status authenticate(const ValkeyAccess& access, std::int64_t deadline_ns);
  bool wait(bool for_reading, const TransferLimits& limits);
  bool goes_on(std::size_t count, const TransferLimits& limits);
  Status read(MutableByteSpan out, const Arrived& arrived, const TransferLimits& limits);
  Status receive_reply(std::size_t most_bytes, const TransferLimits& limits);
  Result<bool> begins_text_of(std::size_t size, const TransferLimits& limits);

  std::unique_ptr<Wire> wire_;
  os::Clock& clock_;
};

}  // namespace kvkeep::share
