#pragma once

// An engine that keeps objects for several servers: a port. Valkey, S3 and a directory implement it (engines/).
//
// An object is a head of some KiB and a payload of up to 4 GiB. The head is its commit: it is written after the
// payload, so an object whose head is there was whole once. The engine may evict any part of anything at any moment,
// lose what it accepted, and answer with somebody else's bytes; users of this port authenticate what they get.
//
// Blocking and thread safe: calls of several threads run side by side as far as the engine has connections. Each call
// ends about its deadline (monotonic nanoseconds of the clock that the engine was made with), whatever the other side
// does; resolving a host's name may take longer and is done by probe() only.

#include <algorithm>
#include <array>
#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::share {

// Payloads are cut into pieces of this size where an engine keeps large values badly. Part of the format: never change
// it.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

// The kind of an object in its name: one letter each. Letters are in names: never reuse one.
enum class ObjectKind : char { kRows = 'r', kWindowRows = 'w', kPoint = 'p', kWhole = 's', kRecord = 't' };

// So many digits, without memory of their own: a look-up makes and copies hundreds of names.
template <std::size_t kCount>
class Digits {
 public:
  constexpr Digits() { digits_.fill('0'); }
  // Precondition: a text of this size.
  Digits(std::string_view text) {  // NOLINT(google-explicit-constructor)
    KVKEEP_ASSERT(text.size() == kCount, "names have one size");
    std::ranges::copy(text, digits_.begin());
  }
  Digits(const std::string& text) : Digits(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  Digits(const char* text) : Digits(std::string_view(text)) {}         // NOLINT(google-explicit-constructor)
  std::string_view text() const { return {digits_.data(), kCount}; }
  operator std::string_view() const { return text(); }  // NOLINT(google-explicit-constructor)
  auto operator<=>(const Digits&) const = default;

 private:
  std::array<char, kCount> digits_;
};

// The name of an object. Both parts are lower-case hexadecimal digits, so that any engine can have them in a key.
struct ObjectName {
  static constexpr std::size_t kSpaceDigits = 16;
  static constexpr std::size_t kIdDigits = 32;

  Digits<kSpaceDigits> space;  // objects of one model on one kind of device, under one share key
  Digits<kIdDigits> id;        // the hidden prefix hash of the object's end
  ObjectKind kind = ObjectKind::kRows;
  auto operator<=>(const ObjectName&) const = default;
  // "<space>/<id>.<kind>": authentication codes are bound to it.
  std::string text() const { return join("", "/", "."); }
  // The parts and the kind, each after one of these.
  std::string join(std::string_view before_space, std::string_view before_id, std::string_view before_kind) const {
    std::string joined;
    joined.reserve(before_space.size() + kSpaceDigits + before_id.size() + kIdDigits + before_kind.size() + 1);
    joined.append(before_space).append(space.text()).append(before_id).append(id.text()).append(before_kind);
    return joined += static_cast<char>(kind);
  }

