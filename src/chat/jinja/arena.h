#pragma once

// Memory of one render (or of one parsed template's constants): allocated piece by piece, freed all at once.
//
// No destructors run, so only trivially destructible things live there. That makes reference counts needless, cycles
// harmless and leaks impossible. Allocated values stay valid and unmoved as long as the arena lives.
//
// Not thread safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace kvkeep::chat::jinja {

class Arena {
 public:
  // Throws Failure once more than `limit_bytes` were asked for.
  explicit Arena(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Aligned to 8 bytes, not initialised.
  void* allocate(std::size_t bytes);

  template <typename T, typename... Arguments>
  T* make(Arguments&&... arguments) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    return new (allocate(sizeof(T))) T{std::forward<Arguments>(arguments)...};
  }
  template <typename T>
  T* make_array(std::size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    T* array = static_cast<T*>(allocate(checked_bytes(count, sizeof(T))));
    std::uninitialized_default_construct_n(array, count);
    return array;
  }

 private:
  static constexpr std::size_t kAlignment = 8;
  std::size_t checked_bytes(std::size_t count, std::size_t each) const;

  const std::size_t limit_bytes_;
  std::size_t used_bytes_ = 0;
  std::size_t next_chunk_bytes_ = std::size_t{16} * 1024;
  std::byte* free_ = nullptr;
  std::size_t free_bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
};

}  // namespace kvkeep::chat::jinja
