#include "start_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <vector>

#include "os/own_addresses.h"
#include "served_urls.h"

namespace kvkeep::cli {
namespace {

void log_description(const engine::Description& model) {
  spdlog::info("model {} ({}), context of {} tokens", model.model_name, model.summary, model.context_tokens);
  spdlog::debug("fingerprint {}:\n{}", model.fingerprint.hex(), model.fingerprint_text);
  if (model.memory_class == engine::MemoryClass::kUncached) {
    spdlog::warn("this model is served without a prefix cache: {}", model.memory_class_reason);
    return;
  }
  spdlog::debug("how its memory was tried: {}", model.memory_class_reason);
  std::string state = fmt::format("{} bytes of rows per token", model.row_bytes_per_token);
  if (model.window_bytes_per_token > 0) state += fmt::format(", {} of window rows", model.window_bytes_per_token);
  if (model.point_bytes > 0)
    state += fmt::format(", {:.1f} MiB per point", static_cast<double>(model.point_bytes) / 1048576.0);
  spdlog::info("memory class {}: {}", to_string(model.memory_class), state);
}

// libllama gives out its cells in lots of 256.
void tell_rounded_context(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  if (!asked.n_ctx || *asked.n_ctx == model.context_tokens) return;
  spdlog::info("the context is {} tokens, not the {} of --ctx-size: libllama rounds up", model.context_tokens,
               *asked.n_ctx);
}

// No warning where the user scaled RoPE: the longer context was asked for.
void warn_of_long_context(const engine::llama::ModelOptions& asked, const engine::Description& model) {
  const bool scaled = asked.rope_scaling || asked.rope_frequency_scale || asked.rope_frequency_base;
  if (scaled || model.context_train_tokens == 0 || model.context_tokens <= model.context_train_tokens) return;
  spdlog::warn(
      "the context of {} tokens is larger than the {} that the model was trained with: replies to longer "
      "conversations may make no sense",
      model.context_tokens, model.context_train_tokens);
}

}  // namespace

void log_model(const engine::Description& model, const engine::llama::ModelOptions& asked) {
  log_description(model);
  tell_rounded_context(asked, model);
  warn_of_long_context(asked, model);
}

// Where conversations go, and where clients find the server.
void log_ready(const ReadyServer& server) {
  const std::string disk =
      server.disk.directory.empty()
          ? "nothing on disk"
          : fmt::format("disk budget {} MiB ({} MiB used), stored in clear in {}", server.disk.budget.value() >> 20,
                        server.cache.disk_used.value() >> 20, server.disk.directory);
  if (server.shape.cacheable) {
    spdlog::info("kv cache: {} tokens known, RAM budget {} MiB, {}", server.cache.tokens,
                 server.cache.ram_budget.value() >> 20, disk);
  }
  if (server.shape.needs_points())
    spdlog::debug("kv cache: anchor_user={}", server.options.cuts.anchor_user ? "on" : "off");
  const std::vector<std::string> urls = served_urls(server.options.http.host, server.port, os::own_addresses());
  spdlog::info("serving {}: OpenAI base URL {}/v1, Anthropic base URL {}", server.model_name, urls.front(),
               urls.front());
  if (urls.size() > 1) {
    spdlog::info("other machines reach it at {}", fmt::join(urls.begin() + 1, urls.end(), " or "));
  }
}

}  // namespace kvkeep::cli
