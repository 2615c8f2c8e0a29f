#pragma once

// Commands write to standard output and standard error through these functions only: their texts contain foreign words
// (names of files and models, answers of servers), which must not steer a terminal. The log is serve_log.h.

#include <string>

#include "base/types.h"
#include "os/process.h"

namespace kvkeep::cli {

// Writes the text to standard output; control characters in it are escaped, line ends are kept.
void print(const std::string& text);
// The same to standard error.
void print_error(const std::string& text);

// One line of standard error that is written over, if that is a terminal; nothing elsewhere.
class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text) const;
  void clear() const { show(""); }

 private:
  const bool shown_ = os::errors_go_to_a_terminal();
};

// A bar in such a line.
class Bar {
 public:
  void show(ByteCount done, ByteCount total);

 private:
  StatusLine line_;
  std::size_t percent_ = SIZE_MAX;
};

}  // namespace kvkeep::cli
