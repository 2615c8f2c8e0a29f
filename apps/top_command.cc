#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.h"
#include "named_files.h"
#include "os/clock.h"
#include "os/process.h"
#include "output.h"
#include "server/http/http_client.h"
#include "top/frame.h"
#include "top/screen/screen.h"
#include "top/view.h"

namespace kvkeep::cli {
namespace {

// A server that is busy answers these routes at once; one that does not for so long is not there.
constexpr int kPatienceMs = 3'000;
constexpr int kPastRequests = 64;
constexpr int kHottest = 50;
// The frame without a terminal, whose columns are unknown.
constexpr top::Size kPlainSize{100, 40};

double now_s() { return static_cast<double>(os::real_clock().wall_ns()) / 1e9; }

// Asks the server's routes and keeps what they said last.
class Watcher {
 public:
  Watcher(server::HttpClient client, std::string key) : client_(std::move(client)), key_(std::move(key)) {}

  const top::View& view() const { return view_; }

  // Routes that an operator turned off leave their part empty. The server looks for prefixes only for those who see
  // them, because that takes it time for each that is stored. Errors: no server, no kvkeep, or a wrong key.
  Status look(top::List list) {
    Status looked = ask_all(list);
    refusals_ = refused_ ? refusals_ + 1 : 0;
    return looked;
  }
  // Looks in a row that were refused for their key.
  std::size_t refusals() const { return refusals_; }

 private:
  Status ask_all(top::List list) {
    refused_ = false;
    const int hottest = list == top::List::kPrefixes ? kHottest : 0;
    TRY(ask(fmt::format("/cache?hottest={}", hottest), /*needed=*/true, top::read_cache));
    if (list == top::List::kCauses) return ask("/cache/offenders", /*needed=*/false, top::read_offenders);
    if (list != top::List::kRequests) return {};
    return ask(fmt::format("/cache/explain?last={}", kPastRequests), /*needed=*/false, top::read_explained);
  }
  Status ask(const std::string& path, bool needed, Status (*read)(std::string_view, top::View&)) {
    server::ClientRequest request;
    request.method = "GET";
    request.path = path;
    request.silence_ms = kPatienceMs;
    if (!key_.empty()) request.headers = {{"Authorization", "Bearer " + key_}};
    TRY_ASSIGN(const auto reply, client_.send(request));
    const int status = reply.first.status;
    if (status == 200) return read(reply.second, view_);
    refused_ = status == 401;
    if (refused_) return key_refused(key_);
    const bool is_off = status == 404 || status == 501;
    if (is_off && !needed) return {};
    if (is_off)
      return unsupported(fmt::format("{} is not served there: is it a kvkeep server, without --no-cache-api?", path));
    return io_error(fmt::format("{} is answered with status {}", path, status));
  }

