#pragma once

// LoRA adapters whose scales requests may choose: llama-server's /lora-adapters, and the field `lora`.
//
// State that was computed with other scales is other state. A job with scales of its own therefore has a tenant of its
// own (with_adapters()), in every tier.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/sampling.h"

namespace kvkeep::server {

// The adapters, and the scales for requests that name none. Thread safe.
class Adapters {
 public:
  // All scales are those of the start.
  explicit Adapters(std::vector<engine::LoraAdapter> loaded);

  std::size_t size() const { return loaded_.size(); }
  // Returns the scales of a job whose request asks for `asked`: empty if they are the start's, as Job::adapters.
  engine::AdapterScales for_job(const std::optional<engine::AdapterScales>& asked = {}) const;
  // Returns [{"id", "path", "scale", "task_name", "prompt_prefix"}].
  std::string list() const;
  // Sets the scales of later requests by a body as of the field `lora`. kInvalid as api::read_adapter_scales().
  Status set(std::string body);

 private:
  const std::vector<engine::LoraAdapter> loaded_;
  const engine::AdapterScales start_;
  mutable Mutex mutex_;
  engine::AdapterScales now_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
