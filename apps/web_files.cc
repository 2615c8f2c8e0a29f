#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string_view>
#include <utility>

#include "chat/text_streams.h"
#include "http_setup.h"
#include "named_files.h"
#include "os/paths.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kMostDepth = 32;
constexpr std::size_t kMostShownName = 200;
constexpr std::string_view kIndex = "index.html";

// Types of the files that pages are made of (IANA's registry of media types).
constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".htm", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".txt", "text/plain; charset=utf-8"},
    {".md", "text/markdown; charset=utf-8"},
    {".json", "application/json"},
    {".map", "application/json"},
    {".webmanifest", "application/manifest+json"},
    {".wasm", "application/wasm"},
    {".svg", "image/svg+xml"},
    {".png", "image/png"},
    {".jpg", "image/jpeg"},
    {".jpeg", "image/jpeg"},
    {".gif", "image/gif"},
    {".webp", "image/webp"},
    {".ico", "image/x-icon"},
    {".woff2", "font/woff2"},
}};

std::string type_of(std::string_view name) {
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return std::string(type);
  }
  return "application/octet-stream";
}

// A star in a route stands for any name, and a browser cannot ask for the others.
bool is_served(const std::string& name) {
  const bool odd = std::ranges::any_of(name, [](unsigned char c) { return c < ' ' || c == 0x7F || c == '*'; });
  if (!odd && chat::is_valid_utf8(name)) return true;
  spdlog::warn("--path: '{}' is not served, for its name has a star, a control character or bytes that are no UTF-8",
               text::printable(name, kMostShownName));
  return false;
}

std::string percent_encoded(std::string_view name) {
  std::string encoded;
  for (const unsigned char c : name) {
    const bool plain = std::isalnum(c) != 0 || std::string_view("-._~").contains(static_cast<char>(c));
    encoded += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return encoded;
}

class WebFolder {
 public:
  explicit WebFolder(os::FileSystem& files) : files_(files) {}

  Status read(const std::string& directory, const std::string& url, std::size_t depth = 0) {
    if (depth > kMostDepth) return invalid(fmt::format("{}: more than {} folders deep", directory, kMostDepth));
    TRY_ASSIGN(const std::vector<os::FileInfo> listed, files_.list(directory));
    for (const os::FileInfo& entry : listed) {
      if (entry.name.starts_with('.') || !is_served(entry.name)) continue;
      const std::string path = directory + "/" + entry.name;
      if (entry.is_directory) TRY(read(path, url + entry.name + "/", depth + 1));
      if (entry.is_regular) TRY(add(path, url, entry));
    }
    return {};
  }
  std::vector<WebFile> take() { return std::move(found_); }

 private:
  Status add(const std::string& path, const std::string& url, const os::FileInfo& entry) {
    bytes_ += entry.size.value();
    if (bytes_ > kMostWebBytes) return invalid(fmt::format("the files have more than {} MiB", kMostWebBytes >> 20U));
    if (found_.size() >= kMostWebFiles) return invalid(fmt::format("there are more than {} files", kMostWebFiles));
    TRY_ASSIGN(std::string text, read_file(path, kMostWebBytes));
    const auto bytes = std::make_shared<const std::string>(std::move(text));
    if (entry.name == kIndex) found_.push_back({url, type_of(entry.name), bytes});
    found_.push_back({url + entry.name, type_of(entry.name), bytes});
    return {};
  }

  os::FileSystem& files_;
  std::vector<WebFile> found_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::vector<WebFile>> read_web_files(const std::string& directory, os::FileSystem& files) {
  if (directory.empty()) return std::vector<WebFile>{};
  const auto of_flag = [&](const Error& error) {
    return Error{error.kind, fmt::format("--path {}: {}", directory, error.message)};
  };
  const Result<std::string> place = os::resolve_links(directory);
  if (!place) return of_flag(place.error());
  WebFolder folder(files);
  if (const Status read = folder.read(*place, "/"); !read) return of_flag(read.error());
  return folder.take();
}

void serve_web_files(server::HttpServer& http, const std::vector<WebFile>& files) {
  const auto add = [&http](const std::string& path, server::Handler handler) {
    if (http.handler("GET", path) != nullptr) {
      spdlog::warn("--path: {} is not served, for the API has that path", path);
    } else {
      http.route("GET", path, std::move(handler), {.is_public = path == "/"});
    }
  };
  for (const WebFile& file : files) {
    add(file.path, [file](const server::HttpRequest&, server::ResponseWriter& writer) {
      writer.send_shared(200, file.type, file.bytes);
    });
    if (!file.path.ends_with('/') || file.path == "/") continue;
    const std::string folder = file.path.substr(0, file.path.size() - 1);
    add(folder, [folder](const server::HttpRequest&, server::ResponseWriter& writer) {
      const std::string name = folder.substr(folder.rfind('/') + 1);
      writer.send(301, "", "", {{"Location", percent_encoded(name) + "/"}});
    });
  }
}

}  // namespace kvkeep::cli
