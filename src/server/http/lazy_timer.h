#pragma once

// A timer whose deadline may be postponed at no cost: it fires at the earliest time that it was set for, and its owner
// looks again then. A stream postpones its deadline with each token, which sets no timer.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

namespace kvkeep::server {

// On the thread that runs `io`.
class LazyTimer {
 public:
  explicit LazyTimer(boost::asio::io_context& io) : timer_(io) {}

  // Calls `look` at `at_ns` or earlier; INT64_MAX means never.
  template <typename Look>
  void set(std::int64_t at_ns, std::int64_t now_ns, Look look) {
    if (at_ns >= set_for_ns_) return;
    set_for_ns_ = INT64_MAX;  // no wait has begun yet, and the next one may fail to
    timer_.expires_after(std::chrono::nanoseconds(std::max<std::int64_t>(at_ns - now_ns, 0)));
    timer_.async_wait([this, call = std::move(look)](const boost::system::error_code& error) {
      if (error) return;  // set anew or cancelled; `this` may be gone
      set_for_ns_ = INT64_MAX;
      call();
    });
    set_for_ns_ = at_ns;
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
  std::int64_t set_for_ns_ = INT64_MAX;
};

}  // namespace kvkeep::server
