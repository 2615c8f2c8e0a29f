#include "engine/thinking_limit.h"

#include <algorithm>
#include <utility>

namespace kvkeep::engine {
namespace {

// Does not wait longer for broken text.
constexpr std::size_t kMostTokensOfACodePoint = 4;

bool ends_within_code_point(std::string_view text) {
  for (std::size_t back = 1; back <= 4 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    if (byte < 0xC0) return false;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return back < length;
  }
  return false;
}

}  // namespace

ThinkingLimit::ThinkingLimit(ThinkingParams params) : params_(std::move(params)) {
  if ((!params_.most_tokens && params_.end_now == nullptr) || params_.close_tokens.empty()) return;
  state_ = State::kBefore;
  if (params_.is_open) begin();
}

void ThinkingLimit::begin() {
  text_.clear();
  state_ = params_.most_tokens == 0U ? State::kClosing : State::kThinking;
}

std::optional<TokenId> ThinkingLimit::forced() {
  if (state_ == State::kThinking && may_close(params_.end_now != nullptr && *params_.end_now)) state_ = State::kClosing;
  if (state_ != State::kClosing) return std::nullopt;
  return params_.close_tokens[closing_at_];
}

void ThinkingLimit::accept(std::string_view piece) {
  switch (state_) {
    case State::kBefore: return look_for_beginning(piece);
    case State::kThinking: return count(piece);
    case State::kClosing:
      if (++closing_at_ == params_.close_tokens.size()) state_ = State::kDone;
      return;
    case State::kDone: return;
  }
}

// A thought is at the beginning of a reply, or nowhere.
void ThinkingLimit::look_for_beginning(std::string_view piece) {
  text_ += piece;
  text_.erase(0, text_.find_first_not_of(" \t\r\n"));
  if (text_.starts_with(params_.open)) return begin();
  if (!std::string_view(params_.open).starts_with(text_)) state_ = State::kDone;
}

bool ThinkingLimit::may_close(bool wanted) {
  if (!wanted) return false;
  return !ends_within_code_point(text_) || ++waited_ > kMostTokensOfACodePoint;
}

void ThinkingLimit::count(std::string_view piece) {
  ++tokens_;
  text_ += piece;
  if (text_.find(params_.close) != std::string::npos) {
    state_ = State::kDone;
    return;
  }
  if (may_close(params_.most_tokens && tokens_ >= *params_.most_tokens)) state_ = State::kClosing;
  const std::size_t kept = std::max<std::size_t>(params_.close.size(), 4);
  if (text_.size() > kept) text_.erase(0, text_.size() - kept);
}

}  // namespace kvkeep::engine
