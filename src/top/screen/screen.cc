#include "top/screen/screen.h"

#include <langinfo.h>

#include <clocale>
#include <string>
#include <string_view>

// Wide characters, and no macros that take common words.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>

namespace kvkeep::top {
namespace {

constexpr int kCtrlC = 3;  // read as a key: ncurses turns it into no signal here

bool speaks_utf8() { return std::string_view(::nl_langinfo(CODESET)) == "UTF-8"; }

// Bars and dashes need UTF-8. A container's environment often names no locale, while its terminal shows UTF-8.
void choose_locale() {
  std::setlocale(LC_ALL, "");
  if (!speaks_utf8()) std::setlocale(LC_CTYPE, "C.UTF-8");
}

short colour_of(Style style) {
  switch (style) {
    case Style::kMemory: return COLOR_BLUE;
    case Style::kRam: return COLOR_CYAN;
    case Style::kDisk: return COLOR_MAGENTA;
    case Style::kShared: return COLOR_GREEN;
    case Style::kPrefilled: return COLOR_YELLOW;
    case Style::kFault: return COLOR_RED;
    default: return -1;  // the terminal's own
  }
}

constexpr Style kColoured[] = {Style::kMemory, Style::kRam,       Style::kDisk,
                               Style::kShared, Style::kPrefilled, Style::kFault};

attr_t attributes_of(Style style, bool chosen) {
  attr_t attributes = A_NORMAL;
  if (style == Style::kStrong || style == Style::kFault) attributes |= A_BOLD;
  if (style == Style::kSoft) attributes |= A_DIM;
  if (colour_of(style) >= 0) attributes |= static_cast<attr_t>(COLOR_PAIR(static_cast<int>(style)));
  return chosen ? attributes | A_REVERSE : attributes;
}

void set_up_terminal() {
  ::raw();
  ::noecho();
  ::keypad(stdscr, TRUE);
  ::curs_set(0);
  if (::start_color() != OK) return;
  ::use_default_colors();
  for (const Style style : kColoured) ::init_pair(static_cast<short>(style), colour_of(style), -1);
}

}  // namespace

Result<std::unique_ptr<Screen>> Screen::open() {
  choose_locale();
  // initscr() would end the process if it knows no such terminal.
  SCREEN* const made = ::newterm(nullptr, stdout, stdin);
  if (made == nullptr) return unsupported("this terminal is not known: set TERM, or use --once");
  ::set_term(made);
  set_up_terminal();
  return std::unique_ptr<Screen>(new Screen());
}

Screen::Screen() = default;

Screen::~Screen() { ::endwin(); }

Size Screen::size() const {
  return {static_cast<std::size_t>(getmaxx(stdscr)), static_cast<std::size_t>(getmaxy(stdscr))};
}

void Screen::show(const std::vector<Line>& lines) {
  ::werase(stdscr);
  int row = 0;
  for (const Line& line : lines) {
    ::wmove(stdscr, row++, 0);
    for (const Span& span : line.spans) {
      ::wattrset(stdscr, static_cast<int>(attributes_of(span.style, line.chosen)));
      ::waddstr(stdscr, span.text.c_str());
    }
  }
  ::wattrset(stdscr, static_cast<int>(A_NORMAL));
  ::wrefresh(stdscr);
}

Key Screen::wait(int most_ms) {
  ::wtimeout(stdscr, most_ms);
  switch (::wgetch(stdscr)) {
    case 'q':
    case kCtrlC: return Key::kQuit;
    case KEY_UP:
    case 'k': return Key::kUp;
    case KEY_DOWN:
    case 'j': return Key::kDown;
    case KEY_PPAGE: return Key::kPageUp;
    case KEY_NPAGE: return Key::kPageDown;
    case KEY_HOME:
    case 'g': return Key::kFirst;
    case KEY_END:
    case 'G': return Key::kLast;
    case '\r':
    case '\n':
    case KEY_ENTER: return Key::kEnter;
    case 'p':
    case ' ': return Key::kPause;
    case '1': return Key::kFirstList;
    case '2': return Key::kSecondList;
    case '3': return Key::kThirdList;
    case '4': return Key::kFourthList;
    case '\t': return Key::kNextList;
    case KEY_RESIZE: return Key::kResized;
    default: return Key::kNone;
  }
}

}  // namespace kvkeep::top
