#include "store/distrust.h"

#include <algorithm>
#include <memory>
#include <span>

#include "store/layout.h"

namespace kvkeep::store {

namespace {

std::string path_in(const std::string& directory) { return directory + "/" + std::string(kDistrustName); }

Result<std::string> read_note(os::FileSystem& files, const std::string& path) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(path));
  std::string text(kMostDistrustBytes, '\0');
  TRY_ASSIGN(const std::size_t count, file->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(count);
  return text;
}

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
  auto text = read_note(files, path_in(directory));
  if (!text && text.error().kind == ErrorKind::kNotFound) return std::nullopt;
  if (!text) return "a note that cannot be read: " + text.error().message;
  text->resize(std::min(text->find('\n'), text->size()));
  std::ranges::replace_if(*text, [](unsigned char letter) { return letter < 0x20 || letter > 0x7e; }, '?');
  return *text;
}

}  // namespace kvkeep::store
