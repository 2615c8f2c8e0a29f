#pragma once

// Gathers one request's body, unpacked, within the limit of one body and the budget of all bodies.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/budget.h"
#include "server/http/gunzip.h"
#include "server/http/request_parser.h"

namespace kvkeep::server {

// A body and the room that it holds; both are given back together.
struct HeldBody {
  explicit HeldBody(Budget& budget) : share(budget) {}
  std::string bytes;
  Budget::Share share;
};

// How much a compressed body is unpacked to at a time: 64 KiB may become 64 MiB, and no other client is served
// meanwhile.
inline constexpr std::size_t kUnpackedAtATime = 256 << 10;

class BodyCollector final : public BodySink {
 public:
  // kNoRoom ends when other requests give room back; the other troubles are final.
  enum class Trouble { kNone, kNoRoom, kTooLarge, kDamaged };

  BodyCollector(Budget& budget, std::size_t bytes_max)
      : bytes_max_(bytes_max), body_(std::make_unique<HeldBody>(budget)) {}

  // `encoding`: the field Content-Encoding. Returns false for an encoding that is not unpacked here.
  bool set_encoding(std::string_view encoding);
  // The head announced so many bytes: growing step by step takes twice the memory. Pages without bytes cost none.
  void expect(std::uint64_t bytes) {
    if (!unpacking_ && bytes <= bytes_max_) body_->bytes.reserve(static_cast<std::size_t>(bytes));
  }
  bool announce(std::uint64_t bytes) override;
  // Stops after kUnpackedAtATime, or on trouble.
  std::size_t take(std::string_view bytes) override;
  Trouble trouble() const { return trouble_; }
  // Returns true if the last take() left bytes for the next turn without trouble.
  bool is_paused() const { return is_paused_; }
  // Call after the last byte. Returns false if compressed bytes lack their end.
  bool is_whole() const { return !unpacking_ || unpacking_->at_end(); }
  std::size_t held_bytes() const { return body_->share.held(); }
  // After kNoRoom: how many bytes there has to be room for.
  std::size_t wanted_bytes() const { return wanted_bytes_; }
  std::unique_ptr<HeldBody> release() { return std::move(body_); }

 private:
  bool take_room(std::size_t bytes);
  std::size_t take_plain(std::string_view bytes);
  std::size_t unpack(std::string_view bytes);

  const std::size_t bytes_max_;
  std::unique_ptr<HeldBody> body_;
  std::optional<Gunzip> unpacking_;
  bool is_drained_ = true;  // all that the taken bytes unpack to is in the body
  bool is_paused_ = false;
  std::size_t wanted_bytes_ = 0;
  Trouble trouble_ = Trouble::kNone;
};

}  // namespace kvkeep::server
