#include "share/engines/s3_engine.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

namespace kvkeep::share {
namespace {

constexpr std::size_t kMostYoung = 65'536;
constexpr std::size_t kMostListBytes = 2 << 20;  // of an answer with a thousand keys
constexpr std::int64_t kLookEveryNs = 3600 * kSecondNs;
// Renewing: the service copies bytes, which may take long, while publications of this server wait. A copy may take as
// long as a publication at most, and none begins after some seconds of one call.
constexpr std::size_t kCopiesAtOnce = 4;
constexpr std::int64_t kCopyingNs = 5 * kSecondNs;
constexpr std::int64_t kLeastCopyNs = 2 * kSecondNs;
constexpr std::int64_t kLongestCopyNs = 30 * kSecondNs;
constexpr std::uint64_t kSlowestCopyBytesPerS = 4 << 20;
constexpr std::int64_t kCopyAgainNs = 300 * kSecondNs;  // after a failure

Error no_bucket() { return invalid("there is no such bucket"); }

}  // namespace

S3Engine::S3Engine(std::string text, std::string prefix, S3Access access, os::Clock& clock)
    : text_(std::move(text)),
      prefix_(std::move(prefix)),
      client_(std::move(access), clock),
      clock_(clock),
      young_(kMostYoung) {}

std::vector<HeadBytes> S3Engine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                       std::int64_t deadline_ns) {
  // Heads are mostly much shorter than they may be: bytes that do not come are not touched.
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(names.size() * first_bytes);
  const MutableByteSpan all(buffer.get(), names.size() * first_bytes);
  std::vector<S3Request> requests(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    requests[i].key = key_of(names[i]);
    requests[i].out = all.subspan(i * first_bytes, first_bytes);
  }
  const auto responses = client_.perform(requests, deadline_ns);
  std::vector<HeadBytes> heads;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto received = requests[i].out.first(responses[i].received);
    heads.push_back(responses[i].status.ok() ? HeadBytes(std::vector<std::byte>(received.begin(), received.end()))
                                             : responses[i].status.error());
  }
  return heads;
}

Status S3Engine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
                     const TransferLimits& limits) {
  if (out.empty()) return {};
  const S3Response response = client_.perform(
      S3Request{.key = key_of(name), .first = slice.head_bytes + slice.begin, .out = out, .arrived = arrived}, limits);
  TRY(response.status);
  if (response.received < out.size()) return not_found("the object is shorter than its payload");
  return {};
}

Status S3Engine::put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t,
                     const TransferLimits& limits) {
  const S3Request request{.method = S3Request::Method::kPut, .key = key_of(name), .body = {head, payload}};
  Status written = client_.perform(request, limits).status;
  // "No such bucket" is no miss.
  if (!written.ok() && written.error().kind == ErrorKind::kNotFound) return no_bucket();
  return written;
}

// Makes those new that are older than half their time, as many as there is time for: a use that comes later renews the
// others. Copies that fail say nothing of reads, so they are no trouble of the node's connection.
Status S3Engine::renew(const std::vector<Touched>& objects, std::int64_t ttl_s, std::int64_t deadline_ns) {
  std::vector<S3Request> looks;
  for (const Touched& object : objects) {
    looks.push_back({.method = S3Request::Method::kHead, .key = key_of(object.name)});
  }
  std::vector<Touched> old;
  const auto found = client_.perform(looks, deadline_ns);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Status& status = found[i].status;
    const bool is_gone = !status.ok() && status.error().kind == ErrorKind::kNotFound;
    if (!is_gone) TRY(status);
    const bool is_old = found[i].modified_s >= 0 && clock_.wall_ns() / kSecondNs - found[i].modified_s >= ttl_s / 2;
    if (!is_gone && is_old) {
      old.push_back(objects[i]);
    } else {
      young_.put(objects[i].name, true, clock_.monotonic_ns() + kLookEveryNs);
    }
  }
  Status renewed;
  const std::int64_t last_begin_ns = clock_.monotonic_ns() + kCopyingNs;
  for (auto left = std::span<const Touched>(old); !left.empty() && clock_.monotonic_ns() < last_begin_ns;) {
    const auto now = left.first(std::min(left.size(), kCopiesAtOnce));
    left = left.subspan(now.size());
    if (Status copied = copy(now); !copied.ok()) renewed = std::move(copied);
  }
  return renewed;
}

