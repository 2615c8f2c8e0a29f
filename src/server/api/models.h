#pragma once

// GET /v1/models and GET /health. One list object serves OpenAI's and Anthropic's clients, and launchers that know
// Ollama's `models`: each reads its own fields.

#include <cstdint>
#include <string>
#include <vector>

namespace kvkeep::server::api {

struct ModelCard {
  std::string id;              // the name under which the model is served
  std::int64_t created_s = 0;  // seconds since 1970
  std::size_t vocabulary_size = 0;
  std::size_t context_tokens = 0;  // a request may use this many
  std::size_t trained_context_tokens = 0;
  std::size_t embedding_size = 0;
  std::uint64_t parameters = 0;
  std::uint64_t size_bytes = 0;         // of the weights
  int vocabulary_type = 0;              // libllama's number for the kind of tokenizer
  std::string file_type = {};           // how most weights are quantized: "Q8_0"
  std::vector<std::string> names = {};  // that the operator gave; requests may use any of them
  std::vector<std::string> tags = {};   // the operator's words about the model; they change nothing
  bool pictures = false;                // the model takes them
  bool sound = false;
};

// One entry, as llama-server's; "models" is the list as Ollama's clients read it.
std::string models_reply(const ModelCard& model);
// Describes the model without the list around it.
std::string model_reply(const ModelCard& model);
std::string health_reply();

// Returns a time such as 2024-06-11T10:00:00Z.
std::string rfc3339(std::int64_t seconds);

}  // namespace kvkeep::server::api
