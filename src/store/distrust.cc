#include "store/distrust.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "store/layout.h"

namespace kvkeep::store {

namespace {

std::string path_in(const std::string& directory) { return directory + "/" + std::string(kDistrustName); }

Result<std::string> read_note(os::File& file) {
  std::string text(kMostDistrustBytes, '\0');
  TRY_ASSIGN(const std::size_t count, file.read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

std::string unreadable(const Error& error) { return "a note that cannot be read: " + error.message; }

}  // namespace

Status write_distrust(os::FileSystem& files, const std::string& directory, std::string_view why) {
  const std::string temporary = path_in(directory) + std::string(kTemporarySuffix);
  (void)files.remove(temporary);  // of a process that is gone
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.create(temporary));
  const std::string text = std::string(why.substr(0, kMostDistrustBytes - 1)) + "\n";
  Status written = file->append(std::as_bytes(std::span(text)));
  if (written) written = file->sync();
  if (written) written = files.rename(temporary, path_in(directory));
  if (!written) {
    (void)files.remove(temporary);
    return written;
  }
  return files.sync_directory(directory);
}

std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory) {
  const auto found = find_distrust(files, directory);
  return found ? *found : unreadable(found.error());
}

Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory) {
  const auto file = files.open(path_in(directory));
  if (!file && file.error().kind == ErrorKind::kNotFound) return std::optional<std::string>();
  if (!file && file.error().kind == ErrorKind::kIo) return file.error();
  auto text = file ? read_note(**file) : Result<std::string>(file.error());
  if (!text) return std::optional(unreadable(text.error()));
  text->resize(std::min(text->find('\n'), text->size()));
  std::ranges::replace_if(*text, [](unsigned char letter) { return letter < 0x20 || letter > 0x7e; }, '?');
  return std::optional(std::move(*text));
}

}  // namespace kvkeep::store
