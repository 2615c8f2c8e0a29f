#include "store/write_limits.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/checksum.h"
#include "store/small_files.h"

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

namespace {

constexpr double kDayNs = 24.0 * 3600 * 1e9;
constexpr double kGatherShare = 8;  // of a day's bytes
// The file is ahead by this share of what may gather: a process that dies has written no more than the file says.
constexpr double kAheadShare = 16;
// A debt is that of one file: a larger one is not believed.
constexpr std::int64_t kMostDebt = std::int64_t{1} << 50;

// As in the file.
struct WritesNote {
  std::array<char, 8> magic{'k', 'v', 'k', 'w', 'r', 'i', 't', '1'};
  std::int64_t left = 0;   // bytes, below 0: a debt
  std::int64_t ahead = 0;  // bytes of them that may have been written since
  std::int64_t as_of_ns = 0;
  std::uint64_t sum = 0;
};
static_assert(sizeof(WritesNote) == 40);

std::uint64_t note_sum(const WritesNote& note) {
  return checksum(ByteSpan(reinterpret_cast<const std::byte*>(&note), offsetof(WritesNote, sum))).low;
}

// Fails with kNotFound if there is no file.
Result<WritesNote> read_writes(os::FileSystem& files, const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  TRY_ASSIGN(const ByteCount size, file->size());
  WritesNote note;
  if (size.value() != sizeof note) return damaged("not of its size");
  std::array<std::byte, sizeof note> bytes;
  TRY_ASSIGN(const std::size_t count, file->read_at(0, bytes));
  if (count != bytes.size()) return damaged("shorter than it was");
  std::memcpy(&note, bytes.data(), sizeof note);
  const bool whole = note.magic == WritesNote{}.magic && note.sum == note_sum(note);
  if (!whole || note.left < -kMostDebt || note.ahead < 0 || note.as_of_ns < 0)
    return damaged("the numbers contradict each other");
  return note;
}

}  // namespace

double WriteBudget::most() const { return std::max(1.0, static_cast<double>(per_day_.value()) / kGatherShare); }

void WriteBudget::open() {
  disbelieved_ = limited() && !load();
  if (disbelieved_) left_ = 0;
}

// Returns false if there is a file that cannot be believed.
bool WriteBudget::load() {
  const std::int64_t now_ns = clock_.wall_ns();
  as_of_ns_ = now_ns;
  left_ = most();
  const Result<WritesNote> note = read_writes(files_, path_);
  if (!note) return note.error().kind == ErrorKind::kNotFound;
  left_ = std::min(static_cast<double>(note->left), most());
  as_of_ns_ = std::min(note->as_of_ns, now_ns);
  refill();
  left_ -= static_cast<double>(note->ahead);
  return true;
}

WriteAllowance WriteBudget::allowance() {
  refill();
  return {ByteCount{static_cast<std::uint64_t>(std::max(0.0, left_))}, ByteCount{static_cast<std::uint64_t>(most())},
          disbelieved_};
}

// A clock that goes back refills nothing.
void WriteBudget::refill() {
  const std::int64_t now_ns = clock_.wall_ns();
  const auto passed_ns = static_cast<double>(std::max<std::int64_t>(0, now_ns - as_of_ns_));
  const double back_in_a_day = std::max(0.0, static_cast<double>(per_day_.value()) - most());
  left_ = std::min(most(), left_ + passed_ns / kDayNs * back_in_a_day);
  as_of_ns_ = now_ns;
}

void WriteBudget::wrote(ByteCount bytes) {
  if (!limited()) return;
  refill();
  left_ -= static_cast<double>(bytes.value());
  ahead_ -= static_cast<double>(bytes.value());
  if (ahead_ < 0) save(most() / kAheadShare);
}

void WriteBudget::close() {
  if (limited()) save(0);
}

// Nothing is synced and no failure is reported: the file is advice, and is written again soon.
void WriteBudget::save(double ahead) {
  if (!saves_) return;
  ahead_ = ahead;
  WritesNote note{
      .left = static_cast<std::int64_t>(left_), .ahead = static_cast<std::int64_t>(ahead), .as_of_ns = as_of_ns_};
  note.sum = note_sum(note);
  (void)replace_small_file(files_, path_, {reinterpret_cast<const char*>(&note), sizeof note}).ok();
}

}  // namespace kvkeep::store
