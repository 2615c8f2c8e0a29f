#include "named_files.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "chat/chat_template.h"
#include "os/paths.h"
#include "server/http/api_keys.h"
#include "share/vault.h"

namespace kvkeep::cli {

namespace {

constexpr std::string_view kGgufMagic = "GGUF";

Error of_flag(const char* flag, const Error& error) {
  return {error.kind, fmt::format("{} {}", flag, error.message)};  // the message begins with the path
}

Result<std::string> read_named(const char* flag, const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text) return of_flag(flag, text.error());
  return text;
}

Result<std::string> read_template(const std::string& path) {
  const char* flag = "--chat-template-file";
  if (path.empty()) return path;
  TRY_ASSIGN(std::string source, read_named(flag, path));
  if (source.empty()) return invalid(fmt::format("{} {}: the file is empty", flag, path));
  // The template is made again once the model's tokens are known; whether it parses does not depend on them.
  const auto parsed = chat::make_chat_template(source, {});
  if (!parsed) return Error{parsed.error().kind, fmt::format("{} {}: {}", flag, path, parsed.error().message)};
  return source;
}

// A user who can read the file can do what its keys allow; one who can write it can add a key.
void warn_of_open_keys(const char* flag, const std::string& path) {
  const Result<std::uint32_t> mode = os::permissions(path);
  const std::uint32_t others = mode ? *mode & (os::kOthersMayRead | os::kOthersMayWrite) : 0;
  if (others == 0) return;
  spdlog::warn("{} {}: other users of this machine may {} the keys; run chmod 600 {}", flag, path,
               (others & os::kOthersMayWrite) == 0  ? "read"
               : (others & os::kOthersMayRead) == 0 ? "write"
                                                    : "read and write",
               path);
}

Result<std::string> read_secret(const char* flag, const std::string& path) {
  if (path.empty()) return path;
  TRY_ASSIGN(std::string secret, read_named(flag, path));
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  // An empty file must not let servers share state that was to be kept apart.
  if (secret.empty()) return invalid(fmt::format("{} {}: the file is empty", flag, path));
  return secret;
}

}  // namespace

Result<std::vector<std::string>> read_api_keys(const std::string& path) {
  TRY_ASSIGN(const std::string text, read_named("--api-key-file", path));
  std::vector<std::string> keys = server::parse_key_lines(text);
  // An empty key file must not let everybody in.
  if (keys.empty()) return invalid(fmt::format("--api-key-file {}: no key in it", path));
  warn_of_open_keys("--api-key-file", path);
  return keys;
}

Result<std::string> key_to_send(const ServerAddress& address) {
  if (address.api_key_file.empty()) return address.api_key;
  TRY_ASSIGN(const std::vector<std::string> keys, read_api_keys(address.api_key_file));
  return keys.front();
}

Result<std::string> read_share_key(const std::string& path) {
  if (path.empty()) return path;
  // Whoever has it can read and plant everybody's state: as with passwords, no warning is enough.
  auto read = share::read_secret_file(path);
  if (!read) return of_flag("--share-key-file:", read.error());
  std::string key = *std::move(read);
  if (share::is_guessable(key)) {
    spdlog::warn(
        "--share-key-file {}: the key has only {} bytes, which somebody who reads the engine can find by trying: make "
        "one with head -c 32 /dev/urandom | base64",
        path, key.size());
  }
  return key;
}

namespace {

Result<server::api::OutputFormat> schema_format(const char* flag, const std::string& text) {
  auto schema = server::api::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!schema.is_object()) return invalid(fmt::format("{}: not a JSON object", flag));
  return server::api::OutputFormat(server::api::JsonSchemaOutput{.schema = std::move(schema), .path = flag});
}

Result<server::api::OutputFormat> read_reply_form(const ReplyFormOptions& form) {
  using server::api::GrammarOutput;
  using server::api::OutputFormat;
  if (!form.grammar.empty()) return OutputFormat(GrammarOutput{form.grammar, "--grammar"});
  if (!form.schema.empty()) return schema_format("--json-schema", form.schema);
  if (!form.grammar_file.empty()) {
    TRY_ASSIGN(std::string text, read_named("--grammar-file", form.grammar_file));
    return OutputFormat(GrammarOutput{std::move(text), "--grammar-file"});
  }
  if (form.schema_file.empty()) return OutputFormat(server::api::AnyText{});
  TRY_ASSIGN(const std::string text, read_named("--json-schema-file", form.schema_file));
  return schema_format("--json-schema-file", text);
}

Status check_adapters(const char* flag, const std::vector<engine::llama::ScaledFile>& files) {
  for (const engine::llama::ScaledFile& file : files) {
    const Result<std::string> begin = read_beginning(file.path, kGgufMagic.size());
    if (!begin) return of_flag(flag, begin.error());
    if (*begin != kGgufMagic) return invalid(fmt::format("{} {}: not a GGUF file", flag, file.path));
  }
  return {};
}

