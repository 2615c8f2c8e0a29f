#include "server/api/models.h"

#include <fmt/format.h>

#include <chrono>

#include "server/api/json_body.h"

namespace kvkeep::server::api {

std::string rfc3339(std::int64_t seconds) {
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

namespace {

Json model_entry(const ModelCard& model) {
  const Json text = Json::array({"text"});
  Json input = text;
  if (model.pictures) input.push_back("image");
  if (model.sound) input.push_back("audio");
  const Json meta = {
      {"vocab_type", model.vocabulary_type},
      {"n_vocab", model.vocabulary_size},
      {"n_ctx", model.context_tokens},
      {"n_ctx_train", model.trained_context_tokens},
      {"n_embd", model.embedding_size},
      {"n_params", model.parameters},
      {"size", model.size_bytes},
      {"ftype", model.file_type},
  };
  return {
      {"id", model.id},
      {"object", "model"},
      {"created", model.created_s},
      {"owned_by", "kvkeep"},
      {"type", "model"},
      {"display_name", model.id},
      {"aliases", model.names},
      {"tags", model.tags},
      {"architecture", {{"input_modalities", std::move(input)}, {"output_modalities", text}}},
      {"created_at", rfc3339(model.created_s)},
      {"meta", meta},
  };
}

// llama-server leaves empty what it does not know.
Json ollama_entry(const ModelCard& model) {
  const Json details = {{"parent_model", ""}, {"format", "gguf"},     {"family", ""},
                        {"families", {""}},   {"parameter_size", ""}, {"quantization_level", ""}};
  Json capabilities = Json::array({"completion"});
  if (model.pictures || model.sound) capabilities.push_back("multimodal");
  return {
      {"name", model.id},  {"model", model.id},  {"modified_at", ""},
      {"size", ""},        {"digest", ""},       {"type", "model"},
      {"description", ""}, {"tags", {""}},       {"capabilities", std::move(capabilities)},
      {"parameters", ""},  {"details", details},
  };
}

}  // namespace

std::string models_reply(const ModelCard& model) {
  return to_line({{"models", Json::array({ollama_entry(model)})},
                  {"object", "list"},
                  {"data", Json::array({model_entry(model)})},
                  {"has_more", false},
                  {"first_id", model.id},
                  {"last_id", model.id}});
}

std::string model_reply(const ModelCard& model) { return to_line(model_entry(model)); }

std::string health_reply() { return R"({"status":"ok"})"; }

}  // namespace kvkeep::server::api
