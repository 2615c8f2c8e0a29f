#pragma once

// How much of a resource all requests of a server may hold together: bytes of bodies, or places to be answered in.
//
// With only a limit per body, every connection could hold one of the greatest size, and while a body is parsed it takes
// several times its bytes. Room for bytes is taken as they arrive, not when a head announces them: a client that
// announces many bytes and sends none must not keep others out. Large bodies leave room for small ones, of which most
// requests have one. Thread safe.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvkeep::server {

class Budget {
 public:
  // Shares that hold more than `small` leave a sixteenth of the whole free.
  explicit Budget(std::size_t most, std::size_t small = SIZE_MAX) : most_(most), small_(small) {}

  std::size_t most() const { return most_; }

  // Returns true if a share that holds `held` could take this amount now; another thread may take it first.
  bool has_room_for(std::size_t amount, std::size_t held = 0) const { return fits(amount, held, held_); }

  // The part that one request holds; given back at the latest when it is destroyed. Belongs to one thread at a time.
  class Share {
   public:
    explicit Share(Budget& budget) : budget_(budget) {}
    ~Share() { give_back(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Returns false if there is no room; nothing was taken then.
    bool take(std::size_t amount) {
      std::size_t held = budget_.held_;
      do {
        if (!budget_.fits(amount, held_, held)) return false;
      } while (!budget_.held_.compare_exchange_weak(held, held + amount));
      held_ += amount;
      return true;
    }
    void give_back() { budget_.held_ -= std::exchange(held_, 0); }
    // Gives back at most as much as was taken.
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
  bool fits(std::size_t amount, std::size_t held_by_share, std::size_t held_by_all) const {
    const bool is_small = held_by_share <= small_ && amount <= small_ - held_by_share;
    const std::size_t limit = is_small ? most_ : most_ - most_ / 16;
    return held_by_all <= limit && amount <= limit - held_by_all;
  }

  const std::size_t most_;
  const std::size_t small_;
  std::atomic<std::size_t> held_{0};  // never more than most_
};

}  // namespace kvkeep::server
