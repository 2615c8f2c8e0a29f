#include "store/free_space.h"

#include <algorithm>

namespace kvkeep::store {

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kLongestBackOffNs = 16 * kSecondNs;
constexpr ByteCount kAskAfter = mebibytes(64);
// Once stopped, this part more than the floor must be free: storing does not stop and go on at its edge.
constexpr std::uint64_t kMarginShare = 8;
// After this long without a refusal storing goes on, whatever was refused before.
constexpr std::int64_t kQuietNs = 60 * kSecondNs;

}  // namespace

bool FreeSpace::admits(ByteCount bytes) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (now_ns < try_again_ns_) return false;
  if (reserve_ == ByteCount{}) return true;
  if (asked_ns_ == 0 || now_ns - asked_ns_ >= kSecondNs || written_ >= kAskAfter) ask(now_ns);
  const ByteCount margin = stopped_ ? ByteCount{reserve_.value() / kMarginShare} : ByteCount{};
  const bool enough = !known_ || free_ >= reserve_ + margin + bytes;
  if (!enough) stop(bytes, now_ns);
  return enough;
}

void FreeSpace::ask(std::int64_t now_ns) {
  const Result<os::Space> space = files_.space(directory_);
  known_ = space.ok();
  if (known_) free_ = space->free;
  written_ = {};
  asked_ns_ = now_ns;
}

void FreeSpace::wrote(ByteCount bytes) {
  free_ -= std::min(free_, bytes);
  written_ += bytes;
  pause_ns_ = 0;
  if (!stopped_) return;
  written_after_ += bytes;
  if (written_after_ < refused_ && clock_.monotonic_ns() - refused_ns_ < kQuietNs) return;
  stopped_ = false;
  refused_ = {};
}

void FreeSpace::stop(ByteCount refused, std::int64_t now_ns) {
  stopped_ = true;
  refused_ = std::max(refused_, refused);
  written_after_ = {};
  refused_ns_ = now_ns;
}

// If a quota or the inodes are used up, the system still reports free space: files are tried more and more rarely.
void FreeSpace::found_full(ByteCount bytes) {
  pause_ns_ = std::clamp(2 * pause_ns_, kSecondNs, kLongestBackOffNs);
  const std::int64_t now_ns = clock_.monotonic_ns();
  try_again_ns_ = now_ns + pause_ns_;
  asked_ns_ = 0;
  stop(bytes, now_ns);
}

}  // namespace kvkeep::store
