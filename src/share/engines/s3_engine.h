#pragma once

// Objects in an S3 service: each is one object, head and payload together, so that a write is whole or not there.
//
// S3 evicts nothing and has no time to live for single objects: a lifecycle rule of the bucket must remove what is
// older than --share-ttl-hours. touch() copies objects that are older than half of that onto themselves, which makes
// them new.

#include <span>
#include <string>
#include <vector>

#include "os/clock.h"
#include "share/engines/s3_client.h"
#include "share/object_engine.h"
#include "share/recent_names.h"

namespace kvkeep::share {

// Thread safe.
class S3Engine final : public ObjectEngine {
 public:
  // `text` is the URL for people, `prefix` comes before all keys, without slashes at its ends.
  S3Engine(std::string text, std::string prefix, S3Access access, os::Clock& clock);

  std::string address() const override { return text_; }
  Pace pace() const override {
    return {.least_deadline_ms = 50, .most_deadline_ms = 300, .heads_at_once = kMostS3Connections, .reads_at_once = 4};
  }
  NodeId node_of(const ObjectName&) const override { return NodeId{0}; }
  std::size_t nodes() const override { return 1; }
  std::string node_address(NodeId) const override { return text_; }

  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                               std::int64_t deadline_ns) override;
  Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits& limits) override;
  Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
             const TransferLimits& limits) override;
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                        std::int64_t deadline_ns) override;
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override;
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override;
  Status probe(NodeId node, std::int64_t deadline_ns) override;
  Result<EngineFacts> facts(std::int64_t deadline_ns) override;

 private:
  std::string key(const std::string& rest) const { return prefix_.empty() ? "kv1/" + rest : prefix_ + "/kv1/" + rest; }
  std::string key_of(const ObjectName& name) const { return key(name.text()); }
  Status renew(const std::vector<Touched>& objects, std::int64_t ttl_s, std::int64_t deadline_ns);
  Status copy(std::span<const Touched> objects);

  const std::string text_;
  const std::string prefix_;
  S3Client client_;
  os::Clock& clock_;
  RecentNames<bool> young_;  // looked at or copied in the last hour, or not to be copied for some minutes
};

}  // namespace kvkeep::share
