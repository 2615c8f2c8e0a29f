#pragma once

// One request in the hands of its handler, and the writer of its reply.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/body_collector.h"
#include "server/http/gatekeeper.h"
#include "server/http/head_rules.h"
#include "server/http/http_message.h"
#include "server/http/outbox.h"
#include "server/http/server_core.h"

namespace kvkeep::server {

// Lives until its handler has returned and no writer is kept; the reply ends then at the latest. `core` must outlive
// it.
class Exchange final : public ResponseWriter, public std::enable_shared_from_this<Exchange> {
 public:
  struct Start {
    HttpRequest request;
    std::unique_ptr<Budget::Share> place;  // among the requests that may run at a time; null: needs none
    std::unique_ptr<HeldBody> body;        // null: none
    HeaderList headers;                    // go with the reply
    bool closes = false;                   // the connection takes no other request after this one
    bool can_chunk = false;                // false: a stream ends with the connection
  };

  // On the I/O thread. `outbox` receives the reply.
  Exchange(ServerCore& core, Start start, std::shared_ptr<Outbox> outbox);
  ~Exchange() override;

  // Calls the route's handler: on this thread if the route is light, else on a worker thread.
  void start(const Route& route);

  void send(int status, std::string_view content_type, std::string body, const HeaderList& headers) override;
  void send_shared(int status, std::string_view content_type, std::shared_ptr<const std::string> body,
                   const HeaderList& headers) override;
  void send_pieces(int status, std::string_view content_type, BodyPieces next, const HeaderList& headers) override;
  void note_kept(std::size_t bytes) override { outbox_->note_kept(bytes); }
  bool begin_stream(int status, std::string_view content_type, const HeaderList& headers) override;
  bool write(std::string_view piece) override;
  void end() override;
  bool started() const override { return state_ != State::kNothing; }
  std::shared_ptr<ResponseWriter> keep() override;
  bool client_gone() const override { return given_up_ || outbox_->gone(); }
  void post(std::function<void()> task) override;
  void post_work(std::function<void()> task) override;
  void on_silence(std::int64_t silence_ms, std::function<void()> task) override;

 private:
  void run(const Handler& handler);
  void run_in_its_lane(const Handler& handler);
  enum class State { kNothing, kWhole, kStreaming, kEnded };  // kWhole: send() is under way
  bool attempt(const std::function<void()>& task);            // returns false if it threw
  void drop_body();
  // The reply has no writer any more.
  void conclude(bool failed);
  void give_up();
  void log(int status, std::string_view body) const;
  void send_head(int status, std::string_view content_type, std::size_t body_bytes, const HeaderList& headers);
  void finish_whole();
  void send_rest(std::shared_ptr<BodyPieces> next);
  bool is_head() const { return request_.method == "HEAD"; }
  bool closes() const { return start_closes_ || core_.stopping.load(); }

  ServerCore& core_;
  HttpRequest request_;
  const std::unique_ptr<Budget::Share> place_;
  std::unique_ptr<HeldBody> body_;
  const HeaderList headers_;
  const bool start_closes_;
  const bool can_chunk_;
  const std::shared_ptr<Outbox> outbox_;
  State state_ = State::kNothing;
  int status_ = 0;
  bool closing_ = false;  // as the reply's head said
  bool chunked_ = false;
  bool kept_ = false;
  std::atomic<bool> given_up_{false};  // a task threw: later writes are dropped
};

// Room for bodies may have come back, or another connection waits for it: bodies go on or give way soon. Thread safe.
void resume_waiting_soon(ServerCore& core);

}  // namespace kvkeep::server
