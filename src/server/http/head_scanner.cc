#include "server/http/head_scanner.h"

namespace kvkeep::server {

HeadScanner::Found HeadScanner::refuse(int status, std::string_view reason) {
  refusal_ = {status, std::string(reason)};
  return Found::kRefused;
}

HeadScanner::Found HeadScanner::scan(std::string_view bytes) {
  for (; scanned_ < bytes.size(); ++scanned_) {
    const auto byte = static_cast<unsigned char>(bytes[scanned_]);
    if (byte == '\n' && after_return_) {
      after_return_ = false;
      const Found found = end_line(scanned_ + 1);
      if (found == Found::kEnd) ++scanned_;
      if (found != Found::kNothingYet) return found;
      continue;
    }
    if (const Found found = check_byte(byte, scanned_); found != Found::kNothingYet) return found;
    after_return_ = byte == '\r';
  }
  return Found::kNothingYet;
}

HeadScanner::Found HeadScanner::end_line(std::size_t end) {
  const bool is_empty = end - line_begin_ == 2;
  if (is_empty && lines_ > 0) return Found::kEnd;
  if (is_empty) return refuse(400, "The request begins with an empty line");
  if (lines_++ > kHeadFieldsMax) return refuse(431, "The request has more than 100 header fields");
  line_begin_ = end;
  return Found::kNothingYet;
}

HeadScanner::Found HeadScanner::check_byte(unsigned char byte, std::size_t at) {
  if (after_return_ || byte == '\n') return refuse(400, "A line of the request's head does not end with CR LF");
  const bool is_control = (byte < ' ' && byte != '\t' && byte != '\r') || byte == 0x7F;
  if (is_control) return refuse(400, "The request's head contains a control character");
  if (at == line_begin_ && lines_ > 0 && (byte == ' ' || byte == '\t')) {
    return refuse(400, "A header field continues on a second line; send it on one line");
  }
  if (at - line_begin_ >= kHeadLineBytesMax) {
    if (lines_ == 0) return refuse(414, "The request target is too long");
    return refuse(431, "A header field is longer than 8192 bytes");
  }
  if (at >= kHeadBytesMax) return refuse(431, "The header fields are larger than 64 KiB together");
  return Found::kNothingYet;
}

}  // namespace kvkeep::server
