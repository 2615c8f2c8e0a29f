#include "log_setup.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <vector>

#include "os/file_system.h"

namespace kvkeep::cli {

namespace {

spdlog::level::level_enum level_of(int verbosity) {
  switch (verbosity) {
    case 0:
    case 1: return spdlog::level::err;
    case 2: return spdlog::level::warn;
    case 3: return spdlog::level::info;
    case 4: return spdlog::level::debug;
    default: return spdlog::level::trace;
  }
}

// The log names paths and requests, so a new one is for its owner alone, as the cache is. A file that is there keeps
// its mode, and what cannot be made here is told by the sink, which opens it.
Status make_private(const std::string& path) {
  const auto created = os::real_file_system().create(path);
  if (created || created.error().kind == ErrorKind::kInvalid) return {};  // new, or there already
  return Error{created.error().kind, "--log-file: " + created.error().message};
}

}  // namespace

Status set_up_log(const LogOptions& options) {
  std::vector<spdlog::sink_ptr> sinks;
  try {
    if (!options.disabled) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    if (!options.file.empty()) {
      TRY(make_private(options.file));
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file));
    }
  } catch (const spdlog::spdlog_ex& failure) {
    return invalid(std::string("--log-file: ") + failure.what());
  }
  auto logger = std::make_shared<spdlog::logger>("kvkeep", sinks.begin(), sinks.end());
  logger->set_level(level_of(options.verbosity));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  // A log that is lost with the process is no help after a crash.
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

}  // namespace kvkeep::cli
