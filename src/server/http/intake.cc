#include "server/http/intake.h"

#include <utility>

#include "base/hash.h"
#include "os/clock.h"
#include "server/http/http_error.h"
#include "server/http/http_log.h"
#include "server/http/reply_head.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kTooMany = "The server has no room for more requests now; try again";

// "req_" and 24 hexadecimal digits: the name that a client shows with an error. It is unique, also among those of
// earlier processes.
std::string new_request_id(std::int64_t wall_ns, std::uint64_t count) {
  ByteHasher unique;
  unique.append_field(static_cast<std::uint64_t>(wall_ns));
  unique.append_field(count);
  return "req_" + unique.finish<Hash256<struct RequestIdTag>>().hex(12);
}

}  // namespace

Intake::Intake(ServerCore& core, std::string remote_address)
    : core_(core), remote_address_(std::move(remote_address)), body_(core.budget, core.options.body_bytes_max) {}

std::size_t Intake::feed(std::string_view bytes) {
  std::size_t used = 0;
  if (state_ == State::kHead) {
    used = parser_.feed_head(bytes);
    if (parser_.state() == RequestParser::State::kHead) return used;
    judge();
  }
  if (state_ == State::kBody) used += feed_body(bytes.substr(used));
  return used;
}

void Intake::judge() {
  HttpRequest& head = parser_.head();
  head.id = new_request_id(os::real_clock().wall_ns(), ++core_.requests);
  head.remote_address = remote_address_;
  const bool is_refused = parser_.state() == RequestParser::State::kRefused;
  if (!is_refused) verdict_ = core_.gatekeeper.judge(head, parser_.framing().length);
  verdict_.headers.emplace_back("Server", "kvkeep");
  for (const char* name : {"request-id", "x-request-id"}) verdict_.headers.emplace_back(name, head.id);
  if (is_refused) return refuse(parser_.refusal().status, parser_.refusal().reason);
  if (core_.stopping) return refuse(503, kStoppingText);
  if (verdict_.route == nullptr) {
    state_ = State::kAnswered;
  } else if (needs_place() && !core_.places.has_room_for(1)) {
    refuse(503, kTooMany);
  } else if (parser_.state() == RequestParser::State::kDone || !reads_body()) {
    complete();
  } else if (!body_.set_encoding(head.header("content-encoding"))) {
    refuse(415, "Send the request body uncompressed, or as gzip");
  } else if (core_.budget.has_room_for(wanted_bytes())) {
    begin_body();
  } else {
    state_ = State::kRoom;
  }
}

void Intake::begin_body() {
  body_.expect(parser_.framing().length);
  leave_is_due_ = parser_.framing().expects_continue;
  state_ = State::kBody;
}

bool Intake::grants_leave() { return std::exchange(leave_is_due_, false); }

std::size_t Intake::wanted_bytes() const {
  if (body_.trouble() == BodyCollector::Trouble::kNoRoom) return body_.wanted_bytes();
  return static_cast<std::size_t>(parser_.framing().length);
}

void Intake::go_on() {
  if (body_.trouble() != BodyCollector::Trouble::kNoRoom) return begin_body();
  state_ = State::kBody;  // the rest of the body is tried again
}

std::size_t Intake::feed_body(std::string_view bytes) {
  const std::size_t used = parser_.feed_body(bytes, body_);
  const BodyCollector::Trouble trouble = body_.trouble();
  if (trouble == BodyCollector::Trouble::kNoRoom) {
    state_ = State::kRoom;
  } else if (trouble != BodyCollector::Trouble::kNone || parser_.state() == RequestParser::State::kRefused) {
    refuse_body();
  } else if (parser_.state() == RequestParser::State::kDone) {
    complete();
  }
  return used;
}

// Only a whole request takes a place: clients that never end their bodies must not keep others out.
void Intake::complete() {
  state_ = State::kReady;
  if (!body_.is_whole()) return refuse(400, "The compressed request body is incomplete");
  if (!needs_place()) return;
  place_ = std::make_unique<Budget::Share>(core_.places);
  if (!place_->take(1)) refuse(503, kTooMany);
}

void Intake::refuse(int status, std::string_view message) {
  HttpError error = core_.gatekeeper.error(parser_.head(), status, message);
  verdict_.route = nullptr;
  verdict_.status = error.status;
  verdict_.body = std::move(error.body);
  state_ = State::kAnswered;
}

std::string Intake::reply(bool closes) {
  const HttpRequest& head = parser_.head();
  log_exchange(head.method, head.path, verdict_.status, verdict_.body);
  const ReplyHead reply{.status = verdict_.status,
                        .content_type = verdict_.body.empty() ? std::string_view() : kJsonType,
                        .body_bytes = verdict_.body.size(),
                        .closes = closes,
                        .idle_s = core_.options.limits.idle_ms / 1'000};
  std::string bytes = reply_head(reply, verdict_.headers, {});
  if (head.method != "HEAD") bytes += verdict_.body;
  return bytes;
}

void Intake::refuse_body() {
  const std::string limit = std::to_string(core_.options.body_bytes_max);
  switch (body_.trouble()) {
    case BodyCollector::Trouble::kTooLarge:
      return refuse(413, "The request body is larger than " + limit + " bytes; --max-body-mb sets the limit");
    case BodyCollector::Trouble::kDamaged: return refuse(400, "The compressed request body is damaged");
    default: return refuse(400, parser_.refusal().reason);
  }
}

bool Intake::has_unread_input() const { return parser_.state() != RequestParser::State::kDone; }

Exchange::Start Intake::release() {
  const bool has_body = reads_body();
  return {.request = std::move(parser_.head()),
          .place = std::move(place_),
          .body = has_body ? body_.release() : nullptr,
          .headers = std::move(verdict_.headers),
          .closes = closes(),
          .can_chunk = !is_http_1_0()};
}

}  // namespace kvkeep::server
