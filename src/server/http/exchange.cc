#include "server/http/exchange.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "base/assert.h"
#include "os/process.h"
#include "server/http/connection.h"
#include "server/http/http_error.h"
#include "server/http/http_log.h"
#include "server/http/reply_head.h"

namespace kvkeep::server {
namespace {
// Freed memory is returned after this many bytes of bodies: what they are parsed into takes many times their size.
constexpr std::size_t kReturnedBytes = 8 << 20;
}  // namespace

Exchange::Exchange(ServerCore& core, Start start, std::shared_ptr<Outbox> outbox)
    : core_(core),
      request_(std::move(start.request)),
      place_(std::move(start.place)),
      body_(std::move(start.body)),
      headers_(std::move(start.headers)),
      start_closes_(start.closes),
      can_chunk_(start.can_chunk),
      outbox_(std::move(outbox)) {
  if (body_) {
    request_.body = std::move(body_->bytes);
    core_.bytes_at_work += body_->share.held();
  }
  request_.client_gone = [this] { return client_gone(); };
  request_.stopping = [this] { return core_.stopping.load(); };
  ++core_.exchanges;
}

Exchange::~Exchange() {
  // If even a 500 cannot be made, the connection ends.
  if (!attempt([this] { conclude(/*failed=*/true); })) outbox_->end(Outbox::End::kCut, true);
  boost::asio::post(core_.io, [&core = core_] {
    --core.exchanges;
    core.on_change();
  });
}

void Exchange::start(const Route& route) {
  if (route.options.is_light) return run(route.handler);
  const bool is_large = body_ && body_->share.held() > kSmallBodyBytes;
  os::ThreadPool& pool = is_large ? *core_.large_workers : *core_.workers;
  pool.post([self = shared_from_this(), &handler = route.handler]() mutable {
    self->run_in_its_lane(handler);
    self.reset();
  });
}

// Runs on a worker, since to find out the lane may take a look at all of the body.
void Exchange::run_in_its_lane(const Handler& handler) {
  const Lane lane = client_gone() ? Lane() : core_.lane_of(request_);
  if (lane.kind == Lane::Kind::kShort) return run(handler);
  std::function<void()> task = [self = shared_from_this(), &handler]() mutable {
    self->run(handler);
    self.reset();
  };
  if (lane.kind == Lane::Kind::kLong) return core_.slow_workers->post(std::move(task));
  core_.turns->post(lane.client, std::move(task));
}

void Exchange::run(const Handler& handler) {
  // A request whose client left while it waited for a worker is dropped.
  const bool failed = !client_gone() && !attempt([&] { handler(request_, *this); });
  drop_body();
  if (!kept_) conclude(failed);
}

bool Exchange::attempt(const std::function<void()>& task) {
  try {
    task();
    return true;
  } catch (...) {
    spdlog::error("http: the handler of {} {} failed: {}", request_.method, request_.path, current_exception_text());
    return false;
  }
}

// A reply may take long and does not need the body.
void Exchange::drop_body() {
  if (!body_) return;
  const std::size_t bytes = body_->share.held();
  std::string().swap(request_.body);  // assigning "" would keep the memory
  body_.reset();
  core_.bytes_at_work -= bytes;
  if (core_.parsed_bytes.fetch_add(bytes) + bytes >= kReturnedBytes) {
    core_.parsed_bytes = 0;
    os::return_freed_memory();
  }
  resume_waiting_soon(core_);
}

void Exchange::conclude(bool failed) {
  if (state_ == State::kEnded) return;
  if (state_ == State::kStreaming && !failed) return end();
  if (state_ == State::kNothing) {
    HttpError error = core_.gatekeeper.error(request_, 500, kFailedText);
    return send(error.status, kJsonType, std::move(error.body), {});
  }
  log(status_, "cut off");
  outbox_->end(Outbox::End::kCut, true);
  state_ = State::kEnded;
}

// A piece of the reply is missing, so that nothing may come after it.
void Exchange::give_up() {
  conclude(/*failed=*/true);
  given_up_ = true;
}

void Exchange::log(int status, std::string_view body) const {
  // A client that left is no error of the server; the log line of its request says so.
  if (!client_gone()) log_exchange(request_.method, request_.path, status, body);
}

void Exchange::send(int status, std::string_view content_type, std::string body, const HeaderList& headers) {
  if (given_up_) return;
  send_head(status, content_type, body.size(), headers);
  log(status, body);
  if (!is_head() && !body.empty()) outbox_->append(std::move(body));
  finish_whole();
}

void Exchange::send_shared(int status, std::string_view content_type, std::shared_ptr<const std::string> body,
                           const HeaderList& headers) {
  if (given_up_) return;
  send_head(status, content_type, body->size(), headers);
  log(status, "");
  if (!is_head() && !body->empty()) outbox_->append_body(std::move(body));
  finish_whole();
}

void Exchange::send_pieces(int status, std::string_view content_type, BodyPieces next, const HeaderList& headers) {
  std::string first = next();
  const std::string second = first.empty() ? first : next();
  if (second.empty()) return send(status, content_type, std::move(first), headers);
  if (!begin_stream(status, content_type, headers) || !write(first) || !write(second)) return;
  send_rest(std::make_shared<BodyPieces>(std::move(next)));
}

// The task keeps this, and what `next` keeps, until the piece is made or the client has left.
void Exchange::send_rest(std::shared_ptr<BodyPieces> next) {
  outbox_->when_sent([self = shared_from_this(), next = std::move(next)] {
    self->post_work([self, next] {
      const std::string piece = (*next)();
      if (piece.empty()) return self->end();
      if (self->write(piece)) self->send_rest(next);
    });
  });
}

void Exchange::send_head(int status, std::string_view content_type, std::size_t body_bytes, const HeaderList& headers) {
  KVKEEP_ASSERT(state_ == State::kNothing, "a request gets one reply");
  state_ = State::kWhole;
  status_ = status;
  closing_ = closes();
  const ReplyHead head{.status = status,
                       .content_type = content_type,
                       .body_bytes = body_bytes,
                       .closes = closing_,
                       .idle_s = core_.options.limits.idle_ms / 1'000};
  outbox_->append(reply_head(head, headers_, headers));
}

void Exchange::finish_whole() {
  outbox_->end(Outbox::End::kComplete, closing_);
  state_ = State::kEnded;
}

bool Exchange::begin_stream(int status, std::string_view content_type, const HeaderList& headers) {
  if (given_up_) return false;
  KVKEEP_ASSERT(state_ == State::kNothing, "a request gets one reply");
  state_ = State::kStreaming;
  status_ = status;
  chunked_ = can_chunk_;
  closing_ = closes() || !chunked_;
  const ReplyHead head{.status = status,
                       .content_type = content_type,
                       .closes = closing_,
                       .is_chunked = chunked_,
                       .idle_s = core_.options.limits.idle_ms / 1'000};
  return outbox_->append(reply_head(head, headers_, headers));
}

bool Exchange::write(std::string_view piece) {
  if (given_up_) return false;
  KVKEEP_ASSERT(state_ == State::kStreaming, "write() comes between begin_stream() and end()");
  if (piece.empty() || is_head()) return !client_gone();  // an empty chunk would end the stream
  return outbox_->append(chunked_ ? fmt::format("{:x}\r\n{}\r\n", piece.size(), piece) : std::string(piece));
}

void Exchange::end() {
  if (given_up_) return;
  KVKEEP_ASSERT(state_ == State::kStreaming, "end() follows begin_stream(), once");
  if (chunked_ && !is_head()) outbox_->append("0\r\n\r\n");
  log(status_, "");
  outbox_->end(Outbox::End::kComplete, closing_);
  state_ = State::kEnded;
}

std::shared_ptr<ResponseWriter> Exchange::keep() {
  kept_ = true;
  return shared_from_this();
}

void Exchange::post(std::function<void()> task) {
  boost::asio::post(core_.io, [self = shared_from_this(), work = std::move(task)] {
    if (!self->attempt(work)) self->give_up();
  });
}

void Exchange::post_work(std::function<void()> task) {
  // The server waits for its exchanges: this one lives as long as the task.
  core_.workers->post([self = shared_from_this(), work = std::move(task)] {
    if (!self->attempt(work)) self->give_up();
  });
}

void Exchange::on_silence(std::int64_t silence_ms, std::function<void()> task) {
  outbox_->set_silence({silence_ms, std::move(task)});
}

void resume_waiting_soon(ServerCore& core) {
  if (core.resume_is_due.exchange(true)) return;
  boost::asio::post(core.io, [&core] {
    core.resume_is_due = false;
    core.waiting_for_room.resume(core.budget);
    // Handlers that hold this much will soon give it back, and all can go on.
    if (core.bytes_at_work >= core.budget.most() / 4) return;
    if (const auto connection = core.waiting_for_room.in_the_way()) connection->give_way();
  });
}

}  // namespace kvkeep::server
