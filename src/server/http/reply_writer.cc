#include "server/http/reply_writer.h"

#include <fmt/format.h>

#include <utility>

#include "base/assert.h"

namespace kvkeep::server {
namespace {
void append_headers(std::string& head, const HeaderList& headers) {
  for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
}
}  // namespace

void ReplyWriter::send(int status, std::string_view content_type, std::string body, const HeaderList& headers) {
  KVKEEP_ASSERT(state_ == State::kNothing, "a request gets one reply");
  state_ = State::kWhole;
  whole_ = {status, std::string(content_type), std::move(body), headers};
}

bool ReplyWriter::begin_stream(int status, std::string_view content_type, const HeaderList& headers) {
  KVKEEP_ASSERT(state_ == State::kNothing, "a request gets one reply");
  state_ = State::kStreaming;
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", status, status == 200 ? "OK" : "Reply", content_type);
  append_headers(head, common_headers_);
  append_headers(head, headers);
  head += chunked_ ? "Transfer-Encoding: chunked\r\n\r\n" : "Connection: close\r\n\r\n";
  broken_ = !channel_.write(head);
  return !broken_;
}

bool ReplyWriter::write(std::string_view piece) {
  KVKEEP_ASSERT(state_ == State::kStreaming, "write() stands between begin_stream() and end()");
  // The first send after a client's close still succeeds, so ask; and an empty chunk would end the stream.
  if (broken_ || channel_.peer_gone()) return !(broken_ = true);
  if (piece.empty()) return true;
  broken_ = !channel_.write(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
  return !broken_;
}

void ReplyWriter::end() {
  KVKEEP_ASSERT(state_ == State::kStreaming, "end() follows begin_stream(), once");
  state_ = State::kEnded;
  if (chunked_ && !broken_) broken_ = !channel_.write("0\r\n\r\n");
}

}  // namespace kvkeep::server
