#include "output.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

// At once, so that both come in order, and a pipe has each line of a demo when it is there.
void write(std::FILE* file, const std::string& text) {
  std::fputs(text::escaped(text).c_str(), file);
  std::fflush(file);
}

}  // namespace

void print(const std::string& text) { write(stdout, text); }
void print_error(const std::string& text) { write(stderr, text); }

void StatusLine::show(const std::string& text) const {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  print_error(text);
}

void Bar::show(ByteCount done, ByteCount total) {
  constexpr std::size_t kBarColumns = 30;
  if (total == ByteCount{0}) return;
  const auto percent =
      static_cast<std::size_t>(100.0 * static_cast<double>(done.value()) / static_cast<double>(total.value()));
  if (percent == std::exchange(percent_, percent)) return;
  const std::size_t filled = kBarColumns * percent / 100;
  line_.show(fmt::format("[{}{}] {} %", std::string(filled, '#'), std::string(kBarColumns - filled, '-'), percent));
}

}  // namespace kvkeep::cli
