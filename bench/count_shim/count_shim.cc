// Counts what a server really computes: preloaded into it (LD_PRELOAD), this shim wraps the calls that give tokens to
// libllama and adds up those that succeeded. The count is in a small shared file, so that it survives kill -9:
//   KVKEEP_COUNT_FILE=path   24 bytes, each number a u64 in the machine's order: ids decoded, decode calls that
//   returned
//                            0, pieces of pictures and sounds that libmtmd encoded
// It covers both ways into libllama: llama_decode, and llama_process over a llama_batch_ext (which llama-server uses);
// and both ways into libmtmd: mtmd_encode_chunk, and batches of chunks. Embeddings count as ids.

#include <dlfcn.h>
#include <fcntl.h>
#include <llama.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace {

struct Counts {
  std::atomic<std::uint64_t> ids;
  std::atomic<std::uint64_t> calls;
  std::atomic<std::uint64_t> encoded;
};

// Of libmtmd, whose headers need not be there.
struct MtmdContext;
struct MtmdChunk;
struct MtmdBatch;

// The shared counters; a private pair if no file was named, so that the shim never breaks its host.
Counts& counts() {
  static Counts* const shared = [] {
    static Counts unshared{};
    const char* path = std::getenv("KVKEEP_COUNT_FILE");
    if (path == nullptr) return &unshared;
    const int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(Counts)) != 0) return &unshared;
    void* mapped = mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return mapped == MAP_FAILED ? &unshared : static_cast<Counts*>(mapped);
  }();
  return *shared;
}

void count(std::uint64_t ids) {
  counts().ids += ids;
  counts().calls += 1;
}

template <typename Function>
Function next(Function /*type*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Ids in each extended batch, and chunks in each batch of libmtmd, by its handle.
std::mutex batches_mutex;
std::unordered_map<const void*, std::uint64_t>& batches() {
  static std::unordered_map<const void*, std::uint64_t> map;
  return map;
}

void add_to_batch(const void* batch, bool was_added) {
  if (!was_added) return;
  const std::scoped_lock lock(batches_mutex);
  ++batches()[batch];
}

void forget_batch(const void* batch) {
  const std::scoped_lock lock(batches_mutex);
  batches().erase(batch);
}

}  // namespace

extern "C" {

std::int32_t llama_decode(llama_context* context, llama_batch batch) {
  static const auto real = next(&llama_decode, "llama_decode");
  const std::int32_t status = real(context, batch);
  if (status == 0) count(static_cast<std::uint64_t>(batch.n_tokens));
  return status;
}

std::int32_t llama_process(llama_context* context, llama_process_type type, llama_batch_ext* batch) {
  static const auto real = next(&llama_process, "llama_process");
  const std::int32_t status = real(context, type, batch);
  if (status == 0) {
    const std::scoped_lock lock(batches_mutex);
    count(batches()[batch]);
  }
  return status;
}

std::int32_t llama_batch_ext_add(llama_batch_ext* batch, llama_seq_id seq) {
  static const auto real = next(&llama_batch_ext_add, "llama_batch_ext_add");
  const std::int32_t index = real(batch, seq);
  add_to_batch(batch, index >= 0);
  return index;
}

std::int32_t llama_batch_ext_add_token(llama_batch_ext* batch, llama_seq_id seq, llama_token id) {
  static const auto real = next(&llama_batch_ext_add_token, "llama_batch_ext_add_token");
  const std::int32_t index = real(batch, seq, id);
  add_to_batch(batch, index >= 0);
  return index;
}

std::int32_t llama_batch_ext_add_embd(llama_batch_ext* batch, llama_seq_id seq, llama_embd embedding) {
  static const auto real = next(&llama_batch_ext_add_embd, "llama_batch_ext_add_embd");
  const std::int32_t index = real(batch, seq, embedding);
  add_to_batch(batch, index >= 0);
  return index;
}

void llama_batch_ext_clear(llama_batch_ext* batch) {
  static const auto real = next(&llama_batch_ext_clear, "llama_batch_ext_clear");
  {
    const std::scoped_lock lock(batches_mutex);
    batches()[batch] = 0;
  }
  real(batch);
}

void llama_batch_ext_free(llama_batch_ext* batch) {
  static const auto real = next(&llama_batch_ext_free, "llama_batch_ext_free");
  forget_batch(batch);
  real(batch);
}

std::int32_t mtmd_encode_chunk(MtmdContext* context, const MtmdChunk* chunk) {
  static const auto real = next(&mtmd_encode_chunk, "mtmd_encode_chunk");
  const std::int32_t status = real(context, chunk);
  if (status == 0) counts().encoded += 1;
  return status;
}

std::int32_t mtmd_batch_add_chunk(MtmdBatch* batch, const MtmdChunk* chunk) {
  static const auto real = next(&mtmd_batch_add_chunk, "mtmd_batch_add_chunk");
  const std::int32_t status = real(batch, chunk);
  add_to_batch(batch, status == 0);
  return status;
}

std::int32_t mtmd_batch_encode(MtmdBatch* batch) {
  static const auto real = next(&mtmd_batch_encode, "mtmd_batch_encode");
  const std::int32_t status = real(batch);
  if (status == 0) {
    const std::scoped_lock lock(batches_mutex);
    counts().encoded += std::exchange(batches()[batch], 0);
  }
  return status;
}

void mtmd_batch_free(MtmdBatch* batch) {
  static const auto real = next(&mtmd_batch_free, "mtmd_batch_free");
  forget_batch(batch);
  real(batch);
}

}  // extern "C"
