#pragma once

// When and why state that was computed once left the last tier that had it.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kvkeep::explain {

enum class LossCause : std::uint8_t {
  kRamBudget,  // there is no disk, or the state was not on it
  kDiskBudget,
  kExpired,  // --kv-cache-ttl-hours
  kDamaged,
  kRefused,    // its bytes were whole, and the model's memory did not take them
  kElsewhere,  // another server or another program removed the file, or a tier without a promise lost it
  kForgotten,  // a request or a command asked for it
};

constexpr std::string_view to_string(LossCause cause) {
  switch (cause) {
    case LossCause::kRamBudget: return "ram-budget";
    case LossCause::kDiskBudget: return "disk-budget";
    case LossCause::kExpired: return "expired";
    case LossCause::kDamaged: return "damaged";
    case LossCause::kRefused: return "refused";
    case LossCause::kElsewhere: return "removed-elsewhere";
    case LossCause::kForgotten: return "forgotten";
  }
  return "ram-budget";
}

// It was there, and was of no use.
constexpr bool is_damage(LossCause cause) { return cause == LossCause::kDamaged || cause == LossCause::kRefused; }

struct LostState {
  LossCause cause = LossCause::kRamBudget;
  std::int64_t when_ns = 0;  // by the wall clock, of the first of the lost state
  std::size_t tokens = 0;    // of the prompt that went on from what is known: so many were lost
  bool operator==(const LostState&) const = default;
};

}  // namespace kvkeep::explain
