#include "engine/llama/thread_pools.h"

#include <fmt/format.h>
#include <ggml-cpu.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "os/machine.h"
#include "os/process.h"
#include "os/threads.h"

namespace kvkeep::engine::llama {
namespace {

static_assert(int{GGML_SCHED_PRIO_LOW} == -1 && int{GGML_SCHED_PRIO_NORMAL} == 0 && int{GGML_SCHED_PRIO_REALTIME} == 3);

ggml_backend_reg_t cpu_backend() {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  return device == nullptr ? nullptr : ggml_backend_dev_backend_reg(device);
}

// libggml loads its code for processors when it knows them, so that functions are found by their names.
template <typename Function>
Function cpu_function(const char* name) {
  ggml_backend_reg_t const backend = cpu_backend();
  return backend == nullptr ? nullptr : reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(backend, name));
}

bool computes_with_openmp() {
  const auto features = cpu_function<ggml_backend_get_features_t>("ggml_backend_get_features");
  if (features == nullptr) return false;
  for (const ggml_backend_feature* one = features(cpu_backend()); one->name != nullptr; ++one) {
    if (std::string_view(one->name) == "OPENMP") return true;
  }
  return false;
}

ThreadRules batch_rules(const ModelOptions& options) { return options.thread_rules_batch.over(options.thread_rules); }

Result<ThreadRules> allowed_rules(ThreadRules rules, const std::vector<std::uint32_t>& allowed) {
  if (rules.processors.empty() && rules.one_each) rules.processors = allowed;
  if (rules.processors.empty()) return rules;
  std::vector<std::uint32_t> usable;
  std::ranges::set_intersection(rules.processors, allowed, std::back_inserter(usable));
  if (usable.empty()) {
    return invalid(
        fmt::format("--cpu-mask and --cpu-range name no processor that this process may use: those are {} "
                    "to {}, {} of them",
                    allowed.empty() ? 0 : allowed.front(), allowed.empty() ? 0 : allowed.back(), allowed.size()));
  }
  rules.processors = std::move(usable);
  return rules;
}

ggml_threadpool* new_pool(const ThreadRules& rules, int threads) {
  const auto make = cpu_function<decltype(&ggml_threadpool_new)>("ggml_threadpool_new");
  if (make == nullptr) return nullptr;
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);
  std::ranges::fill(params.cpumask, false);
  for (const std::uint32_t processor : rules.processors) {
    if (processor < GGML_MAX_N_THREADS) params.cpumask[processor] = true;
  }
  params.strict_cpu = rules.one_each;
  params.prio = static_cast<ggml_sched_priority>(rules.priority);
  params.poll = static_cast<std::uint32_t>(rules.poll);
  params.paused = true;  // the first computation wakes it
  return make(&params);
}

}  // namespace

std::string spin_count(const ModelOptions& options) {
  constexpr int kTurnsPerStep = 6'000;  // 50 is then the library's own default
  return std::to_string(options.thread_rules.poll * kTurnsPerStep);
}

Result<Waiting> check_waiting(const ModelOptions& options, const std::string& spin_set) {
  const int poll = options.thread_rules.poll;
  const bool is_default = poll == ThreadRules::kDefaultPoll && batch_rules(options).poll == poll;
  if (is_default) return Waiting::kAsAsked;
  start_library();
  if (!computes_with_openmp()) return Waiting::kAsAsked;
  if (batch_rules(options).poll != poll) {
    return unsupported(
        "--poll-batch other than --poll is not supported: libggml computes with OpenMP here, whose threads wait in one "
        "way");
  }
  if (!os::has_loaded("libgomp")) {
    return unsupported("--poll is not supported: libggml computes with an OpenMP library here that is not GNU's");
  }
  return spin_set == spin_count(options) ? Waiting::kAsAsked : Waiting::kWithAVariable;
}

Result<BothRules> complete_rules(const ModelOptions& options, const std::vector<std::uint32_t>& allowed) {
  TRY_ASSIGN(ThreadRules single, allowed_rules(options.thread_rules, allowed));
  TRY_ASSIGN(ThreadRules batch, allowed_rules(batch_rules(options), allowed));
  // The same threads may compute both, and libggml leaves them as they were where a rule says nothing.
  if (single.processors.empty() != batch.processors.empty()) {
    (single.processors.empty() ? single : batch).processors = allowed;
  }
  if ((single.priority == 0) != (batch.priority == 0)) {
    return invalid(fmt::format(
        "--prio {} and --prio-batch {} cannot be combined: the same threads compute both, and libggml does not "
        "take a priority back; leave --prio-batch out, or give both one other than 0",
        single.priority, batch.priority));
  }
  return BothRules{std::move(single), std::move(batch)};
}

Result<std::shared_ptr<ThreadPools>> ThreadPools::make(const ModelOptions& options) {
  if (options.thread_rules == ThreadRules{} && batch_rules(options) == ThreadRules{}) {
    return std::shared_ptr<ThreadPools>();
  }
  TRY_ASSIGN(const BothRules rules, complete_rules(options, os::allowed_processors()));
  for (const ThreadRules* each : {&rules.single, &rules.batch}) {
    if (const Status permitted = os::check_priority(each->priority); !permitted) {
      return invalid("--prio: " + permitted.error().message);
    }
  }
  const int threads = options.threads.value_or(static_cast<int>(os::core_count()));
  std::shared_ptr<ThreadPools> pools(new ThreadPools());
  pools->single_ = {rules.single, threads, new_pool(rules.single, threads)};
  const int threads_batch = options.threads_batch.value_or(threads);
  pools->batch_ = {rules.batch, threads_batch, new_pool(rules.batch, threads_batch)};
  if (pools->single_.made == nullptr || pools->batch_.made == nullptr) {
    return unsupported("libggml makes no pools of threads here: leave out --cpu-mask, --cpu-range, --prio and --poll");
  }
  return pools;
}

ThreadPools::~ThreadPools() {
  const auto free = cpu_function<decltype(&ggml_threadpool_free)>("ggml_threadpool_free");
  for (const Pool* pool : {&single_, &batch_}) {
    if (pool->made != nullptr && free != nullptr) free(pool->made);
  }
}

void ThreadPools::attach(llama_context& context) const { llama_attach_threadpool(&context, single_.made, batch_.made); }

void ThreadPools::begin(std::size_t tokens) {
  const Pool& pool = tokens > 1 ? batch_ : single_;
  if (pool.threads > 1) {  // libggml places them all, this one included
    placed_for_ = nullptr;
    return;
  }
  if (placed_for_ == &pool) return;
  placed_for_ = &pool;
  std::vector<std::uint32_t> processors = pool.rules.processors;
  if (pool.rules.one_each) processors.resize(1);
  if (const Status placed = os::place_this_thread(processors, pool.rules.priority); !placed) {
    spdlog::warn("threads are not placed as the flags say: {}", placed.error().message);
  }
}

}  // namespace kvkeep::engine::llama
