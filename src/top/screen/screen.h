#pragma once

// A terminal as a screen: frames in colours, keys. While a Screen lives, the terminal shows it; afterwards the terminal
// is as it was, also when SIGINT or SIGTERM ends the process.
//
// Not thread safe; at most one at a time, for ncurses has one terminal.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "top/frame.h"

namespace kvkeep::top {

// What a key means. Letters are those of vi and less.
enum class Key : std::uint8_t {
  kNone,
  kQuit,  // q, Ctrl+C
  kUp,    // the arrow, k
  kDown,  // the arrow, j
  kPageUp,
  kPageDown,
  kFirst,  // Home, g
  kLast,   // End, G
  kEnter,
  kPause,      // p, the space bar
  kFirstList,  // 1, and so on: the lists in their order
  kSecondList,
  kThirdList,
  kFourthList,
  kNextList,  // Tab
  kResized,   // no key: the window has another size now
};

class Screen {
 public:
  // kUnsupported if the terminal ($TERM) is not known or standard output is none.
  static Result<std::unique_ptr<Screen>> open();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  Size size() const;
  // Writes only what differs from the frame before.
  void show(const std::vector<Line>& lines);
  // Waits for a key, at most so long; kNone if none came, or one that means nothing.
  Key wait(int most_ms);

 private:
  Screen();
};

}  // namespace kvkeep::top
