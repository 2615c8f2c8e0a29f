#pragma once

// Whole objects of one namespace, for a command that waits for them: no queue, no breaker and no look-up by a prompt,
// but lists, and calls that are tried again while the engine is in trouble. A server uses SharedStore instead.
//
// Nothing that an engine answers is believed: the vault's codes decide.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/clock.h"
#include "share/object_engine.h"
#include "share/share_types.h"
#include "share/vault.h"

namespace kvkeep::share {

// An engine, and how a command waits for it.
struct EngineAccess {
  ObjectEngine& engine;
  os::Clock& clock;
  // Called before a call that failed so is tried again, the first time with 1: it waits. Returns false if that was
  // often enough.
  std::function<bool(int, const Error&)> wait;
};

// Waits for an engine in trouble as long as a failover takes, and says so. Once that was in vain nothing is waited for
// any more: a command ends with several calls, each of which would wait as long. Not thread safe.
class Patience {
 public:
  static constexpr std::int64_t kLongestNs = 15'000'000'000;  // for one call, but for the tries themselves
  // `pause` waits for so many milliseconds. `tell` is called when waiting begins.
  Patience(os::Clock& clock, std::function<void(std::int64_t)> pause, std::function<void(const Error&)> tell)
      : clock_(clock), pause_(std::move(pause)), tell_(std::move(tell)) {}
  // As EngineAccess::wait.
  bool wait(int tries, const Error& trouble);

 private:
  os::Clock& clock_;
  const std::function<void(std::int64_t)> pause_;
  const std::function<void(const Error&)> tell_;
  std::int64_t began_ns_ = 0;  // the call that is tried
  bool was_in_vain_ = false;
};

// So many names are listed at most.
inline constexpr std::size_t kMostListedObjects = 4'000'000;

// Returns the names in a namespace, or in all if it is empty: ascending, each once. Fails as ObjectEngine::list() does,
// and with kNoSpace if there are more than kMostListedObjects.
Result<std::vector<ObjectName>> list_names(const EngineAccess& access, const std::string& space);

// Not thread safe. All calls wait for the engine; the errors are those of object_engine.h, after the last try, and name
// the engine if it is in trouble.
class Warehouse {
 public:
  Warehouse(EngineAccess access, Vault::Identity identity, std::int64_t ttl_s);

  const Vault& vault() const { return vault_; }
  ObjectName name_of(const format::SegmentName& name) const {
    return vault_.name_of(format::short_hash(name.end_hash), name.kind);
  }

  // Reports how many names of a call were asked for so far.
  using Asked = std::function<void(std::size_t)>;

  // Returns which of these objects are there and authentic.
  Result<std::vector<bool>> has(const std::vector<ObjectName>& names, const Asked& asked = {});
  // Returns the heads of these objects; kNotFound: it was evicted meanwhile; kDamaged: it is not authentic.
  std::vector<Result<format::SharedHead>> heads(const std::vector<ObjectName>& names, const Asked& asked = {});
  // Returns the payload of a head that heads() returned, verified.
  Result<std::shared_ptr<const store::Payload>> payload(const format::SharedHead& head);
  Status put(const Publication& publication);

  // Records, as SharedStore has them. kDamaged: it is not authentic.
  std::vector<Result<std::vector<std::byte>>> records(const std::vector<ObjectName>& names);
  Status put_record(const PrefixHash& key, ByteSpan contents);

 private:
  std::int64_t deadline_ns(std::uint64_t bytes) const;
  std::vector<HeadBytes> ask(const std::vector<ObjectName>& names, std::size_t first_bytes, const Asked& asked);
  Status write(const ObjectName& name, ByteSpan head, ByteSpan payload);

  const EngineAccess access_;
  const Vault vault_;
  const std::int64_t ttl_s_;
};

}  // namespace kvkeep::share
