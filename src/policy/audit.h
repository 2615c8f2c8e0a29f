#pragma once

// The audit's decisions: which piece of a stored path is computed anew, how far apart two answers of the model are, and
// whether that is more than noise. Pure.
//
// An audit answers the same question (one token at the piece's end) after the piece was restored and after it was
// computed again. The same state gives answers that differ in their last bits: sums are added up in another order,
// wherever the cells lie and however many tokens are computed at a time. Doing both twice measures how much of
// that is noise for this model, on this device, at this place. docs/audit.md has figures.

#include <cstdint>
#include <optional>
#include <span>

#include "base/types.h"
#include "policy/plan.h"

namespace kvkeep::policy {

struct AuditLimits {
  std::size_t tokens = 512;        // computed anew, if restorable positions lie so near
  std::size_t most_tokens = 4096;  // else as far as they lie apart, but not more
};

// Returns a piece of a path whose end and beginning are restorable (0: an empty sequence). `restorable`: the restorable
// positions, ascending (Lease::restorable). `random` chooses the end, which lies beyond `from` if it can. Returns
// nullopt if there is no such piece within the limits.
std::optional<TokenRange> choose_piece(std::span<const Restorable> restorable, Position from, std::uint64_t random,
                                       const AuditLimits& limits);

// Root mean square of the differences, over that of `other` around its mean; a number added to all logits makes no
// difference. 0: the same; 1.4: nothing in common; infinity: one of them is no number. Precondition: of the same size.
double difference(std::span<const float> one, std::span<const float> other);

// Smaller differences never count against the stored state: less than a tenth of the answer.
inline constexpr double kLeastAuditDifference = 0.1;
// Nor do differences that are not so many times the noise.
inline constexpr double kAuditNoiseFactor = 4;

// Returns true if a restored and a computed answer are as near as noise may be anywhere: no more is to be done.
inline bool agrees(double difference) { return difference <= kLeastAuditDifference; }

// Differences between two answers after restoring and two after computing.
struct AuditDifferences {
  double least_between = 0;  // of the four pairs of a restored and a computed one
  double computed = 0;       // between the two that were computed
  double restored = 0;       // between the two that were restored
};
// Returns true if the stored state is not what the model computes.
bool is_wrong(const AuditDifferences& found);

}  // namespace kvkeep::policy
