// Differences: decoding never leaves its bytes, and what was encoded comes out again. A built state comes out right or
// not at all.

#include "format/delta.h"
#include "fuzz.h"

namespace kvkeep {
namespace {

void check_decode(fuzz::Input input) {
  const ByteSpan base = input.bytes(input.below(256));
  std::vector<std::byte> out(input.below(4096));
  (void)format::decode_delta(base, input.rest(), out).ok();
}

void check_round_trip(fuzz::Input input) {
  const format::DeltaOptions options{.window_bytes = 1 + input.below(16), .max_windows = 1 + input.below(64)};
  const std::size_t most = input.below(1024);
  const ByteSpan base = input.bytes(input.below(512));
  const ByteSpan fresh = input.rest();
  const auto delta = format::encode_delta(base, fresh, most, options);
  if (!delta) return;
  KVKEEP_ASSERT(delta->size() <= most, "a delta keeps to its limit");
  std::vector<std::byte> out(fresh.size());
  KVKEEP_ASSERT(format::decode_delta(base, *delta, out).ok(), "what was encoded can be decoded");
  KVKEEP_ASSERT(std::ranges::equal(out, fresh), "and is what it was");
  std::vector<std::byte> longer(fresh.size() + 1);
  KVKEEP_ASSERT(!format::decode_delta(base, *delta, longer).ok(), "of another length it is damaged");
}

// Whatever is changed in what was stored: the state, or an error.
void check_built_state(fuzz::Input input) {
  const auto place = input.number<std::uint16_t>();
  const auto change = input.number<std::uint8_t>();
  const ByteSpan base = input.bytes(input.below(512));
  const ByteSpan state = input.rest();
  const PrefixHash name{};
  auto stored = format::encode_built_state(name, base, state, state.size() + 64);
  KVKEEP_ASSERT(stored, "literals cost a few bytes only");
  (*stored)[place % stored->size()] ^= std::byte{change};
  std::vector<std::byte> out(state.size());
  const Status decoded = format::decode_built_state(name, base, *stored, out);
  KVKEEP_ASSERT(!decoded.ok() || std::ranges::equal(out, state), "a state that comes out is the one that was stored");
  KVKEEP_ASSERT(decoded.ok() || change != 0, "unchanged it comes out");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(delta)(const std::uint8_t* data, std::size_t size) {
  const kvkeep::fuzz::Input input(data, size);
  kvkeep::check_decode(input);
  kvkeep::check_round_trip(input);
  kvkeep::check_built_state(input);
  return 0;
}
