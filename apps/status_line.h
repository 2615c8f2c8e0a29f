#pragma once

// One line on a terminal, on standard error, drawn over itself; nothing where standard error is no terminal.

#include <cstdio>
#include <string>

#include "os/process.h"

namespace kvkeep::cli {

class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text) const {
    if (!shown_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
  }
  void clear() const { show(""); }

 private:
  const bool shown_ = os::errors_go_to_a_terminal();
};

}  // namespace kvkeep::cli
