#include "format/built_state.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/assert.h"
#include "format/bytes.h"

namespace kvkeep::format {
namespace {

// Long-distance matching finds nearly all repeated bytes at any level. Levels from 1 on code the literals, too: that
// saves a tenth of them and makes decoding, which a request waits for, several times slower.
constexpr int kLevel = -1;

Error bad_state(const char* what) { return damaged(std::string("built state: ") + what); }

struct FreeContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// A context, or what new would throw.
template <typename Context>
std::unique_ptr<Context, FreeContext> owned(Context* context) {
  if (context == nullptr) throw std::bad_alloc();
  return std::unique_ptr<Context, FreeContext>(context);
}

void set(ZSTD_CCtx& context, ZSTD_cParameter parameter, int value) {
  const std::size_t done = ZSTD_CCtx_setParameter(&context, parameter, value);
  KVKEEP_ASSERT(ZSTD_isError(done) == 0, "a parameter that zstd takes");
}

// The base is in reach while no more than a window of the state lies before: a window as large as the state.
int window_log(std::size_t state_bytes) {
  const ZSTD_bounds bounds = ZSTD_cParam_getBounds(ZSTD_c_windowLog);
  return std::clamp(static_cast<int>(std::bit_width(state_bytes)), bounds.lowerBound, bounds.upperBound);
}

// Returns how many bytes of `out` the frame takes, nullopt if they are too few.
std::optional<std::size_t> write_frame(ByteSpan base, ByteSpan state, MutableByteSpan out) {
  const auto context = owned(ZSTD_createCCtx());
  set(*context, ZSTD_c_compressionLevel, kLevel);
  set(*context, ZSTD_c_windowLog, window_log(state.size()));
  set(*context, ZSTD_c_enableLongDistanceMatching, 1);
  ZSTD_CCtx_refPrefix(context.get(), base.data(), base.size());
  const std::size_t size = ZSTD_compress2(context.get(), out.data(), out.size(), state.data(), state.size());
  if (ZSTD_isError(size) != 0) return std::nullopt;
  return size;
}

// Decodes directly into `out`, so that no window of the frame's own choice is allocated.
Status read_frame(ByteSpan base, ByteSpan frame, MutableByteSpan out) {
  const auto context = owned(ZSTD_createDCtx());
  ZSTD_DCtx_refPrefix(context.get(), base.data(), base.size());
  const std::size_t size = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(size) != 0) return bad_state(ZSTD_getErrorName(size));
  if (size != out.size()) return bad_state("too short");
  return {};
}

// ---- copies and literals ----
// Operations, each: literal length, the literal bytes, copy length, and if that is not 0 the distance of the copy's
// source from the end of the copy before. Lengths are LEB128, the distance is zigzag LEB128.

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

std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

void put_copy(MutableByteSpan& out, ByteSpan from) {
  if (!from.empty()) std::memcpy(out.data(), from.data(), from.size());
  out = out.subspan(from.size());
}

Status read_copies(ByteSpan base, ByteSpan operations, MutableByteSpan out) {
  std::uint64_t expected = 0;
  while (!out.empty()) {
    const auto literal = read_number(operations);
    if (!literal || *literal > operations.size() || *literal > out.size()) return bad_state("literal");
    put_copy(out, operations.first(*literal));
    operations = operations.subspan(*literal);
    const auto copied = read_number(operations);
    if (!copied || *copied > out.size()) return bad_state("length of a copy");
    if (*copied == 0) {
      if (!out.empty()) return bad_state("an operation that is not the last and copies nothing");
      break;
    }
    const auto distance = read_number(operations);
    if (!distance) return bad_state("distance of a copy");
    const std::uint64_t source = expected + static_cast<std::uint64_t>(unzigzag(*distance));
    if (source > base.size() || *copied > base.size() - source) return bad_state("a copy from outside of the base");
    put_copy(out, base.subspan(source, *copied));
    expected = source + *copied;
  }
  if (!operations.empty()) return bad_state("bytes after the last operation");
  return {};
}

}  // namespace

std::optional<std::vector<std::byte>> encode_built_state(const PrefixHash& base_hash, ByteSpan base, ByteSpan state,
                                                         std::size_t max_bytes) {
  if (max_bytes < kBuiltStateHeadBytes) return std::nullopt;
  const std::size_t most = std::min(max_bytes - kBuiltStateHeadBytes, ZSTD_compressBound(state.size()));
  const auto frame = std::make_unique_for_overwrite<std::byte[]>(most);
  const auto size = write_frame(base, state, {frame.get(), most});
  if (!size) return std::nullopt;
  Writer writer;
  writer.reserve(kBuiltStateHeadBytes + *size);
  writer.hash(base_hash);
  writer.sum(checksum(state));
  writer.raw({frame.get(), *size});
  return writer.take();
}

Status decode_built_state(const PrefixHash& base_hash, ByteSpan base, Differences differences, ByteSpan stored,
                          MutableByteSpan out) {
  Reader reader(stored);
  const auto told_hash = reader.hash<PrefixHash>();
  const Checksum sum = reader.sum();
  if (reader.failed() || told_hash != base_hash) return bad_state("its base is another one");
  const ByteSpan told = reader.raw(reader.left());
  TRY(differences == Differences::kFrame ? read_frame(base, told, out) : read_copies(base, told, out));
  if (checksum(out) != sum) return bad_state("another state comes out");
  return {};
}

std::size_t repeated_bytes(ByteSpan base, ByteSpan fresh, std::size_t window_bytes) {
  const auto window = [window_bytes](ByteSpan bytes, std::size_t at) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + at, window_bytes);
  };
  std::unordered_set<std::string_view> windows;
  for (std::size_t at = 0; at + window_bytes <= base.size(); ++at) windows.insert(window(base, at));
  std::size_t repeated = 0;
  std::size_t counted = 0;  // everything before it
  for (std::size_t at = 0; at + window_bytes <= fresh.size(); ++at) {
    if (!windows.contains(window(fresh, at))) continue;
    repeated += at + window_bytes - std::max(at, counted);
    counted = at + window_bytes;
  }
  return repeated;
}

}  // namespace kvkeep::format