  static constexpr std::string_view kKinds = "rwpst";
  // Returns the name with this text, nullopt if it is none: other programs may have keys of their own in an engine.
  static std::optional<ObjectName> parse(std::string_view text) {
    if (text.size() != kSpaceDigits + kIdDigits + 3 || text[kSpaceDigits] != '/' || text[text.size() - 2] != '.') {
      return std::nullopt;
    }
    return of_parts(text.substr(0, kSpaceDigits), text.substr(kSpaceDigits + 1, kIdDigits), text.back());
  }
  // The same from its parts.
  static std::optional<ObjectName> of_parts(std::string_view space, std::string_view id, char kind) {
    const bool sizes = space.size() == kSpaceDigits && id.size() == kIdDigits;
    if (!sizes || !format::is_hex(space) || !format::is_hex(id) || !kKinds.contains(kind)) return std::nullopt;
    return ObjectName{space, id, static_cast<ObjectKind>(kind)};
  }
};

// A part of the names that an engine has.
struct NamesPage {
  std::vector<ObjectName> names;
  std::string next = {};  // where the next page begins, in words of the engine; empty: this was the last
};

// Heads that one call asks for have so many bytes at most, and are so many as the engine answers in one round trip: an
// engine that is damaged or hostile answers as many as it is asked for, before any code can be checked.
inline constexpr std::size_t kMostHeadBytesAtOnce = std::size_t{16} << 20;
constexpr std::size_t heads_in_one_call(std::size_t heads_at_once, std::size_t first_bytes) {
  return std::max<std::size_t>(1,
                               std::min(heads_at_once, kMostHeadBytesAtOnce / std::max<std::size_t>(first_bytes, 1)));
}

// A head that was asked for, or the reason why it is not there: kNotFound, or the trouble of its node as in
// NodeTrouble.
using HeadBytes = Result<std::vector<std::byte>>;

// Where a payload is read: bytes [begin, begin + size of the buffer) of it. `begin` is a multiple of kPieceBytes.
struct PayloadSlice {
  std::uint64_t head_bytes = 0;  // of the whole head, which lies before the payload where both are one file
  std::uint64_t begin = 0;
  std::uint64_t payload_bytes = 0;  // of the whole payload
};

// A time (monotonic) that may come nearer while a transfer is under way: a server that stops waits no longer.
using EarlierEnd = std::shared_ptr<const std::atomic<std::int64_t>>;

// How long a transfer may take. A transfer of many bytes may take long, but where none of them comes or goes for the
// time of a look-up, the other side hangs.
struct TransferLimits {
  // A deadline (monotonic) by itself allows any silence.
  TransferLimits(std::int64_t deadline, std::int64_t silence = INT64_MAX, EarlierEnd earlier = {})
      : deadline_ns(deadline), silence_ns(silence), earlier_end(std::move(earlier)) {}
  std::int64_t end_ns() const {
    return earlier_end == nullptr ? deadline_ns : std::min(deadline_ns, earlier_end->load());
  }
  // Returns until when a wait that begins now may last.
  std::int64_t wait_until(std::int64_t now_ns) const {
    const std::int64_t end = end_ns();
    return silence_ns < end - now_ns ? now_ns + silence_ns : end;
  }

  std::int64_t deadline_ns;
  std::int64_t silence_ns;  // the longest time without a byte
  EarlierEnd earlier_end;   // null: none
};

// A server of the engine. A name belongs to one at a time; a cluster may move it to another.
class NodeId : public Strong<struct NodeIdTag, std::uint32_t> {
 public:
  using Strong::Strong;
};

// The errors of this port, by kind:
//   kNotFound     it is not there (any more)
//   kIo           no answer in time, refused, cut: the node's breaker counts it
//   kBusy         the node answers, but not now (loading, CLUSTERDOWN, a moved slot): a miss
//   kNoSpace      the engine is full and evicts nothing: stop publishing for a while
//   kInvalid      the engine refuses us (wrong password, missing right, unknown bucket): report it once
//   kUnsupported  of touch() only: what is there may be read, and not be renewed by us
//   kDamaged      an answer that breaks the protocol
constexpr bool counts_for_breaker(ErrorKind kind) { return kind == ErrorKind::kIo || kind == ErrorKind::kDamaged; }

// The findings of facts(); absent where an engine does not tell.
struct EngineFacts {
  std::string description = {};                 // "valkey 9.1.2, cluster of 3 nodes"
  std::optional<std::string> policy = {};       // what it evicts: "allkeys-lru", "noeviction"
  std::optional<std::uint64_t> max_bytes = {};  // the limit of its memory; 0: none
  std::optional<std::uint64_t> used_bytes = {};
  std::optional<std::uint64_t> keys = {};  // of all users
  // Reads of all users since the engine started. Look-ups ask for many ends that are not there.
  std::optional<std::uint64_t> reads_found = {};
  std::optional<std::uint64_t> reads_missed = {};
  bool is_on_disk = false;                 // objects are files: sizes are of a disk, and no memory
  std::vector<std::string> warnings = {};  // one line each: what is wrong, and what to do
};

class ObjectEngine {
 public:
  virtual ~ObjectEngine() = default;

