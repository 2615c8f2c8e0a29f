#include "format/delta.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

Error bad_delta(const char* what) { return damaged(std::string("delta: ") + what); }

// ---- finding what the base has ----

constexpr std::array<std::uint64_t, 256> make_byte_words() {
  std::array<std::uint64_t, 256> words{};
  std::uint64_t state = 0x6b76'6b65'6570'0001ULL;
  for (std::uint64_t& word : words) {
    state += 0x9e37'79b9'7f4a'7c15ULL;
    word = (state ^ (state >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
    word = (word ^ (word >> 27)) * 0x94d0'49bb'1331'11ebULL;
    word ^= word >> 31;
  }
  return words;
}
constexpr std::array<std::uint64_t, 256> kByteWords = make_byte_words();

std::uint64_t word_of(std::byte byte) { return kByteWords[std::to_integer<std::size_t>(byte)]; }

// A hash of the bytes of one window: a polynomial modulo 2^64 over the bytes' words. Its high bits are the good ones.
class WindowHash {
 public:
  explicit WindowHash(std::size_t size) : powers_(size + 1, 1) {
    for (std::size_t i = size; i-- > 0;) powers_[i] = powers_[i + 1] * kFactor;
    leaving_ = powers_.front();
    powers_.erase(powers_.begin());
  }
  // Products that do not wait for each other: several times faster than rolling through the window.
  std::uint64_t of(const std::byte* window) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < powers_.size(); ++i) value += word_of(window[i]) * powers_[i];
    return value;
  }
  // Of the window one byte further.
  std::uint64_t roll(std::uint64_t value, std::byte out, std::byte in) const {
    return value * kFactor + (word_of(in) - word_of(out) * leaving_);
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9e37'79b9'7f4a'7c15ULL;
  std::vector<std::uint64_t> powers_;  // what the byte at each place of the window counts
  std::uint64_t leaving_;              // what the oldest byte counts when a further one came
};

// Places of the base's windows by hash. Two slots each: what finds both taken is left out, and of equal windows the
// first two are known, so that no content makes a search long. A bitmap that fits into the processor's cache answers
// most of the searches that find nothing.
class WindowTable {
 public:
  WindowTable(ByteSpan base, const DeltaOptions& options, const WindowHash& hash)
      : base_(base), window_(options.window_bytes) {
    if (base.size() < window_) return;
    const std::size_t most = std::max<std::size_t>(1, options.max_windows);
    stride_ = std::max(window_, (base.size() + most - 1) / most);
    const std::size_t windows = (base.size() - window_) / stride_ + 1;
    slots_.resize(std::bit_ceil(2 * windows));
    seen_.resize(std::bit_ceil(windows * kBitsPerWindow / 64 + 1));
    for (std::size_t i = 0; i < windows; ++i) add(hash.of(base.data() + i * stride_), i);
  }
  bool empty() const { return slots_.empty(); }
  bool may_have(std::uint64_t hash) const { return (seen_[word_of_bit(hash)] >> (hash >> 58) & 1) != 0; }
  // Where the base has these window_bytes; nullopt: not known.
  std::optional<std::size_t> find(std::uint64_t hash, const std::byte* bytes) const {
    for (const std::size_t at : {slot_of(hash), slot_of(hash) ^ 1}) {
      const Slot& slot = slots_[at];
      if (slot.window == 0 || slot.tag != tag_of(hash)) continue;
      const std::size_t place = (std::size_t{slot.window} - 1) * stride_;
      if (std::memcmp(base_.data() + place, bytes, window_) == 0) return place;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::size_t kBitsPerWindow = 16;
  struct Slot {
    std::uint32_t tag = 0;
    std::uint32_t window = 0;  // its number and one; 0: free
  };
  std::size_t slot_of(std::uint64_t hash) const { return (hash >> 32) & (slots_.size() - 1); }
  std::size_t word_of_bit(std::uint64_t hash) const { return (hash >> 34) & (seen_.size() - 1); }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 16); }
  void add(std::uint64_t hash, std::size_t window) {
    seen_[word_of_bit(hash)] |= std::uint64_t{1} << (hash >> 58);
    for (const std::size_t at : {slot_of(hash), slot_of(hash) ^ 1}) {
      if (slots_[at].window != 0) continue;
      slots_[at] = {tag_of(hash), static_cast<std::uint32_t>(window + 1)};
      return;
    }
  }

  ByteSpan base_;
  std::size_t window_;
  std::size_t stride_ = 1;
  std::vector<Slot> slots_;          // a power of two, at least 2; empty: the base has no window
  std::vector<std::uint64_t> seen_;  // a power of two
};

// Bytes that a and b have in common from their beginning, at most `limit`.
std::size_t common_bytes(const std::byte* a, const std::byte* b, std::size_t limit) {
  std::size_t common = 0;
  while (limit - common >= sizeof(std::uint64_t)) {
    const auto x = load_little_endian<std::uint64_t>(a + common);
    const auto y = load_little_endian<std::uint64_t>(b + common);
    if (x != y) return common + static_cast<std::size_t>(std::countr_zero(x ^ y)) / 8;
    common += sizeof(std::uint64_t);
  }
  while (common < limit && a[common] == b[common]) ++common;
  return common;
}

// The same backwards from the bytes before a and b.
std::size_t common_bytes_before(const std::byte* a, const std::byte* b, std::size_t limit) {
  std::size_t common = 0;
  while (common < limit && a[-1 - static_cast<std::ptrdiff_t>(common)] == b[-1 - static_cast<std::ptrdiff_t>(common)]) {
    ++common;
  }
  return common;
}

// ---- operations ----

std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

class OperationWriter {
 public:
  explicit OperationWriter(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  // False: too many bytes.
  bool add(ByteSpan literal, std::size_t source, std::size_t copied) {
    if (bytes_.size() + literal.size() > max_bytes_) return false;
    number(literal.size());
    bytes_.insert(bytes_.end(), literal.begin(), literal.end());
    number(copied);
    if (copied > 0) number(zigzag(static_cast<std::int64_t>(source) - static_cast<std::int64_t>(expected_)));
    expected_ = source + copied;
    return bytes_.size() <= max_bytes_;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 128));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  const std::size_t max_bytes_;
  std::size_t expected_ = 0;  // where the next copy begins if nothing moved
  std::vector<std::byte> bytes_;
};

std::optional<std::uint64_t> read_number(ByteSpan& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 63 && !bytes.empty(); shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(bytes.front());
    bytes = bytes.subspan(1);
    value |= (byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

void put_copy(MutableByteSpan& out, ByteSpan from) {
  if (!from.empty()) std::memcpy(out.data(), from.data(), from.size());
  out = out.subspan(from.size());
}

class Encoder {
 public:
  Encoder(ByteSpan base, ByteSpan fresh, std::size_t max_bytes, const DeltaOptions& options)
      : base_(base),
        fresh_(fresh),
        window_(options.window_bytes),
        hash_(options.window_bytes),
        table_(base, options, hash_),
        out_(max_bytes) {}

  std::optional<std::vector<std::byte>> run() {
    while (const auto place = next_match()) {
      if (!take(*place)) return std::nullopt;
    }
    if (told_ < fresh_.size() && !out_.add(fresh_.subspan(told_), 0, 0)) return std::nullopt;
    return out_.take();
  }

 private:
  // Moves at_ on to the next window that the base has.
  std::optional<std::size_t> next_match() {
    if (table_.empty() || fresh_.size() - at_ < window_) return std::nullopt;
    const std::size_t last = fresh_.size() - window_;
    std::uint64_t hash = hash_.of(fresh_.data() + at_);
    for (std::size_t at = at_;; ++at) {
      if (table_.may_have(hash)) {
        if (const auto place = table_.find(hash, fresh_.data() + at)) {
          at_ = at;
          return place;
        }
      }
      if (at == last) return std::nullopt;
      hash = hash_.roll(hash, fresh_[at], fresh_[at + window_]);
    }
  }

  // Tells what lies before the match at at_, and the match as far as it goes.
  bool take(std::size_t source) {
    const std::size_t before =
        common_bytes_before(fresh_.data() + at_, base_.data() + source, std::min(at_ - told_, source));
    const std::size_t begin = at_ - before;
    source -= before;
    const std::size_t copied = common_bytes(fresh_.data() + begin, base_.data() + source,
                                            std::min(fresh_.size() - begin, base_.size() - source));
    const ByteSpan literal = fresh_.subspan(told_, begin - told_);
    at_ = told_ = begin + copied;
    return out_.add(literal, source, copied);
  }

  const ByteSpan base_;
  const ByteSpan fresh_;
  const std::size_t window_;
  const WindowHash hash_;
  const WindowTable table_;
  OperationWriter out_;
  std::size_t at_ = 0;    // where the next window begins
  std::size_t told_ = 0;  // everything before it is in an operation
};

}  // namespace

std::optional<std::vector<std::byte>> encode_delta(ByteSpan base, ByteSpan fresh, std::size_t max_bytes,
                                                   const DeltaOptions& options) {
  KVKEEP_ASSERT(options.window_bytes > 0, "windows of no bytes");
  return Encoder(base, fresh, max_bytes, options).run();
}

Status decode_delta(ByteSpan base, ByteSpan delta, MutableByteSpan out) {
  std::uint64_t expected = 0;
  while (!out.empty()) {
    const auto literal = read_number(delta);
    if (!literal || *literal > delta.size() || *literal > out.size()) return bad_delta("literal");
    put_copy(out, delta.first(*literal));
    delta = delta.subspan(*literal);
    const auto copied = read_number(delta);
    if (!copied || *copied > out.size()) return bad_delta("length of a copy");
    if (*copied == 0) {
      if (!out.empty()) return bad_delta("an operation that is not the last and copies nothing");
      break;
    }
    const auto distance = read_number(delta);
    if (!distance) return bad_delta("distance of a copy");
    const std::uint64_t source = expected + static_cast<std::uint64_t>(unzigzag(*distance));
    if (source > base.size() || *copied > base.size() - source) return bad_delta("a copy from outside of the base");
    put_copy(out, base.subspan(source, *copied));
    expected = source + *copied;
  }
  if (!delta.empty()) return bad_delta("bytes after the last operation");
  return {};
}

// ---- a state built on another ----

std::optional<std::vector<std::byte>> encode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan state,
                                                         std::size_t max_bytes) {
  if (max_bytes < kBuiltStateHeadBytes) return std::nullopt;
  const auto delta = encode_delta(base, state, max_bytes - kBuiltStateHeadBytes);
  if (!delta) return std::nullopt;
  Writer writer;
  writer.reserve(kBuiltStateHeadBytes + delta->size());
  writer.hash(base_hash);
  writer.sum(checksum(state));
  writer.raw(*delta);
  return writer.take();
}

Status decode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan stored, MutableByteSpan out) {
  Reader reader(stored);
  const auto told_hash = reader.hash<PrefixHash>();
  const Checksum sum = reader.sum();
  if (reader.failed() || told_hash != base_hash) return bad_delta("built on another state");
  TRY(decode_delta(base, stored.subspan(kBuiltStateHeadBytes), out));
  if (checksum(out) != sum) return bad_delta("another state comes out");
  return {};
}

}  // namespace kvkeep::format
