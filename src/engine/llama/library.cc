#include "engine/llama/library.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string_view>

#include "base/mutex.h"
#include "text/terminal.h"

namespace kvkeep::engine::llama {
namespace {

struct LogLine {
  ggml_log_level level = GGML_LOG_LEVEL_NONE;
  std::string text;
};

// The last lines of libllama's log that are warnings or errors.
class LogRing {
 public:
  void write(ggml_log_level level, const char* text) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (level != GGML_LOG_LEVEL_CONT) line_ = {level, {}};
    line_.text += text;
    if (line_.text.empty() || line_.text.back() != '\n') return;
    line_.text.pop_back();
    finish_line();
  }

  std::uint64_t count() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return lines_ended_;
  }

  // Returns the first error since then, or else the last warning: lines after the first error mostly repeat it.
  std::string reason_since(std::uint64_t mark) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::string warning;
    const std::uint64_t oldest = lines_ended_ - kept_.size();
    for (std::uint64_t i = std::max(mark, oldest); i < lines_ended_; ++i) {
      const LogLine& line = kept_[static_cast<std::size_t>(i - oldest)];
      if (line.level == GGML_LOG_LEVEL_ERROR) return line.text;
      warning = line.text;
    }
    return warning;
  }

 private:
  static constexpr std::size_t kMostLines = 64;

  void finish_line() REQUIRES(mutex_) {
    // libllama's own debug lines list every tensor.
    const auto level = line_.level == GGML_LOG_LEVEL_DEBUG ? spdlog::level::trace : spdlog::level::debug;
    spdlog::log(level, "libllama: {}", line_.text);
    if (line_.level == GGML_LOG_LEVEL_ERROR || line_.level == GGML_LOG_LEVEL_WARN) {
      if (kept_.size() == kMostLines) kept_.pop_front();
      kept_.push_back(std::move(line_));
      ++lines_ended_;
    }
    line_ = {};
  }

  Mutex mutex_;
  LogLine line_ GUARDED_BY(mutex_);
  std::deque<LogLine> kept_ GUARDED_BY(mutex_);
  std::uint64_t lines_ended_ GUARDED_BY(mutex_) = 0;
};

LogRing& log_ring() {
  static LogRing ring;
  return ring;
}

// Statics are destroyed at the end of the process in the reverse of the order in which they were made, and an engine
// that is one of them logs when it is destroyed. Set before the first of the log's own statics is destroyed.
std::atomic<bool> process_ends = false;

void on_log(ggml_log_level level, const char* text, void*) {
  if (!process_ends) log_ring().write(level, text);
}

// "llama_model_load: error loading model: reason" -> "reason"; users do not need names of functions and files.
std::string_view without_origin(std::string_view line) {
  for (const std::string_view phrase : {"error loading model: ", "error loading model hyperparameters: "}) {
    if (const auto at = line.rfind(phrase); at != line.npos) line.remove_prefix(at + phrase.size());
  }
  const auto colon = line.find(": ");
  const auto blank = line.find(' ');
  if (colon != line.npos && colon < blank) line.remove_prefix(colon + 2);
  return line;
}

constexpr int kErrorExitCode = 1;

// libllama's callback takes no user data. Never freed, because threads may still read it while the process ends.
std::string& loading_path() {
  static auto* path = new std::string;
  return *path;
}

void end_with_a_line(const char* message) {
  // The server of an --rpc flag, which this process cannot do without any more.
  const bool is_remote = std::string_view(message).find("RPC") != std::string_view::npos;
  std::fprintf(
      stderr, "kvkeep: cannot load %s: %s (%s)\n", text::escaped(loading_path()).c_str(),
      is_remote ? "a server of --rpc failed" : "the file is damaged, or made in a way that libllama does not know",
      text::escaped(message).c_str());
  std::fflush(stderr);
  std::_Exit(kErrorExitCode);
}

}  // namespace

void start_library() {
  static const bool started = [] {
    log_ring();
    spdlog::default_logger_raw();
    std::atexit([] { process_ends = true; });
    llama_log_set(on_log, nullptr);
    ggml_backend_load_all();
    llama_backend_init();
    return true;
  }();
  static_cast<void>(started);
}

void catch_log(void (*set)(ggml_log_callback, void*)) { set(on_log, nullptr); }

std::uint64_t log_mark() { return log_ring().count(); }

std::string log_reason_since(std::uint64_t mark) { return std::string(without_origin(log_ring().reason_since(mark))); }

std::string list_devices() {
  start_library();
  std::string text = "Available devices:\n";
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
    text += std::string("  ") + ggml_backend_dev_name(device) + ": " + ggml_backend_dev_description(device) + " (" +
            std::to_string(total_bytes >> 20) + " MiB, " + std::to_string(free_bytes >> 20) + " MiB free)\n";
  }
  return text;
}

std::string library_versions() { return std::string(llama_version()) + ", ggml " + ggml_version(); }

AbortNet::AbortNet(const std::string& path) : before_(ggml_set_abort_callback(end_with_a_line)) {
  loading_path() = path;
}

AbortNet::~AbortNet() { ggml_set_abort_callback(before_); }

}  // namespace kvkeep::engine::llama
