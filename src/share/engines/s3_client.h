#pragma once

// Signed requests to an S3 service. The only user of libcurl, which signs them (AWS Signature Version 4).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/types.h"
#include "os/clock.h"
#include "share/object_engine.h"

namespace kvkeep::share {

// Returns false if this build has no libcurl.
bool has_s3();

struct S3Access {
  std::string endpoint;  // "https://host:port"
  std::string bucket;
  std::string region;
  std::string access_key;  // empty: requests are not signed
  std::string secret_key;
  std::string session_token = {};
  std::string ca_file = {};  // empty: the system's
};

struct S3Request {
  enum class Method { kGet, kHead, kPut, kDelete };
  Method method = Method::kGet;
  std::string key = {};  // of [0-9a-z/._-]: others are signed wrongly by some versions
  // kGet without a key: of the whole bucket, "name=value&..." in the order and form in which it is signed. All of the
  // answer goes to `out`.
  std::string query = {};
  // kGet: bytes [first, first + out.size()) go to `out`; `arrived` is called as they come.
  std::uint64_t first = 0;
  MutableByteSpan out = {};
  std::function<void(std::size_t)> arrived = {};
  std::vector<ByteSpan> body = {};        // kPut: one after the other
  std::vector<std::string> headers = {};  // "x-amz-...: value", signed
};

struct S3Response {
  Status status = {};        // as object_engine.h has it
  std::size_t received = 0;  // into `out`
  std::int64_t modified_s = -1;
};

// Returns the error that an HTTP status means; ok for 200 and 206.
Status s3_status(long http_status);

// One call has at most so many connections; further requests wait for one of them.
inline constexpr std::size_t kMostS3Connections = 32;

// Thread safe. Requests are sent over connections that stay open.
class S3Client {
 public:
  S3Client(S3Access access, os::Clock& clock);
  ~S3Client();

  // Sends all of them at once and waits for the answers. Of several, those that take much longer than most are sent
  // once more, over other connections: all must be such that this does no harm.
  std::vector<S3Response> perform(const std::vector<S3Request>& requests, const TransferLimits& limits);
  S3Response perform(const S3Request& request, const TransferLimits& limits) {
    return perform(std::vector{request}, limits)[0];
  }
  const S3Access& access() const { return access_; }

 private:
  class Pool;
  const S3Access access_;
  os::Clock& clock_;
  std::unique_ptr<Pool> pool_;
};

}  // namespace kvkeep::share