// Names the kind of a file that is not GGUF, by its first bytes.
std::string_view other_kind(std::string_view begin) {
  if (begin.starts_with("version https://git-lfs")) return "a Git LFS pointer to the model: run git lfs pull";
  if (begin.starts_with("<!DOCTYPE") || begin.starts_with("<html")) return "a web page: the download went wrong";
  const auto is_text = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' || byte == '\n' || byte == '\r' || byte == '\t';
  };
  if (std::ranges::all_of(begin, is_text)) return "a text file";
  return "a file of another kind";
}

}  // namespace

// libllama's error for these does not help a user who typed the wrong name. Faults inside a GGUF file are reported at
// load.
Status check_model(const std::string& path, const char* flag) {
  constexpr std::size_t kLook = 64;
  if (os::resolve_links(path + "/."))
    return invalid(fmt::format("{} {}: is a directory; name a GGUF file", flag, path));
  const Result<std::string> begin = read_beginning(path, kLook);
  if (!begin && begin.error().kind == ErrorKind::kNotFound) {
    return not_found(fmt::format("{} {}: no such file", flag, path));
  }
  if (!begin) return of_flag(flag, begin.error());
  if (begin->empty()) return damaged(fmt::format("{} {}: the file is empty", flag, path));
  if (begin->starts_with(kGgufMagic.substr(0, begin->size()))) return {};
  return damaged(fmt::format("{} {}: not a GGUF file, but {}", flag, path, other_kind(*begin)));
}

// Flags that set clients apart by their keys.
Status check_keys(const ServeOptions& options, const NamedFiles& files) {
  if (!files.api_keys.empty() || !options.http.api_keys.empty()) return {};
  if (options.salt_by_key) return invalid("--cache-salt-by-key needs keys: --api-key-file or --api-key");
  if (options.key_limit) return invalid("--key-limit needs keys: --api-key-file or --api-key");
  return {};
}

Result<std::string> media_directory(const std::string& path) {
  if (path.empty()) return std::string();
  Result<std::string> place = os::resolve_links(path);
  const auto listed = place ? os::real_file_system().list(*place) : Result<std::vector<os::FileInfo>>(place.error());
  if (!listed && listed.error().kind == ErrorKind::kNotFound) {
    return invalid(fmt::format("--media-path {}: no such directory", path));
  }
  if (!listed) return invalid("--media-path: " + listed.error().message);
  return place;
}

namespace {

// Replaces %20 and the like. A % that no two hexadecimal digits follow stays.
std::string percent_decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 2);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_code = text[i] == '%' && digits.size() == 2 && read.ptr == digits.data() + 2;
    plain += is_code ? static_cast<char>(value) : text[i];
    if (is_code) i += 2;
  }
  return plain;
}

Result<std::string> media_target(const std::string& directory, const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return invalid("it is no path");
  const auto below = [&directory](const std::string& named) -> Result<std::string> {
    TRY_ASSIGN(std::string target, os::resolve_links(named));
    if (!target.starts_with(directory + "/")) return invalid("it is not below the directory");
    return target;
  };
  Result<std::string> target = below(directory + "/" + path);
  // file:///directory/a.png is the whole path of that file, too.
  if (!target && path.starts_with('/')) target = below(path);
  return target;
}

}  // namespace

// The client is not told whether a file outside the directory exists.
Result<std::string> read_media_file(const std::string& directory, std::string_view path) {
  Result<std::string> target = media_target(directory, percent_decoded(path));
  // Clients that encode nothing may name a file whose name has a % in it.
  if (!target) target = media_target(directory, std::string(path));
  if (!target) return invalid("there is no such file below --media-path");
  Result<std::string> bytes = read_beginning(*target, kMostMediaBytes, kMostMediaBytes);
  if (!bytes && bytes.error().kind == ErrorKind::kNoSpace) return invalid("the file is larger than 64 MiB");
  if (!bytes && bytes.error().kind == ErrorKind::kInvalid) return invalid("it is a directory, or no regular file");
  if (!bytes) return invalid("the file below --media-path cannot be read");
  return bytes;
}

Result<NamedFiles> read_named_files(const ServeOptions& options) {
  NamedFiles files;
  TRY(check_model(options.model.path));
  if (options.media.enabled && !options.media.projector.empty()) {
    TRY(check_model(options.media.projector, "--mmproj"));
  }
  if (!options.api_key_file.empty()) {
    TRY_ASSIGN(files.api_keys, read_api_keys(options.api_key_file));
  }
  TRY_ASSIGN(files.cache_salt, read_secret("--cache-salt-file", options.salt_file));
  TRY_ASSIGN(files.media_directory, media_directory(options.media.directory));
  TRY_ASSIGN(files.share_key, read_share_key(options.shared.key_file));
  TRY(check_keys(options, files));
  if (!options.chat.template_source.empty() && !options.chat.template_file.empty()) {
    return invalid("--chat-template and --chat-template-file both name a template; leave one out");
  }
  TRY_ASSIGN(files.chat_template, read_template(options.chat.template_file));
  if (files.chat_template.empty()) files.chat_template = options.chat.template_source;
  TRY_ASSIGN(files.output, read_reply_form(options.reply_form));
  TRY(server::api::check_output_format(files.output));
  TRY(check_adapters("--lora", options.model.loras));
  TRY(check_adapters("--control-vector", options.model.control_vectors));
  return files;
}

}  // namespace kvkeep::cli
