#pragma once

// Splits bytes into server-sent events as they arrive: any line end (LF, CRLF, CR), comments, data of several lines,
// cut anywhere. As the HTML standard says, except that an event at the very end needs no empty line after it.

#include <functional>
#include <string>
#include <string_view>

namespace kvkeep::bench {

class EventSplitter {
 public:
  // `name` is from the event's "event:" line, "" if it had none.
  using TakeEvent = std::function<void(std::string_view name, std::string_view data)>;

  // A line or an event of more than `limit_bytes` is dropped; overflowed() then returns true.
  EventSplitter(std::size_t limit_bytes, TakeEvent take);

  void feed(std::string_view bytes);
  // No more bytes will come.
  void finish();
  bool overflowed() const { return overflowed_; }

 private:
  void end_line();
  void take_line(std::string_view line);
  void end_event();

  std::size_t limit_bytes_;
  TakeEvent take_;
  std::string line_;  // a line without its end
  std::string name_;
  std::string data_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed now belongs to the line end before it
  bool overflowed_ = false;
};

}  // namespace kvkeep::bench
