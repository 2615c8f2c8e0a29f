#pragma once

// The writer a handler gets. Whole replies are kept for the HTTP library to frame; streams go to the socket at once,
// chunk by chunk, because the library would only start them after the handler has returned.

#include <string>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/socket_channel.h"

namespace kvkeep::server {

struct WholeReply {
  int status = 0;
  std::string content_type;
  std::string body;
  HeaderList headers;
};

class ReplyWriter final : public ResponseWriter {
 public:
  // `common_headers` go with a stream; whole replies get them elsewhere. `chunked` is false for HTTP/1.0 clients: their
  // streams end with the connection. Both references must outlive the writer.
  ReplyWriter(SocketChannel& channel, const HeaderList& common_headers, bool chunked)
      : channel_(channel), common_headers_(common_headers), chunked_(chunked) {}

  void send(int status, std::string_view content_type, std::string body, const HeaderList& headers) override;
  bool begin_stream(int status, std::string_view content_type, const HeaderList& headers) override;
  bool write(std::string_view piece) override;
  void end() override;
  bool started() const override { return state_ != State::kNothing; }

  bool streaming() const { return state_ == State::kStreaming; }
  bool streamed() const { return state_ == State::kStreaming || state_ == State::kEnded; }
  // A stream that reached its end with every byte sent: the connection may take another request.
  bool stream_complete() const { return state_ == State::kEnded && !broken_ && chunked_; }
  // What send() was given. Precondition: started() and not streamed().
  WholeReply& whole() { return whole_; }

 private:
  enum class State { kNothing, kWhole, kStreaming, kEnded };

  SocketChannel& channel_;
  const HeaderList& common_headers_;
  const bool chunked_;
  State state_ = State::kNothing;
  bool broken_ = false;
  WholeReply whole_;
};

}  // namespace kvkeep::server
