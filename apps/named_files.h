#pragma once

// Files that flags name, read from the beginning, through links (mounted secrets are links). Errors are one line that
// begins with the path. Those of `serve` are read and checked before the model is loaded: loading may take minutes,
// which a mistyped path should not cost.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "os/file_system.h"
#include "os/paths.h"
#include "serve_options.h"
#include "server_address.h"

namespace kvkeep::cli {

inline constexpr std::size_t kMaxTextFileBytes = 4U << 20;  // of a template, of keys, of a workload

// Returns the first `count` bytes, fewer if the file is shorter; kNoSpace, before a byte is read, if it has more than
// `most_bytes`.
inline Result<std::string> read_beginning(const std::string& path, std::size_t count,
                                          std::size_t most_bytes = std::string::npos) {
  const auto of_path = [&path](const Error& error) { return Error{error.kind, path + ": " + error.message}; };
  const Result<std::string> target = os::resolve_links(path);
  if (!target) return target.error();
  const Result<std::unique_ptr<os::File>> file = os::real_file_system().open(*target);
  if (!file) return of_path(file.error());
  const Result<ByteCount> size = (*file)->size();
  if (!size) return of_path(size.error());
  if (size->value() > most_bytes) return no_space(fmt::format("{}: larger than {} MiB", path, most_bytes >> 20U));
  std::string text(std::min<std::size_t>(size->value(), count), '\0');
  const Result<std::size_t> read = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  if (!read) return of_path(read.error());
  text.resize(*read);
  return text;
}

// Returns the whole file; kInvalid if it has more than `most_bytes`.
inline Result<std::string> read_file(const std::string& path, std::size_t most_bytes = kMaxTextFileBytes) {
  auto text = read_beginning(path, most_bytes, most_bytes);
  if (!text && text.error().kind == ErrorKind::kNoSpace) return invalid(text.error().message);
  return text;
}

// The contents of files that flags of `serve` name.
struct NamedFiles {
  std::string chat_template;          // parsed, of --chat-template-file or --chat-template; empty: none was named
  std::vector<std::string> api_keys;  // of --api-key-file, at least one; empty: none was named
  server::api::OutputFormat output;   // of --grammar and the like
  std::string cache_salt;             // of --cache-salt-file, without its last newline; empty: none was named
  std::string share_key;              // the same of --share-key-file
  std::string media_directory;        // of --media-path, without links; empty: none was named
};

// Refuses a file that is certainly no model, or no projector of one; the message names the flag.
Status check_model(const std::string& path, const char* flag = "--model");

// Returns the keys of --api-key-file, at least one; kInvalid if there is none. Warns if others may read them.
Result<std::vector<std::string>> read_api_keys(const std::string& path);

// Returns the key that a command sends to a running server: the first one of --api-key-file, or that of --api-key; ""
// for none.
Result<std::string> key_to_send(const ServerAddress& address);

// Returns the contents of --share-key-file, without the last line's end; empty if `path` is. kInvalid if others may
// read the file, or it belongs to another user.
Result<std::string> read_share_key(const std::string& path);

inline constexpr std::size_t kMostMediaBytes = 64U << 20;  // of a picture or sound: as much as the projector reads

// Returns a directory's path without links. kInvalid, with the name of --media-path, if it is none; "" for "".
Result<std::string> media_directory(const std::string& path);

// Reads a file below a directory, which media_directory() returned, by its path there or by its whole path, in which
// %20 may stand for a blank; links that lead out of the directory do not count as below. Never waits for a pipe.
// kInvalid with a reason to be put after the file's place in the request. Any thread.
Result<std::string> read_media_file(const std::string& directory, std::string_view path);

// Errors name the flag. Adapters are only looked at: whether they fit is known when the model is loaded.
Result<NamedFiles> read_named_files(const ServeOptions& options);

}  // namespace kvkeep::cli