// Copies objects onto themselves, side by side. Those for which that failed are left alone for some time.
Status S3Engine::copy(std::span<const Touched> objects) {
  std::vector<S3Request> copies;
  std::uint64_t most_bytes = 0;
  for (const Touched& object : objects) {
    most_bytes = std::max(most_bytes, object.payload_bytes);
    copies.push_back({.method = S3Request::Method::kPut,
                      .key = key_of(object.name),
                      .headers = {"x-amz-copy-source: /" + client_.access().bucket + '/' + key_of(object.name),
                                  "x-amz-metadata-directive: REPLACE"}});
  }
  const auto copying_ns = static_cast<std::int64_t>(most_bytes / kSlowestCopyBytesPerS) * kSecondNs;
  const std::int64_t deadline_ns = clock_.monotonic_ns() + std::min(kLeastCopyNs + copying_ns, kLongestCopyNs);
  const auto responses = client_.perform(copies, deadline_ns);
  Status copied;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const Status& status = responses[i].status;
    const bool is_done = status.ok() || status.error().kind == ErrorKind::kNotFound;
    young_.put(objects[i].name, true, clock_.monotonic_ns() + (is_done ? kLookEveryNs : kCopyAgainNs));
    if (is_done || (!copied.ok() && copied.error().kind == ErrorKind::kUnsupported)) continue;
    // Keys that may not read at all are refused before, when the age of objects is asked for.
    const std::string& why = status.error().message;
    copied = status.error().kind == ErrorKind::kInvalid
                 ? unsupported(why)
                 : busy("objects in use are not renewed: copying one onto itself failed (" + why + ")");
  }
  return copied;
}

Result<std::vector<ObjectName>> S3Engine::touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                                std::int64_t deadline_ns) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  std::vector<Touched> unseen;
  for (const Touched& object : objects) {
    if (!young_.find(object.name, now_ns)) unseen.push_back(object);
  }
  TRY(renew(unseen, ttl_s, deadline_ns));
  return std::vector<ObjectName>{};  // each is one object of S3, which has no parts
}

Status S3Engine::remove(const ObjectName& name, std::int64_t deadline_ns) {
  Status removed =
      client_.perform(S3Request{.method = S3Request::Method::kDelete, .key = key_of(name)}, deadline_ns).status;
  if (!removed.ok() && removed.error().kind == ErrorKind::kNotFound) return {};
  return removed;
}

namespace {

// The texts between <tag> and </tag>. Keys of ours have no letter that XML would write otherwise.
std::vector<std::string_view> texts_of(std::string_view xml, std::string_view tag) {
  const std::string open = "<" + std::string(tag) + ">";
  const std::string close = "</" + std::string(tag) + ">";
  std::vector<std::string_view> texts;
  while (true) {
    const std::size_t begin = xml.find(open);
    if (begin == std::string_view::npos) return texts;
    xml.remove_prefix(begin + open.size());
    const std::size_t end = xml.find(close);
    if (end == std::string_view::npos) return texts;
    texts.push_back(xml.substr(0, end));
  }
}

// Returns the form of a key in a query, over which signatures are computed.
std::string escaped(std::string_view key) {
  std::string text;
  for (const char letter : key) text += letter == '/' ? std::string("%2F") : std::string(1, letter);
  return text;
}

}  // namespace

// A page begins after the last key of the one before. S3's own token for that may have any letters, which some versions
// of libcurl sign wrongly.
Result<NamesPage> S3Engine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  const std::string begin = key(space.empty() ? "" : space + '/');
  if (!from.empty() && !from.starts_with(begin)) return invalid("no page of this engine: " + from);
  std::vector<std::byte> buffer(kMostListBytes);
  S3Request request{.query = "list-type=2&max-keys=1000&prefix=" + escaped(begin), .out = buffer};
  if (!from.empty()) request.query += "&start-after=" + escaped(from);
  const S3Response response = client_.perform(request, deadline_ns);
  if (!response.status.ok() && response.status.error().kind == ErrorKind::kNotFound) {
    return no_bucket();
  }
  TRY(response.status);
  const std::string_view xml(reinterpret_cast<const char*>(buffer.data()), response.received);
  const auto truncated = texts_of(xml, "IsTruncated");
  if (!xml.contains("</ListBucketResult>") || truncated.empty()) return damaged("no list of objects came back");
  NamesPage page;
  const std::vector<std::string_view> keys = texts_of(xml, "Key");
  for (const std::string_view one : keys) {
    if (!one.starts_with(begin)) continue;
    if (auto name = ObjectName::parse(one.substr(key("").size()))) page.names.push_back(std::move(*name));
  }
  if (truncated.front() != "true") return page;
  if (keys.empty() || !keys.back().starts_with(begin) || keys.back() <= from) {
    return damaged("a list of objects does not go on");
  }
  page.next = keys.back();
  return page;
}

// Asks for the bucket itself: that is refused without the right to list, too, without which no miss can be told from a
// refusal.
Status S3Engine::probe(NodeId, std::int64_t deadline_ns) {
  const Status answer = client_.perform(S3Request{.method = S3Request::Method::kHead, .key = ""}, deadline_ns).status;
  if (!answer.ok() && answer.error().kind == ErrorKind::kNotFound) return no_bucket();
  return answer;
}

Result<EngineFacts> S3Engine::facts(std::int64_t deadline_ns) {
  TRY(probe(NodeId{0}, deadline_ns));
  EngineFacts facts{.description = "S3 bucket " + client_.access().bucket + " at " + client_.access().endpoint};
  facts.warnings.push_back(
      "S3 removes nothing by itself: give the bucket a lifecycle rule that lets objects expire after "
      "--share-ttl-hours");
  return facts;
}

}  // namespace kvkeep::share
