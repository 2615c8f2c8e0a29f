#pragma once

// The page at "/" and the files that it loads. They are texts in the program: no request reaches the file system, and
// the page loads nothing from elsewhere. They hold nothing of users, so that they need no API key; what the page shows
// it asks for with one.

#include <span>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/http_server.h"

namespace kvkeep::server {

// A file of web/dist. Its texts last as long as the program.
struct PageFile {
  // Of the URL: "/", "/web/page.js". The page names the others relative to itself, with a query that changes with their
  // content, so that it works below a proxy's path, too.
  std::string_view path;
  std::string_view type;  // for Content-Type
  std::string_view text;  // UTF-8, not compressed
};

// Made from web/dist by cmake/BuiltinTexts.cmake; the first one is the page itself.
std::span<const PageFile> page_files();

// Adds a route for each file, before serve(). Compresses each once, for clients that accept it; all replies share the
// two forms.
void add_page_routes(HttpServer& server);

// Returns true if a client that sent this field takes a reply in gzip's format.
bool accepts_gzip(std::string_view accept_encoding);

// The fields of a reply with a file of the page, beside Content-Encoding. They hold the page to its own scripts, styles
// and server: text from a prompt that got into it as markup could neither run nor send anything. `is_page`: of "/"
// itself, which a browser asks for each time; URLs of the other files change with their content.
HeaderList page_headers(bool is_page);

}  // namespace kvkeep::server
