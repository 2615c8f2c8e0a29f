#include "serve_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"  // std::mutex
#include "http_setup.h"
#include "os/append_file.h"
#include "os/network.h"
#include "text/terminal.h"

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

spdlog::color_mode color_mode(const LogOptions& options) {
  if (!options.colors) return spdlog::color_mode::automatic;
  return *options.colors ? spdlog::color_mode::always : spdlog::color_mode::never;
}

// Writes lines to a file that other programs may rotate. The log names paths and requests, so a new file is readable by
// its owner only, as the cache is. spdlog reports errors, once a second at most, to standard error.
class LogFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LogFile(os::AppendFile file) : file_(std::move(file)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    check(file_.append({line.data(), line.size()}));
  }
  // Lines are written at once. A file that was renamed is made anew.
  void flush_() override { check(file_.reopen()); }
  static void check(const Status& status) {
    if (!status) throw spdlog::spdlog_ex(status.error().message);
  }

  os::AppendFile file_;
};

// Messages have words of clients, of answers of other servers and of model files, which must neither steer a terminal
// nor look like lines of their own.
class TextFormatter final : public spdlog::formatter {
 public:
  explicit TextFormatter(std::string pattern) : pattern_(std::move(pattern)), formatter_(pattern_) {}
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    constexpr std::size_t kIndent = 2;
    const std::string text = text::escaped({message.payload.data(), message.payload.size()}, kIndent);
    spdlog::details::log_msg printable = message;
    printable.payload = text;
    formatter_.format(printable, line);
    message.color_range_start = printable.color_range_start;
    message.color_range_end = printable.color_range_end;
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<TextFormatter>(pattern_); }

 private:
  const std::string pattern_;
  spdlog::pattern_formatter formatter_;
};

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    using std::chrono::milliseconds;
    const auto time = std::chrono::duration_cast<milliseconds>(message.time.time_since_epoch());
    const auto level = spdlog::level::to_string_view(message.level);
    const std::string text = json_log_line(time.count(), {level.data(), level.size()},
                                           {message.payload.data(), message.payload.size()}, WithLogFields::current());
    line.append(text.data(), text.data() + text.size());
    line.push_back('\n');
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<JsonFormatter>(); }
};

// A GPU without its backend computes nothing, and libllama says so nowhere.
void warn_of_missing_gpu(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  if (model.uses_gpu || !asked.devices.empty() || asked.gpu_layers.value_or(0) == 0) return;
  spdlog::warn(
      "--n-gpu-layers asks for layers on a GPU, but ggml found no GPU that it has a backend for: the CPU computes "
      "everything. Install a backend (on Debian libggml0-backend-vulkan) and start again; kvkeep serve --list-devices "
      "shows the devices, docs/building.md has more");
}

void log_description(const engine::Description& model) {
  spdlog::info("loaded {} ({}) with a context of {} tokens", model.model_name, model.summary, model.context_tokens);
  spdlog::info("computes on {}", model.devices);
  spdlog::debug("fingerprint {}:\n{}", model.fingerprint.hex(), model.fingerprint_text);
  if (model.memory_class == engine::MemoryClass::kUncached) {
    spdlog::warn("this model is served without a prefix cache: {}", model.memory_class_reason);
    return;
  }
  spdlog::debug("memory class, as found by a trial of the model's memory: {}", model.memory_class_reason);
  std::string state = fmt::format("{} bytes of rows per token", model.row_bytes_per_token);
  if (model.window_bytes_per_token > 0) state += fmt::format(", {} of window rows", model.window_bytes_per_token);
  if (model.point_bytes > 0)
    state += fmt::format(", {:.1f} MiB per point", static_cast<double>(model.point_bytes) / 1048576.0);
  spdlog::info("memory class {}: {}", to_string(model.memory_class), state);
}

// libllama allocates cells in multiples of 256.
void tell_rounded_context(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  const std::uint32_t tokens = model.own_cells ? model.context_tokens * asked.parallel : model.context_tokens;
  if (!asked.n_ctx || *asked.n_ctx == tokens) return;
  spdlog::info("the context is {} tokens, not the {} of --ctx-size: libllama rounds {}", tokens, *asked.n_ctx,
               tokens > *asked.n_ctx ? "up" : "down");
}

void tell_cells(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  if (model.memory_class == engine::MemoryClass::kRecurrent) {
    spdlog::info("each running request has a state of its own; there are no cells to share");
  } else if (!model.no_own_cells.empty()) {
    spdlog::warn(
        "all running requests share one pool of cells, although --no-kv-unified asks for cells of their own: {}",
        model.no_own_cells);
  } else if (model.own_cells) {
    spdlog::info(
        "each of {} running requests has {} cells of its own, of a context of {}: longer prompts are refused; raise -c "
        "or lower -np for them",
        asked.parallel, model.context_tokens, model.context_tokens * asked.parallel);
  } else {
    const std::string other = model.can_lay_out ? fmt::format(", or have {} of their own each while that is faster",
                                                              model.context_tokens / asked.parallel)
                                                : std::string();
    spdlog::info("all running requests share one pool of {} cells{}", model.context_tokens, other);
  }
}

