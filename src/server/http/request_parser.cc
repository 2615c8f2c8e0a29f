#include "server/http/request_parser.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "base/assert.h"

namespace kvkeep::server {
namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastText = boost::beast::string_view;

// Extensions have no meaning here; more bytes of them than this are an attack.
constexpr std::size_t kExtensionBytesMax = 4'096;
// Limit for a chunk's size line, and for all trailer fields.
constexpr std::size_t kChunkHeadBytesMax = 8'192;

std::string_view view(BeastText text) { return {text.data(), text.size()}; }

std::string body_fault(const BeastError& error) {
  if (error == http::error::bad_chunk || error == http::error::bad_chunk_extension) {
    return "A chunk's size or extension is malformed or too long, or its data does not end with CR LF";
  }
  return "The request body is malformed or incomplete";
}

}  // namespace

// The library's parser, with its results.
class RequestParser::Grammar final : public http::basic_parser<true> {
 public:
  Grammar() {
    header_limit(static_cast<std::uint32_t>(2 * kHeadBytesMax));  // the scanner has judged its size
    body_limit(boost::none);                                      // the sink decides
  }

  HttpRequest head;
  std::string authority;  // of a target that is a URL
  bool authority_is_bad = false;
  bool target_is_bad = false;
  int version = 0;  // 10 or 11
  BodySink* sink = nullptr;

 private:
  void on_request_impl(http::verb /*known*/, BeastText method, BeastText target, int number,
                       BeastError& error) override {
    error = {};
    version = number;
    head.method = view(method);
    std::string_view all = view(target);
    authority_is_bad = !take_authority(all, authority);
    const auto mark = all.find('?');
    if (mark != std::string_view::npos) head.query = all.substr(mark + 1);
    target_is_bad = !decode_percent(all.substr(0, mark), head.path);
    if (head.path.empty() && !authority.empty()) head.path = "/";
  }
  void on_response_impl(int /*code*/, BeastText /*reason*/, int /*number*/, BeastError& error) override {
    error = http::error::bad_method;
  }
  void on_field_impl(http::field /*known*/, BeastText name, BeastText value, BeastError& error) override {
    if (is_header_done()) return count_trailer(name, value, error);
    error = {};
    head.headers.emplace_back(view(name), view(value));
  }
// Newer releases report trailer fields separately, older ones do not have the function.
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Winconsistent-missing-override"
#pragma clang diagnostic ignored "-Wsuggest-override"
#endif
  void on_trailer_field_impl(http::field /*known*/, BeastText name, BeastText value, BeastError& error) {
    count_trailer(name, value, error);
  }
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
  void on_header_impl(BeastError& error) override { error = {}; }
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/, BeastError& error) override { error = {}; }
  std::size_t on_body_impl(BeastText bytes, BeastError& error) override {
    const std::size_t taken = sink->take(view(bytes));
    error = {};
    if (taken < bytes.size()) error = http::error::need_buffer;
    return taken;
  }
  void on_chunk_header_impl(std::uint64_t size, BeastText extensions, BeastError& error) override {
    error = {};
    if (!sink->announce(size)) error = http::error::body_limit;
    extension_bytes_ += extensions.size();
    if (extension_bytes_ > kExtensionBytesMax) error = http::error::bad_chunk_extension;
  }
  std::size_t on_chunk_body_impl(std::uint64_t /*left*/, BeastText bytes, BeastError& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(BeastError& error) override { error = {}; }

  // Trailer fields come after the head was judged, so that they must not add to it.
  void count_trailer(BeastText name, BeastText value, BeastError& error) {
    error = {};
    trailer_bytes_ += name.size() + value.size();
    if (trailer_bytes_ > kChunkHeadBytesMax) error = http::error::header_limit;
  }

  std::size_t extension_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
};

RequestParser::RequestParser() : grammar_(std::make_unique<Grammar>()) {}
RequestParser::~RequestParser() = default;

HttpRequest& RequestParser::head() { return grammar_->head; }

std::size_t RequestParser::refuse(Refusal refusal, std::size_t used) {
  state_ = State::kRefused;
  refusal_ = std::move(refusal);
  return used;
}

std::size_t RequestParser::feed_head(std::string_view bytes) {
  KVKEEP_ASSERT(state_ == State::kHead, "a request has one head");
  switch (scanner_.scan(bytes)) {
    case HeadScanner::Found::kNothingYet: return 0;
    case HeadScanner::Found::kRefused: return refuse(scanner_.refusal(), bytes.size());
    case HeadScanner::Found::kEnd: break;
  }
  return parse_head(bytes.substr(0, scanner_.head_bytes()));
}

std::size_t RequestParser::parse_head(std::string_view bytes) {
  BeastError error;
  grammar_->eager(false);
  grammar_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error || !grammar_->is_header_done()) return refuse(explain_bad_head(bytes), bytes.size());
  if (grammar_->target_is_bad) {
    return refuse({400, "The request target has a percent sign without two hexadecimal digits"}, bytes.size());
  }
  if (grammar_->authority_is_bad) return refuse({400, "The request target names no host, or a user"}, bytes.size());
  if (Refusal wrong = read_framing(grammar_->head, grammar_->version - 10, framing_); wrong.status != 0) {
    return refuse(std::move(wrong), bytes.size());
  }
  if (!grammar_->authority.empty()) replace_host(grammar_->head, grammar_->authority);
  state_ = framing_.body == Framing::Body::kNone ? State::kDone : State::kBody;
  return bytes.size();
}

std::size_t RequestParser::feed_body(std::string_view bytes, BodySink& sink) {
  KVKEEP_ASSERT(state_ == State::kBody, "the body comes after the head");
  if (bytes.empty()) return 0;
  grammar_->sink = &sink;
  grammar_->eager(true);
  BeastError error;
  const std::size_t used = grammar_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (grammar_->is_done()) {
    state_ = State::kDone;
    return used;
  }
  if (error == http::error::need_buffer || !error) return used;
  if (error == http::error::need_more && bytes.size() - used <= kChunkHeadBytesMax) return used;
  return refuse({400, body_fault(error)}, bytes.size());
}

}  // namespace kvkeep::server
