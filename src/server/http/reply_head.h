#pragma once

// The status line and fields of a reply. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/http_message.h"

namespace kvkeep::server {

struct ReplyHead {
  int status = 200;
  std::string_view content_type = {};          // empty: no such field
  std::optional<std::size_t> body_bytes = {};  // none: the end of the chunks or of the connection ends the body
  bool closes = false;                         // the connection ends after this reply
  bool is_chunked = false;
  std::int64_t idle_s = 0;  // how long an open connection may wait for the next request
};

// 503 or 529: the same request may be answered later.
bool is_for_now(int status);

// Fields come in the order `common`, `own`. A reply that is_for_now() says to try again in a second, unless `own` says
// when.
std::string reply_head(const ReplyHead& head, const HeaderList& common, const HeaderList& own);

// "OK"; a generic phrase for unknown numbers.
std::string_view reason_of(int status);

}  // namespace kvkeep::server
