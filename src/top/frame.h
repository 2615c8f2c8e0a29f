#pragma once

// One picture of the view, as lines of styled text. Pure: the same view and size give the same frame.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "top/view.h"

namespace kvkeep::top {

enum class Style : std::uint8_t { kPlain, kSoft, kStrong, kMemory, kRam, kDisk, kShared, kPrefilled, kFault };

// A piece of a line: printable UTF-8.
struct Span {
  std::string text = {};
  Style style = Style::kPlain;
};

struct Line {
  std::vector<Span> spans = {};
  bool chosen = false;  // shown in reverse

  std::size_t columns() const;
};

// The lists below what runs, of which one is shown.
enum class List : std::uint8_t { kRequests, kCauses, kPrefixes, kTenants };
inline constexpr std::array kLists = {List::kRequests, List::kCauses, List::kPrefixes, List::kTenants};

// What the user looks at.
struct Look {
  List list = List::kRequests;
  std::size_t chosen = 0;  // of its entries
  bool explains = false;   // that one
  bool paused = false;
  std::string trouble = {};  // why the server does not answer; empty: it does
  bool refused = false;      // it does answer, and refuses the key
  double now_s = 0;          // by the wall clock, since 1970
};

struct Size {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// How long to wait until the next look, after so many in a row that the server refused for their key: ever longer, for
// nothing but a restart of either program can change that, and each refusal is a line in the server's log.
double seconds_to_next_look(double interval_s, std::size_t refusals);

// Returns at most size.rows lines, none wider than size.columns; less than all if that is too small for all parts.
std::vector<Line> frame(const View& view, const Look& look, Size size);

std::string_view name_of(List list);  // "requests", "causes", "prefixes", "tenants"
std::size_t entries_of(const View& view, List list);
// What tells an entry from the others, also when it has another place in a later view.
std::string entry_name(const View& view, List list, std::size_t at);
// lists.cc: what the columns of a list are, or, if it is empty, why; the line of an entry that is there, and more about
// it.
std::string heading_of(const View& view, List list, std::size_t columns);
Line entry_line(const View& view, const Look& look, std::size_t at, std::size_t columns);
std::vector<Line> details(const View& view, const Look& look, std::size_t columns);
// How many of them a frame of this size lists.
std::size_t listed(const View& view, const Look& look, Size size);

// The frame as text without styles, for a pipe.
std::string plain_text(const std::vector<Line>& lines);

// ---- figures as they are read at a glance ----

std::string compact(std::uint64_t count);  // "950", "12.3k", "4.56M"
std::string bytes(std::uint64_t count);    // "1.96 GiB"
std::string duration(double seconds);      // "85 ms", "1.24 s", "4 min 12 s", "3 h 10 min"

}  // namespace kvkeep::top
