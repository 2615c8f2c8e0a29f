#pragma once

// A whole small text file (template, keys), with a limit. Errors are one line with the path.

#include <string>

#include "base/result.h"
#include "os/file_system.h"
#include "os/paths.h"

namespace kvkeep::cli {

inline constexpr std::size_t kMaxTextFileBytes = 4U << 20;

inline Result<std::string> read_text_file(const std::string& path) {
  const Result<std::string> target = os::resolve_links(path);  // mounted secrets are links
  if (!target) return target.error();
  Result<std::unique_ptr<os::File>> file = os::real_file_system().open(*target);
  if (!file) return Error{file.error().kind, path + ": " + file.error().message};
  TRY_ASSIGN(const ByteCount size, (*file)->size());
  if (size.value() > kMaxTextFileBytes) return invalid(path + ": larger than 4 MiB");
  std::string text(size.value(), '\0');
  TRY_ASSIGN(const std::size_t count, (*file)->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

}  // namespace kvkeep::cli