// A token's rows are then computed otherwise by itself than among others.
void warn_of_noise(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  if (!asked.repeatable) return;
  if (model.uses_gpu) {
    spdlog::warn(
        "--repeatable: text may still depend on whether a reply's state was cached, because GPUs may compute a token "
        "otherwise in another batch; pass -ngl 0");
  }
  if (is_quantized(asked.type_k) && is_quantized(asked.type_v)) return;
  spdlog::warn(
      "--repeatable: with keys of type {} and values of type {}, text may still depend on whether a reply's state was "
      "cached; pass -ctk q8_0 -ctv q8_0 -fa on",
      to_string(asked.type_k), to_string(asked.type_v));
}

// A user who scaled RoPE asked for the longer context: no warning.
void warn_of_long_context(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  const bool scaled = asked.rope_scaling || asked.rope_frequency_scale || asked.rope_frequency_base;
  if (scaled || model.context_train_tokens == 0 || model.context_tokens <= model.context_train_tokens) return;
  spdlog::warn(
      "the context of {} tokens is larger than the {} that the model was trained with: replies in longer conversations "
      "may make no sense; pass -c {}",
      model.context_tokens, model.context_train_tokens, model.context_train_tokens);
}

void log_reach(const std::string& model_name, const Reach& reach, bool needs_key) {
  std::vector<std::string> places = reach.urls;
  for (const std::string& path : reach.socket_paths) places.push_back("the Unix socket " + path);
  const std::string url = reach.urls.empty() ? "http://localhost" : reach.urls.front();  // any host name will do
  const std::string line =
      fmt::format("serving {}: OpenAI base URL {}/v1, Anthropic base URL {}", model_name, url, url);
  if (reach.urls.empty()) {
    spdlog::info("{}, at {}", line, fmt::join(places, " and "));
  } else if (places.size() > 1) {
    spdlog::info("{}; also at {}", line, fmt::join(places.begin() + 1, places.end(), " and "));
  } else {
    spdlog::info("{}", line);
  }
  spdlog::info("in a client set OPENAI_BASE_URL={0}/v1 or ANTHROPIC_BASE_URL={0}, {1}; docs/clients.md has more", url,
               needs_key ? "and one of this server's API keys" : "and any API key");
  if (!reach.wide_urls.empty()) spdlog::info("other machines reach it at {}", fmt::join(reach.wide_urls, " or "));
}

}  // namespace

Status set_up_log(const LogOptions& options) {
  std::vector<spdlog::sink_ptr> sinks;
  if (!options.disabled) sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>(color_mode(options)));
  if (!options.file.empty()) {
    auto file = os::AppendFile::open(options.file);
    if (!file) return Error{file.error().kind, "--log-file: " + file.error().message};
    sinks.push_back(std::make_shared<LogFile>(std::move(*file)));
  }
  auto logger = std::make_shared<spdlog::logger>("kvkeep", sinks.begin(), sinks.end());
  logger->set_level(level_of(options.verbosity));
  if (options.json) {
    logger->set_formatter(std::make_unique<JsonFormatter>());
  } else {
    logger->set_formatter(std::make_unique<TextFormatter>(
        fmt::format("{}{}%v", options.timestamps ? "%Y-%m-%d %H:%M:%S.%e " : "", options.prefix ? "%^%l%$ " : "")));
  }
  // Details after a crash would be lost in a buffer: flush each line.
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return {};
}

void log_model(const engine::Description& model, const engine::llama::ModelOptions& asked) {
  log_description(model);
  warn_of_missing_gpu(asked, model);
  tell_rounded_context(asked, model);
  tell_cells(asked, model);
  warn_of_noise(asked, model);
  warn_of_long_context(asked, model);
}

namespace {

// Files of --path may have a page of their own at "/".
void tell_page(const ReadyServer& server, const Reach& reach) {
  if (!server.options.serves_page || !server.options.web_directory.empty() || reach.urls.empty()) return;
  spdlog::info("open {}/ in a browser to see what runs and what is cached; kvkeep top shows it in a terminal",
               reach.urls.front());
}

}  // namespace

// Logs where conversations are stored, and the URLs for clients.
void log_ready(const ReadyServer& server) {
  const std::string disk =
      server.disk.directory.empty()
          ? "nothing on disk"
          : fmt::format("disk budget {} MiB ({} MiB used), stored in clear in {}", server.disk.budget.value() >> 20,
                        server.cache.disk_used.value() >> 20, server.disk.directory);
  if (server.shape.cacheable) {
    spdlog::info("kv cache: {} tokens stored, RAM budget {} MiB, {}", server.cache.tokens,
                 server.cache.ram_budget.value() >> 20, disk);
  }
  if (server.shape.needs_points())
    spdlog::debug("kv cache: anchor_user={}", server.options.cuts.anchor_user ? "on" : "off");
  const bool needs_key = !server.options.http.api_keys.empty() || !server.options.api_key_file.empty();
  const Reach reach = reach_of(server.places, os::own_addresses());
  log_reach(server.model_name, reach, needs_key);
  tell_page(server, reach);
}

}  // namespace kvkeep::cli