  server::HttpClient client_;
  const std::string key_;
  top::View view_;
  bool refused_ = false;  // the last request
  std::size_t refusals_ = 0;
};

void show_list(top::List list, top::Look& look) {
  look.list = list;
  look.chosen = 0;
  look.explains = false;
}

top::List after(top::List list) { return top::kLists[(static_cast<std::size_t>(list) + 1) % top::kLists.size()]; }

// What a key does to the look; false: to quit.
bool obey(top::Key key, const top::View& view, std::size_t page, top::Look& look) {
  const std::size_t entries = top::entries_of(view, look.list);
  const auto move = [&](std::size_t to) { look.chosen = std::min(to, entries == 0 ? 0 : entries - 1); };
  const auto up = [&](std::size_t by) { move(look.chosen > by ? look.chosen - by : 0); };
  switch (key) {
    case top::Key::kQuit: return false;
    case top::Key::kUp: up(1); break;
    case top::Key::kDown: move(look.chosen + 1); break;
    case top::Key::kPageUp: up(page); break;
    case top::Key::kPageDown: move(look.chosen + page); break;
    case top::Key::kFirst: move(0); break;
    case top::Key::kLast: move(entries); break;
    case top::Key::kEnter: look.explains = !look.explains; break;
    case top::Key::kPause: look.paused = !look.paused; break;
    case top::Key::kFirstList: show_list(top::List::kRequests, look); break;
    case top::Key::kSecondList: show_list(top::List::kCauses, look); break;
    case top::Key::kThirdList: show_list(top::List::kPrefixes, look); break;
    case top::Key::kFourthList: show_list(top::List::kTenants, look); break;
    case top::Key::kNextList: show_list(after(look.list), look); break;
    case top::Key::kNone:
    case top::Key::kResized: break;
  }
  return true;
}

// What tells the chosen entry from others, also when it moves.
std::string chosen_name(const top::View& view, const top::Look& look) {
  if (look.chosen >= top::entries_of(view, look.list)) return "";
  return top::entry_name(view, look.list, look.chosen);
}

// The chosen entry stays chosen when others come above it. The first one is chosen for its place.
void follow(const std::string& name, const top::View& view, top::Look& look) {
  const std::size_t entries = top::entries_of(view, look.list);
  if (look.chosen > 0 && !name.empty()) {
    std::size_t at = 0;
    while (at < entries && top::entry_name(view, look.list, at) != name) ++at;
    if (at < entries) look.chosen = at;
  }
  look.chosen = std::min(look.chosen, entries == 0 ? 0 : entries - 1);
}

void look_again(Watcher& watcher, double interval_s, top::Look& look) {
  const std::string chosen = chosen_name(watcher.view(), look);
  const Status looked = watcher.look(look.list);
  look.trouble = looked ? "" : looked.error().message;
  look.refused = watcher.refusals() > 0;
  if (look.refused) {
    look.trouble += fmt::format(" (asked again after {})",
                                top::duration(top::seconds_to_next_look(interval_s, watcher.refusals())));
  }
  follow(chosen, watcher.view(), look);
}

// Until a key quits. Waits for keys between two looks, so that they are obeyed at once; another list is looked for at
// once as well, also while the look is paused.
void watch(Watcher& watcher, top::Screen& screen, double interval_s, top::Look look) {
  std::int64_t looked_ns = 0;
  std::optional<top::List> looked_at;
  while (true) {
    const std::int64_t begin_ns = os::real_clock().monotonic_ns();
    const double pause_ms = top::seconds_to_next_look(interval_s, watcher.refusals()) * 1e3;
    const double left_ms = pause_ms - os::elapsed_ms(looked_ns, begin_ns);
    if (looked_at != look.list || (left_ms <= 0 && !look.paused)) {
      look_again(watcher, interval_s, look);
      looked_ns = os::real_clock().monotonic_ns();
      looked_at = look.list;
    }
    look.now_s = now_s();
    const top::Size size = screen.size();
    screen.show(top::frame(watcher.view(), look, size));
    const double next_ms = top::seconds_to_next_look(interval_s, watcher.refusals()) * 1e3;
    const double wait_ms = look.paused ? next_ms : next_ms - os::elapsed_ms(looked_ns, os::real_clock().monotonic_ns());
    const std::size_t page = top::listed(watcher.view(), look, size);
    if (!obey(screen.wait(std::max(1, static_cast<int>(wait_ms))), watcher.view(), page, look)) return;
  }
}

Status print_once(Watcher& watcher, top::List list) {
  TRY(watcher.look(list));
  const top::Look look{.list = list, .now_s = now_s()};
  print(top::plain_text(top::frame(watcher.view(), look, kPlainSize)));
  return {};
}

}  // namespace

Status run_top(const TopCommandOptions& options) {
  TRY_ASSIGN(std::string key, key_to_send(options.server));
  TRY_ASSIGN(server::HttpClient client, server::HttpClient::make(options.server.url));
  Watcher watcher(std::move(client), std::move(key));
  if (options.once || !os::output_goes_to_a_terminal()) return print_once(watcher, options.list);
  TRY_ASSIGN(const std::unique_ptr<top::Screen> screen, top::Screen::open());
  watch(watcher, *screen, options.interval_s, {.list = options.list});
  return {};
}

}  // namespace kvkeep::cli
