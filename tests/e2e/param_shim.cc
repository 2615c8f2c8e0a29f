// Writes down what a server asks of libllama when it loads a model and makes a context. Some flags can do no more on a
// machine without other devices, or with a model without experts; that they arrive is what a test can see of them.
//   KVKEEP_PARAM_FILE=path        one "name=value" per line, written at load (the trial of the memory's class apart)
//   KVKEEP_HIDE_BACKEND=name      libggml has no backend of this name
//   KVKEEP_SLOW_RESTORE_MS=n      setting a sequence's state takes that much longer (not in that trial)
//   KVKEEP_SLOW_READ_MS=n         each read of a file whose name ends in .kvs takes that much longer
//   KVKEEP_FAIL_READS_WHILE=path  reads of a file whose name ends in .kvs fail as long as `path` exists
//   KVKEEP_REFUSE_STATE_WHILE=path  setting a sequence's state fails as long as `path` exists
//   KVKEEP_FORGETFUL_CLONE=1      a sequence's state is never the same twice in the trial of the memory's class
//   KVKEEP_NO_CELLS=1             setting a sequence's state fails as if the context had no room for it
// Preloaded (LD_PRELOAD), like the counting shim.

#include <dlfcn.h>
#include <ggml-backend.h>
#include <llama.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <typename Function>
Function next(Function /*type*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void write_model(std::FILE* file, const llama_model_params& params) {
  std::fprintf(file, "n_gpu_layers=%d\nsplit_mode=%d\nmain_gpu=%d\n", params.n_gpu_layers, int(params.split_mode),
               params.main_gpu);
  std::fprintf(file, "load_mode=%s\n", llama_load_mode_name(params.load_mode));
  std::fprintf(file, "check_tensors=%d\nrepack=%d\nno_host=%d\n", params.check_tensors, params.use_extra_bufts,
               params.no_host);
  if (params.tensor_split != nullptr) {
    std::fprintf(file, "tensor_split=%g,%g\n", double(params.tensor_split[0]), double(params.tensor_split[1]));
  }
  std::fprintf(file, "devices=");
  for (auto* device = params.devices; device != nullptr && *device != nullptr; ++device) {
    std::fprintf(file, "%s,", ggml_backend_dev_name(*device));
  }
  std::fprintf(file, "%s\n", params.devices == nullptr ? "all" : "");
  for (const auto* placed = params.tensor_buft_overrides; placed != nullptr && placed->pattern != nullptr; ++placed) {
    std::fprintf(file, "placed=%s=%s\n", placed->pattern, ggml_backend_buft_name(placed->buft));
  }
}

void write_context(std::FILE* file, const llama_context_params& params) {
  std::fprintf(file, "n_ctx=%u\nn_batch=%u\nn_ubatch=%u\n", params.n_ctx, params.n_batch, params.n_ubatch);
  std::fprintf(file, "kv_unified=%d\n", params.kv_unified);
  std::fprintf(file, "n_threads=%d\nn_threads_batch=%d\n", params.n_threads, params.n_threads_batch);
  std::fprintf(file, "flash_attention=%d\nkv_offload=%d\nswa_full=%d\nop_offload=%d\n", int(params.flash_attn_type),
               params.offload_kqv, params.swa_full, params.op_offload);
}

// Set once this process loaded a model's file: the trial of a memory's class makes contexts of a clone that has none.
bool serves_a_file = false;
const llama_model* served = nullptr;

ggml_log_callback log_callback = nullptr;
void* log_data = nullptr;

bool has_no_cells(const llama_context* context) {
  return std::getenv("KVKEEP_NO_CELLS") != nullptr && llama_get_model(context) == served;
}

template <typename Write>
void append(Write write) {
  const char* path = std::getenv("KVKEEP_PARAM_FILE");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    write(file);
    std::fclose(file);
  }
}

bool has_stored_state(int descriptor) {
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  char path[4096];
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  return length >= 4 && std::memcmp(path + length - 4, ".kvs", 4) == 0;
}

// Returns false if the read is to fail.
bool may_read(int descriptor) {
  const char* const slow_ms = std::getenv("KVKEEP_SLOW_READ_MS");
  const char* const fails_while = std::getenv("KVKEEP_FAIL_READS_WHILE");
  if ((slow_ms == nullptr && fails_while == nullptr) || !has_stored_state(descriptor)) return true;
  if (slow_ms != nullptr) usleep(static_cast<useconds_t>(std::atoi(slow_ms)) * 1000);
  if (fails_while == nullptr || access(fails_while, F_OK) != 0) return true;
  errno = EIO;
  return false;
}

}  // namespace

extern "C" {

ssize_t pread(int descriptor, void* bytes, std::size_t size, off_t offset) {
  static const auto real = next(&pread, "pread");
  return may_read(descriptor) ? real(descriptor, bytes, size, offset) : -1;
}

ssize_t pread64(int descriptor, void* bytes, std::size_t size, off64_t offset) {
  static const auto real = next(&pread64, "pread64");
  return may_read(descriptor) ? real(descriptor, bytes, size, offset) : -1;
}

llama_model* llama_model_load_from_file(const char* path, llama_model_params params) {
  static const auto real = next(&llama_model_load_from_file, "llama_model_load_from_file");
  append([&](std::FILE* file) { write_model(file, params); });
  serves_a_file = true;
  llama_model* const loaded = real(path, params);
  served = loaded;
  return loaded;
}

ggml_backend_reg_t ggml_backend_reg_by_name(const char* name) {
  static const auto real = next(&ggml_backend_reg_by_name, "ggml_backend_reg_by_name");
  const char* hidden = std::getenv("KVKEEP_HIDE_BACKEND");
  return hidden != nullptr && std::strcmp(hidden, name) == 0 ? nullptr : real(name);
}

void llama_numa_init(ggml_numa_strategy strategy) {
  static const auto real = next(&llama_numa_init, "llama_numa_init");
  append([&](std::FILE* file) { std::fprintf(file, "numa=%d\n", int(strategy)); });
  real(strategy);
}

llama_context* llama_init_from_model(llama_model* model, llama_context_params params) {
  static const auto real = next(&llama_init_from_model, "llama_init_from_model");
  if (serves_a_file) append([&](std::FILE* file) { write_context(file, params); });
  return real(model, params);
}

std::size_t llama_state_seq_get_data_ext(llama_context* context, std::uint8_t* bytes, std::size_t size,
                                         llama_seq_id seq, llama_state_seq_flags flags) {
  static const auto real = next(&llama_state_seq_get_data_ext, "llama_state_seq_get_data_ext");
  static std::uint8_t reads = 0;
  const std::size_t written = real(context, bytes, size, seq, flags);
  const bool is_trial = !serves_a_file && std::getenv("KVKEEP_FORGETFUL_CLONE") != nullptr;
  if (is_trial && written > 0) bytes[written - 1] = ++reads;
  return written;
}

std::size_t llama_state_seq_set_data_ext(llama_context* context, const std::uint8_t* bytes, std::size_t size,
                                         llama_seq_id seq, llama_state_seq_flags flags) {
  static const auto real = next(&llama_state_seq_set_data_ext, "llama_state_seq_set_data_ext");
  if (const char* slow_ms = std::getenv("KVKEEP_SLOW_RESTORE_MS"); slow_ms != nullptr && serves_a_file) {
    usleep(static_cast<useconds_t>(std::atoi(slow_ms)) * 1000);
  }
  if (const char* path = std::getenv("KVKEEP_REFUSE_STATE_WHILE"); path != nullptr && access(path, F_OK) == 0) return 0;
  if (has_no_cells(context)) {
    log_callback(GGML_LOG_LEVEL_ERROR, "state_read_meta: failed to find available cells in kv cache\n", log_data);
    return 0;
  }
  return real(context, bytes, size, seq, flags);
}

void llama_log_set(ggml_log_callback callback, void* data) {
  static const auto real = next(&llama_log_set, "llama_log_set");
  log_callback = callback;
  log_data = data;
  real(callback, data);
}

}  // extern "C"
