#include "engine/fake/fake_state.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/checksum.h"

namespace kvkeep::engine::fake {

namespace {

constexpr std::uint64_t kRubbish = 0x6d1f'93a7'e5b0'c24bULL;

void expand(std::uint64_t value, MutableByteSpan out) {
  for (std::size_t at = 0; at < out.size(); at += sizeof value) {
    value = mix(value, at);
    std::memcpy(out.data() + at, &value, std::min(sizeof value, out.size() - at));
  }
}

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e37'79b9'7f4a'7c15ULL + b + 0x632b'e59b'd9b4'e019ULL;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return x ^ (x >> 31);
}

bool StateOptions::has_rows() const {
  return memory_class == MemoryClass::kSliceable || memory_class == MemoryClass::kWindowed ||
         memory_class == MemoryClass::kHybrid;
}

SequenceState::SequenceState(const StateOptions& options) : options_(options) {
  if (options.has_state()) state_.resize(options.state_bytes);
}

std::uint64_t SequenceState::row_sum() const {
  const std::uint64_t empty = mix(0, options_.model_seed);
  return sums_.empty() || !options_.has_rows() ? empty : sums_.back();
}

std::uint64_t SequenceState::window_sum() const {
  std::uint64_t sum = 1;
  const std::size_t begin = length() > options_.window_tokens ? length() - options_.window_tokens : 0;
  for (std::size_t at = begin; at < length(); ++at) {
    const auto row = window_.find(at);
    sum = mix(sum, row == window_.end() ? kRubbish : row->second);
  }
  return sum;
}

std::uint64_t SequenceState::point_sum() const {
  const std::uint64_t lost = lost_ ? kRubbish : 0;
  return (options_.has_state() ? checksum(state_).low : trail_sum_) ^ lost;
}

std::uint64_t SequenceState::value() const {
  std::uint64_t value = row_sum();
  if (options_.has_window()) value = mix(value, window_sum());
  if (options_.has_state() || options_.has_trail()) value = mix(value, point_sum());
  return value ^ (spoiled_ ? kRubbish : 0);
}

void SequenceState::compute_row(TokenId token, MutableByteSpan row) const {
  expand(mix(value(), static_cast<std::uint32_t>(token)), row);
}

void SequenceState::decode(TokenId token, ByteSpan row) {
  const std::uint64_t next = mix(mix(value(), static_cast<std::uint32_t>(token)), 7);
  const auto position = static_cast<std::uint32_t>(length());
  if (options_.has_window()) window_[length()] = next;
  if (options_.has_state()) expand(next, state_);
  if (options_.has_trail()) trail_.push_back(next), trail_sum_ = mix(trail_sum_, next);
  const bool lost = lost_;
  add_row(position, row);
  lost_ = lost;
  const std::size_t kept = options_.window_tokens + options_.window_slack;
  while (!window_.empty() && window_.begin()->first + kept < length()) window_.erase(window_.begin());
}

void SequenceState::add_row(std::uint32_t claimed, ByteSpan row) {
  sums_.push_back(mix(mix(row_sum(), claimed), row.empty() ? 0 : checksum(row).low));
  if (options_.has_state() || options_.has_trail()) lost_ = true;
}

std::size_t SequenceState::complete_from() const {
  if (options_.has_state() || options_.has_trail()) return length();
  if (!options_.has_window() || window_.empty() || window_.begin()->first == 0) return 0;
  return std::min(length(), window_.begin()->first + options_.window_tokens);
}

SequenceState SequenceState::cut(std::size_t end) const {
  if (end == length()) return *this;
  SequenceState shorter = *this;
  shorter.sums_.resize(end);
  shorter.window_.erase(shorter.window_.lower_bound(end), shorter.window_.end());
  shorter.lost_ = end > 0 && (options_.has_state() || options_.has_trail());
  if (end == 0) shorter = SequenceState(options_);
  shorter.spoiled_ = spoiled_;
  return shorter;
}

std::vector<std::uint64_t> SequenceState::window(std::size_t begin, std::size_t end) const {
  std::vector<std::uint64_t> rows;
  for (std::size_t at = begin; at < end; ++at) {
    const auto row = window_.find(at);
    if (row == window_.end()) return {};
    rows.push_back(row->second);
  }
  return rows;
}

void SequenceState::set_window(std::size_t begin, std::span<const std::uint64_t> rows) {
  window_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) window_[begin + i] = rows[i];
}

std::size_t SequenceState::point_bytes() const {
  return options_.has_state() ? state_.size() : trail_.size() * sizeof(std::uint64_t);
}

std::vector<std::byte> SequenceState::point() const {
  if (options_.has_state()) return state_;
  const auto bytes = std::as_bytes(std::span(trail_));
  return {bytes.begin(), bytes.end()};
}

void SequenceState::set_point(ByteSpan bytes) {
  lost_ = false;
  if (options_.has_state()) {
    state_.assign(bytes.begin(), bytes.end());
    return;
  }
  trail_.resize(bytes.size() / sizeof(std::uint64_t));
  std::memcpy(trail_.data(), bytes.data(), trail_.size() * sizeof(std::uint64_t));
  trail_sum_ = 0;
  for (const std::uint64_t word : trail_) trail_sum_ = mix(trail_sum_, word);
}

}  // namespace kvkeep::engine::fake