  // Reports "valkey://host:port" or the like, without secrets.
  virtual std::string address() const = 0;
  // How it may be asked: deadlines of look-ups stay inside a range, so many heads cost about as much as one, and so
  // many payloads are read ahead side by side.
  struct Pace {
    double least_deadline_ms;
    double most_deadline_ms;
    std::size_t heads_at_once;
    std::size_t reads_at_once = 2;
  };
  virtual Pace pace() const = 0;
  // Where every core computes, a thread that got its answer may wait this long for a processor: no shorter deadline
  // says anything of an engine.
  static constexpr double kLeastDeadlineMs = 20;

  // Node of a name, as known now. Without waiting.
  virtual NodeId node_of(const ObjectName& name) const = 0;
  // How many nodes there are; ids below that are valid. Only grows.
  virtual std::size_t nodes() const = 0;
  virtual std::string node_address(NodeId node) const = 0;
  // Returns false if no name belongs to the node now: it is another one's replica, or was replaced. Without waiting.
  virtual bool has_names(NodeId) const { return true; }

  // Returns the first bytes, at most `first_bytes`, of the heads of all names, in their order, asked in as few round
  // trips as the engine can. Where head and payload are one file, bytes of the payload may follow the head's.
  virtual std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                       std::int64_t deadline_ns) = 0;

  // Fills `out` with a slice of the payload. `arrived` is called as bytes come, in order, with their number so far, on
  // the calling thread. Fails with kNotFound if any of it is missing or shorter.
  using Arrived = std::function<void(std::size_t)>;
  virtual Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
                     const TransferLimits& limits) = 0;

  // Writes an object, the head last. Replaces one of the same name. It leaves by itself after `ttl_s` seconds without
  // touch(), if the engine can do that.
  virtual Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
                     const TransferLimits& limits) = 0;

  // Reports a use of whole objects, and renews their time to live: nothing else does so with every engine. Absent ones
  // are passed over. Returns those whose head is there and part of whose payload is not, as far as the engine sees
  // that. Where objects are renewed by copying them, that goes on for up to half a minute after the deadline, until
  // which the engine finds out which of them need it.
  struct Touched {
    ObjectName name;
    std::uint64_t payload_bytes = 0;
  };
  virtual Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                                std::int64_t deadline_ns) = 0;

  // Removes the head, then the payload. Succeeds if it is not there.
  virtual Status remove(const ObjectName& name, std::int64_t deadline_ns) = 0;

  // Returns a page of the names of all heads in a namespace, or of all namespaces if it is empty: the first page if
  // `from` is empty, else the one that `next` of the page before names. Pages have some hundred names, or none; a name
  // may come twice. Objects that are written or evicted meanwhile may be among them.
  virtual Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) = 0;

  // Does a portion of what an engine without a server of its own must do now and then, such as removing objects that
  // outlived `ttl_s`; ends about `until_ns`. Servers that publish call it about once a second.
  virtual void tidy(std::int64_t /*ttl_s*/, std::int64_t /*until_ns*/) {}

  // Returns the nodes that ended connections of ours since the last call: each may have begun anew, with settings of
  // other kinds. Without waiting.
  virtual std::vector<NodeId> hung_up() { return {}; }

  // Connects anew to a node and asks whether it is well, and which nodes names belong to: if it does not know, others
  // are asked.
  virtual Status probe(NodeId node, std::int64_t deadline_ns) = 0;
  virtual Result<EngineFacts> facts(std::int64_t deadline_ns) = 0;
};

}  // namespace kvkeep::share
