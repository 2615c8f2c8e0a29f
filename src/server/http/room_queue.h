#pragma once

// Bodies that wait for room in the budget of all bodies, in order of arrival.
//
// Room comes back when handlers return, and when other bodies end or are hurried away. But those that wait may hold
// much themselves, and nothing would come back if all of them waited for each other: one of them has to give way.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "server/http/budget.h"

namespace kvkeep::server {

// `Waiter` has is_waiting() and resume(); one that is gone or waits no longer is dropped in passing. Not thread safe.
template <typename Waiter>
class RoomQueue {
 public:
  // `held`: bytes that the body has; `wanted`: bytes that it needs room for before it can go on.
  void add(std::weak_ptr<Waiter> waiter, std::size_t held, std::size_t wanted) {
    bodies_.push_back({std::move(waiter), held, wanted});
  }
  bool empty() const { return bodies_.empty(); }

  // Lets each body go on that there is room for now. One that wants much does not hold up those that want little: its
  // client may never send what it announced.
  void resume(const Budget& budget) {
    for (std::size_t left = bodies_.size(); left > 0; --left) {
      Body next = std::move(bodies_.front());
      bodies_.pop_front();
      const auto waiter = next.waiter.lock();
      if (!waiter || !waiter->is_waiting()) continue;
      if (budget.has_room_for(next.wanted, next.held)) {
        waiter->resume();  // and may be added again
      } else {
        bodies_.push_back(std::move(next));
      }
    }
  }

  // Returns the body that holds most, if another one could go on with its room; else null.
  std::shared_ptr<Waiter> in_the_way() const {
    const auto most = std::ranges::max_element(bodies_, {}, &Body::held);
    const auto could_go_on = [&](const Body& body) { return &body != &*most && body.wanted <= most->held; };
    return std::ranges::any_of(bodies_, could_go_on) ? most->waiter.lock() : nullptr;
  }

 private:
  struct Body {
    std::weak_ptr<Waiter> waiter;
    std::size_t held;
    std::size_t wanted;
  };
  std::deque<Body> bodies_;
};

}  // namespace kvkeep::server
