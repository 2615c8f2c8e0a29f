#pragma once

// How much of something all requests of a server may hold together: bytes of bodies, or places to be answered in.
//
// A limit per body alone would let every connection hold one of the greatest size, and while a body is parsed it takes
// several times its bytes on top. Room for bytes is taken as they arrive, not when a head announces them: a client that
// announces much and sends nothing must not keep others out. Thread safe.

#include <atomic>
#include <cstddef>
#include <utility>

namespace kvkeep::server {

class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}

  // Whether as much could be taken now; others may be faster.
  bool has_room_for(std::size_t amount) const { return amount <= most_ - held_; }

  // What one request holds; given back at the latest when it is destroyed. Belongs to one thread at a time.
  class Share {
   public:
    explicit Share(Budget& budget) : budget_(budget) {}
    ~Share() { give_back(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False: there is no room; nothing was taken.
    bool take(std::size_t amount) {
      std::size_t held = budget_.held_;
      do {
        if (amount > budget_.most_ - held) return false;
      } while (!budget_.held_.compare_exchange_weak(held, held + amount));
      held_ += amount;
      return true;
    }
    void give_back() { budget_.held_ -= std::exchange(held_, 0); }
    // Some of it: at most as much as was taken.
    void give_back(std::size_t amount) {
      budget_.held_ -= amount;
      held_ -= amount;
    }
    std::size_t held() const { return held_; }

   private:
    Budget& budget_;
    std::size_t held_ = 0;
  };

 private:
  const std::size_t most_;
  std::atomic<std::size_t> held_{0};  // never more than most_
};

}  // namespace kvkeep::server
