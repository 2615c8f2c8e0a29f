#include "server/http/body_collector.h"

#include <algorithm>
#include <array>

#include "server/http/http_message.h"

namespace kvkeep::server {

bool BodyCollector::set_encoding(std::string_view encoding) {
  if (encoding.empty() || equals_ignoring_case(encoding, "identity")) return true;
  const bool known = equals_ignoring_case(encoding, "gzip") || equals_ignoring_case(encoding, "x-gzip") ||
                     equals_ignoring_case(encoding, "deflate");
  if (known) unpacking_.emplace();
  return known;
}

// Counts the bytes of compressed bodies as they are sent.
bool BodyCollector::announce(std::uint64_t bytes) {
  const std::size_t here = unpacking_ ? 0 : body_->bytes.size();
  if (bytes <= bytes_max_ - here) return true;
  trouble_ = Trouble::kTooLarge;
  return false;
}

std::size_t BodyCollector::take(std::string_view bytes) {
  trouble_ = Trouble::kNone;
  is_paused_ = false;
  return unpacking_ ? unpack(bytes) : take_plain(bytes);
}

bool BodyCollector::take_room(std::size_t bytes) {
  if (body_->share.take(bytes)) return true;
  wanted_bytes_ = bytes;
  trouble_ = Trouble::kNoRoom;
  return false;
}

std::size_t BodyCollector::take_plain(std::string_view bytes) {
  if (bytes.size() > bytes_max_ - body_->bytes.size()) {
    trouble_ = Trouble::kTooLarge;
    return 0;
  }
  if (!take_room(bytes.size())) return 0;
  body_->bytes.append(bytes);
  return bytes.size();
}

// Zlib may take all of its input with output still to make, and no further byte would come to make it. So the last byte
// is given only when all before it is unpacked; it completes a kilobyte or two, which is one piece.
std::size_t BodyCollector::unpack(std::string_view bytes) {
  std::array<char, 16'384> piece;
  std::size_t used = 0;
  std::size_t made = 0;
  while (used < bytes.size() && made < kUnpackedAtATime) {
    // Take the room first: unpacked bytes cannot be put back.
    const std::size_t left = std::min(piece.size(), bytes_max_ - body_->bytes.size() + 1);
    if (!take_room(left)) return used;
    const std::size_t before_last = bytes.size() - used - 1;
    const std::size_t given = is_drained_ && before_last == 0 ? 1 : before_last;
    const Gunzip::Step step = unpacking_->unpack(bytes.substr(used, given), std::span(piece).first(left));
    body_->share.give_back(left - step.made);
    used += step.used;
    made += step.made;
    is_drained_ = step.made < left;
    body_->bytes.append(piece.data(), step.made);
    if (body_->bytes.size() > bytes_max_) trouble_ = Trouble::kTooLarge;
    if (step.damaged) trouble_ = Trouble::kDamaged;
    if (trouble_ != Trouble::kNone) return std::min(used, bytes.size() - 1);  // fewer than were given: stop
  }
  is_paused_ = used < bytes.size();
  return used;
}

}  // namespace kvkeep::server
