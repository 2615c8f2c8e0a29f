#pragma once

// Bytes of request bodies that all connections hold together. A limit per body alone would let every thread hold one of
// the greatest size; while a body is parsed it takes several times its bytes on top.
//
// Room is taken as bytes arrive, not when a head announces them: a client that announces much and sends nothing must
// not keep others out. Thread safe.

#include <atomic>
#include <cstddef>
#include <utility>

namespace kvkeep::server {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  // Whether as much could be taken now; others may be faster.
  bool has_room_for(std::size_t bytes) const { return bytes <= bytes_max_ - held_; }

  // What one request holds; given back at the latest when it is destroyed. Belongs to one thread.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { give_back(); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // False: there is no room; nothing was taken.
    bool take(std::size_t bytes) {
      std::size_t held = budget_.held_;
      do {
        if (bytes > budget_.bytes_max_ - held) return false;
      } while (!budget_.held_.compare_exchange_weak(held, held + bytes));
      bytes_ += bytes;
      return true;
    }
    void give_back() { budget_.held_ -= std::exchange(bytes_, 0); }
    // Some of it: at most as much as was taken.
    void give_back(std::size_t bytes) {
      budget_.held_ -= bytes;
      bytes_ -= bytes;
    }

   private:
    BodyBudget& budget_;
    std::size_t bytes_ = 0;
  };

 private:
  const std::size_t bytes_max_;
  std::atomic<std::size_t> held_{0};  // never more than bytes_max_
};

}  // namespace kvkeep::server
