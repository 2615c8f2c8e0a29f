#include "server/routes/adapters.h"

#include "server/api/generation_fields.h"
#include "server/api/json_body.h"

namespace kvkeep::server {
namespace {

engine::AdapterScales scales_of(const std::vector<engine::LoraAdapter>& adapters) {
  engine::AdapterScales scales;
  for (const engine::LoraAdapter& adapter : adapters) scales.push_back(adapter.scale);
  return scales;
}

}  // namespace

Adapters::Adapters(std::vector<engine::LoraAdapter> loaded)
    : loaded_(std::move(loaded)), start_(scales_of(loaded_)), now_(start_) {}

engine::AdapterScales Adapters::for_job(const std::optional<engine::AdapterScales>& asked) const {
  const MutexLock lock(mutex_);
  const engine::AdapterScales& scales = asked ? *asked : now_;
  return scales == start_ ? engine::AdapterScales() : scales;
}

std::string Adapters::list() const {
  api::Json list = api::Json::array();
  const MutexLock lock(mutex_);
  for (std::size_t id = 0; id < loaded_.size(); ++id) {
    list.push_back({{"id", id},
                    {"path", loaded_[id].path},
                    {"scale", now_[id]},
                    {"task_name", loaded_[id].task_name},
                    {"prompt_prefix", loaded_[id].prompt_prefix}});
  }
  return api::to_line(list);
}

Status Adapters::set(std::string body) {
  TRY_ASSIGN(const api::Json asked, api::parse_array_body(std::move(body)));
  TRY_ASSIGN(engine::AdapterScales scales, api::read_adapter_scales(asked, "the request body", loaded_.size()));
  const MutexLock lock(mutex_);
  now_ = std::move(scales);
  return {};
}

}  // namespace kvkeep::server
