#include "engine/gguf/model_identity.h"

#include <gguf.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace kvkeep::gguf {
namespace {

constexpr std::uint64_t kSampleBytes = 4096;
constexpr std::uint64_t kSmallTensorBytes = std::uint64_t{1} << 20;  // hashed as a whole
constexpr std::uint64_t kSamples = 16;                               // of a larger tensor
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

using Header = std::unique_ptr<gguf_context, decltype(&gguf_free)>;

// Reads exactly the bytes [begin, begin + size) into the hash.
Status append_range(os::File& file, const std::string& path, std::uint64_t begin, std::uint64_t size,
                    std::vector<std::byte>& buffer, ByteHasher& hasher, const AfterMebibyte& after = {}) {
  while (size > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size, buffer.size()));
    TRY_ASSIGN(const std::size_t count, file.read_at(begin, MutableByteSpan(buffer).first(wanted)));
    if (count == 0) return damaged(path + " is truncated");
    hasher.append(ByteSpan(buffer).first(count));
    begin += count;
    size -= count;
    if (after) TRY(after());
  }
  return {};
}

// ggml writes a long explanation about a file that is not GGUF to stderr; this check replaces it by one line.
Status check_magic(os::File& file, const std::string& path) {
  std::array<std::byte, 4> magic{};
  TRY_ASSIGN(const std::size_t count, file.read_at(0, magic));
  if (count != magic.size() || std::memcmp(magic.data(), GGUF_MAGIC, magic.size()) != 0) {
    return damaged(path + " is not a GGUF file");
  }
  return {};
}

Result<Header> parse_header(const std::string& path) {
  Header header(gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}), gguf_free);
  if (!header) return damaged(path + " has a damaged or truncated GGUF header");
  return header;
}

struct Extent {
  std::uint64_t begin;
  std::uint64_t size;
};

Extent tensor_extent(const gguf_context* header, std::int64_t index) {
  return {gguf_get_data_offset(header) + gguf_get_tensor_offset(header, index), gguf_get_tensor_size(header, index)};
}

Status check_length(const gguf_context* header, std::uint64_t file_size, const std::string& path) {
  std::uint64_t needed = gguf_get_data_offset(header);
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header); ++i) {
    const Extent extent = tensor_extent(header, i);
    needed = std::max(needed, extent.begin + extent.size);
  }
  // The padding after the last tensor may be absent; the header's padding is always there if there is a tensor.
  if (gguf_get_n_tensors(header) == 0 || file_size >= needed) return {};
  return damaged(path + " is truncated: " + std::to_string(file_size) + " of " + std::to_string(needed) + " bytes");
}

// Spread evenly, the first and the last bytes among them.
std::vector<Extent> samples_of(Extent tensor) {
  if (tensor.size <= kSmallTensorBytes) return {tensor};
  std::vector<Extent> samples;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    samples.push_back({tensor.begin + (tensor.size - kSampleBytes) / (kSamples - 1) * i, kSampleBytes});
  }
  samples.back().begin = tensor.begin + tensor.size - kSampleBytes;
  return samples;
}

// The beginning, the middle and the end; the whole tensor if these would overlap.
std::vector<Extent> former_samples_of(Extent tensor) {
  if (tensor.size <= 3 * kSampleBytes) return {tensor};
  const std::uint64_t middle = tensor.begin + (tensor.size - kSampleBytes) / 2;
  return {
      {tensor.begin, kSampleBytes}, {middle, kSampleBytes}, {tensor.begin + tensor.size - kSampleBytes, kSampleBytes}};
}

Status append_part(const OpenFile& open, const std::string& path, IdentityDepth depth, ByteHasher& hasher,
                   const AfterMebibyte& after) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, open(path));
  TRY(check_magic(*file, path));
  TRY_ASSIGN(const Header header, parse_header(path));
  TRY_ASSIGN(const ByteCount size, file->size());
  TRY(check_length(header.get(), size.value(), path));
  std::vector<std::byte> buffer(kBufferBytes);
  if (depth == IdentityDepth::kFull) {
    hasher.append_field(size.value());
    return append_range(*file, path, 0, size.value(), buffer, hasher, after);
  }
  // Metadata and directory are hashed as they are in the file: no key can be forgotten.
  const std::uint64_t head_bytes = std::min<std::uint64_t>(gguf_get_data_offset(header.get()), size.value());
  hasher.append_field(head_bytes);
  TRY(append_range(*file, path, 0, head_bytes, buffer, hasher));
  for (std::int64_t i = 0; i < gguf_get_n_tensors(header.get()); ++i) {
    const Extent tensor = tensor_extent(header.get(), i);
    for (const Extent sample : depth == IdentityDepth::kSampled ? samples_of(tensor) : former_samples_of(tensor)) {
      TRY(append_range(*file, path, sample.begin, sample.size, buffer, hasher));
    }
  }
  return {};
}

std::string_view name_of(IdentityDepth depth) {
  switch (depth) {
    case IdentityDepth::kSampled: return "kvkeep model sampled 2";
    case IdentityDepth::kFormerlySampled: return "kvkeep model sampled 1";
    case IdentityDepth::kFull: break;
  }
  return "kvkeep model full 1";
}

std::string padded(std::uint32_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

// Returns 1 for "00001"; 0 for anything but five digits.
std::uint32_t five_digits(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && text.size() == 5 && end == text.data() + text.size() ? number : 0;
}

}  // namespace

Result<std::vector<std::string>> split_paths(const std::string& path) {
  constexpr std::size_t kSuffixLength = std::string_view("-00001-of-00003.gguf").size();
  if (path.size() <= kSuffixLength) return std::vector{path};
  const std::string_view suffix = std::string_view(path).substr(path.size() - kSuffixLength);
  const std::uint32_t part = five_digits(suffix.substr(1, 5));
  const std::uint32_t parts = five_digits(suffix.substr(10, 5));
  const bool is_split = suffix[0] == '-' && suffix.substr(6, 4) == "-of-" && suffix.ends_with(".gguf");
  if (!is_split || part == 0 || parts < part) return std::vector{path};
  const std::string stem = path.substr(0, path.size() - kSuffixLength);
  const std::string of = "-of-" + padded(parts) + ".gguf";
  if (part != 1)
    return invalid(path + " is part " + std::to_string(part) + ": name the first, " + stem + "-00001" + of);
  std::vector<std::string> paths;
  for (std::uint32_t i = 1; i <= parts; ++i) paths.push_back(stem + "-" + padded(i) + of);
  return paths;
}

Result<ModelHash> model_identity(const OpenFile& open, const std::string& path, IdentityDepth depth,
                                 const AfterMebibyte& after) {
  TRY_ASSIGN(const std::vector<std::string> paths, split_paths(path));
  ByteHasher hasher;
  hasher.append_field(name_of(depth));
  for (const std::string& part : paths) TRY(append_part(open, part, depth, hasher, after));
  return hasher.finish<ModelHash>();
}

Result<ModelHash> file_identity(const OpenFile& open, const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, open(path));
  TRY_ASSIGN(const ByteCount size, file->size());
  std::vector<std::byte> buffer(kBufferBytes);
  ByteHasher hasher;
  hasher.append_field("kvkeep file 1");
  TRY(append_range(*file, path, 0, size.value(), buffer, hasher));
  return hasher.finish<ModelHash>();
}

}  // namespace kvkeep::gguf
