// Built states: decoding never leaves its bytes, and one comes out right or not at all.

#include "format/built_state.h"
#include "fuzz.h"

namespace kvkeep {
namespace {

constexpr format::Differences kBoth[] = {format::Differences::kFrame, format::Differences::kCopies};

// The head is made to fit the base, so that the differences are looked at.
void check_decode(fuzz::Input input) {
  const ByteSpan base = input.bytes(input.below(256));
  std::vector<std::byte> out(input.below(4096));
  std::vector<std::byte> stored(format::kBuiltStateHeadBytes);
  const ByteSpan differences = input.rest();
  stored.insert(stored.end(), differences.begin(), differences.end());
  for (const format::Differences kind : kBoth) (void)format::decode_built_state({}, base, kind, stored, out).ok();
}

void check_round_trip(fuzz::Input input) {
  const std::size_t most = input.below(1024);
  const ByteSpan base = input.bytes(input.below(512));
  const ByteSpan state = input.rest();
  const auto stored = format::encode_built_state({}, base, state, most);
  if (!stored) return;
  KVKEEP_ASSERT(stored->size() <= most, "what is stored keeps to its limit");
  std::vector<std::byte> out(state.size());
  KVKEEP_ASSERT(format::decode_built_state({}, base, kBoth[0], *stored, out).ok(), "what was encoded can be decoded");
  KVKEEP_ASSERT(std::ranges::equal(out, state), "and is what it was");
  std::vector<std::byte> longer(state.size() + 1);
  KVKEEP_ASSERT(!format::decode_built_state({}, base, kBoth[0], *stored, longer).ok(),
                "of another length it is damaged");
}

// A change in the stored bytes gives the state, or an error.
void check_change(fuzz::Input input) {
  const auto place = input.number<std::uint16_t>();
  const auto change = input.number<std::uint8_t>();
  const ByteSpan base = input.bytes(input.below(512));
  const ByteSpan state = input.rest();
  auto stored = format::encode_built_state({}, base, state, SIZE_MAX);
  KVKEEP_ASSERT(stored, "without a limit there is room");
  (*stored)[place % stored->size()] ^= std::byte{change};
  std::vector<std::byte> out(state.size());
  const Status decoded = format::decode_built_state({}, base, kBoth[0], *stored, out);
  KVKEEP_ASSERT(!decoded.ok() || std::ranges::equal(out, state), "a state that comes out is the one that was stored");
  KVKEEP_ASSERT(decoded.ok() || change != 0, "unchanged it comes out");
}

}  // namespace
}  // namespace kvkeep

KVKEEP_FUZZ_TARGET(built_state)(const std::uint8_t* data, std::size_t size) {
  const kvkeep::fuzz::Input input(data, size);
  kvkeep::check_decode(input);
  kvkeep::check_round_trip(input);
  kvkeep::check_change(input);
  return 0;
}
