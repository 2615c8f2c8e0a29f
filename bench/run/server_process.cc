#include "bench/run/server_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "bench/run/count_shim.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/network.h"
#include "os/process.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {
namespace {

constexpr int kPollMs = 20;
constexpr int kHealthMs = 2'000;
constexpr int kKillMs = 10'000;
constexpr int kLastMs = 1'000;
constexpr std::size_t kLogBytesMax = 16U << 20;
constexpr int kTailLines = 3;
constexpr std::size_t kTailCharacters = 600;

// Returns the last `limit` bytes of a file; "" if it cannot be read.
std::string end_of_file(const std::string& path, std::size_t limit) {
  const auto file = os::real_file_system().open(path);
  if (!file) return {};
  const auto size = (*file)->size();
  if (!size) return {};
  const std::uint64_t from = size->value() > limit ? size->value() - limit : 0;
  std::string text(size->value() - from, '\0');
  const auto count = (*file)->read_at(from, std::as_writable_bytes(std::span(text)));
  text.resize(count ? *count : 0);
  return text;
}

std::string preload_value(const std::string& shim) {
  const os::Environment environment = os::read_environment();
  const auto found = environment.find("LD_PRELOAD");
  return found == environment.end() || found->second.empty() ? shim : shim + ":" + found->second;
}

std::string describe(const os::ChildEnd& end) {
  if (end.signal != 0) return fmt::format("was killed by signal {}", end.signal);
  return fmt::format("ended with status {}", end.exit_code);
}

bool changes_a_server(std::string_view variable) {
  return variable.starts_with("LLAMA_ARG_") || variable == "LLAMA_API_KEY";
}

}  // namespace

std::vector<std::string> cleared_variables() {
  std::vector<std::string> names;
  for (const auto& [name, value] : os::read_environment()) {
    if (changes_a_server(name)) names.push_back(name);
  }
  return names;
}

std::string note_on_environment() {
  const std::vector<std::string> names = cleared_variables();
  return names.empty() ? "" : fmt::format("; without {} of the environment", fmt::join(names, ", "));
}

ServerProcess::ServerProcess(ServerCommand command, std::string directory, Interrupt& interrupt)
    : command_(std::move(command)), directory_(std::move(directory)), interrupt_(interrupt), guard_(interrupt, [this] {
        if (const auto running = child()) running->kill();
      }) {}

ServerProcess::~ServerProcess() {
  const auto running = child();
  if (running == nullptr) return;
  running->kill();
  // Processes that it started write to the directory until then.
  os::wait_until_port_is_free(port_, kLastMs);
}

Status ServerProcess::start() {
  TRY(interrupt_.check());
  if (port_ == 0) {
    TRY_ASSIGN(port_, os::free_port());
    base_url_ = fmt::format("http://127.0.0.1:{}", port_);
  }
  if (!has_shim_) TRY(write_count_shim(path(".shim.so")));
  has_shim_ = true;
  TRY(launch());
  TRY(wait_until_ready());
  const std::uint64_t ids = counted().ids;
  if (!warm_up_ids_) warm_up_ids_ = ids;
  base_ids_ = std::min(ids, *warm_up_ids_);
  const auto cpu = cpu_seconds();
  const double cpu_s = cpu ? *cpu : 0;
  if (!warm_up_cpu_s_) warm_up_cpu_s_ = cpu_s;
  base_cpu_s_ = std::min(cpu_s, *warm_up_cpu_s_);
  return {};
}

Status ServerProcess::launch() {
  // A killed server's count was added up; the next one begins at 0.
  if (const Status removed = os::real_file_system().remove(path(".count"));
      !removed && removed.error().kind != ErrorKind::kNotFound) {
    return removed;
  }
  base_ids_ = 0;
  base_encoded_ = 0;
  os::ChildProcessOptions options;
  options.program = command_.program;
  options.arguments = command_.arguments;
  for (const char* argument : {"--host", "127.0.0.1", "--port"}) options.arguments.emplace_back(argument);
  options.arguments.push_back(std::to_string(port_));
  options.environment = {{"LD_PRELOAD", preload_value(path(".shim.so"))}, {"KVKEEP_COUNT_FILE", path(".count")}};
  for (const auto& variable : command_.environment) options.environment.push_back(variable);
  options.without = cleared_variables();
  options.output_path = path(".log");
  TRY_ASSIGN(std::shared_ptr<os::ChildProcess> started, os::start_child(options));
  const MutexLock lock(mutex_);
  child_ = std::move(started);
  return {};
}

Status ServerProcess::wait_until_ready() {
  TRY_ASSIGN(server::HttpClient http, server::HttpClient::make(base_url_));
  server::ClientRequest health{.method = "GET", .path = "/health", .headers = {}, .body = {}};
  health.silence_ms = kHealthMs;
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  while (true) {
    // Waits here, too.
    if (const auto end = child()->wait(kPollMs)) {
      TRY(interrupt_.check());
      return io_error(fmt::format("{} {} before it was ready; its log ends: {}", name(), describe(*end), log_tail()));
    }
    TRY(interrupt_.check());
    const auto reply = http.send(health);
    if (reply && reply->first.status == 200) return {};
    if (os::elapsed_ms(begin_ns, os::real_clock().monotonic_ns()) > command_.start_limit_ms) {
      child()->kill();
      return io_error(fmt::format("{} was not ready within {:.3g} s; its log ends: {}", name(),
                                  command_.start_limit_ms / 1e3, log_tail()));
    }
  }
}

Status ServerProcess::restart_after_kill() {
  const auto served = served_cpu_seconds();
  settled_cpu_s_ = served ? std::optional(*served) : std::nullopt;
  child()->kill();
  if (const auto end = child()->wait(kKillMs); !end) return end.error();
  TRY(wait_until_port_is_free(kKillMs));
  settle();
  return start();
}

Status ServerProcess::stop(int limit_ms) {
  const auto running = child();
  if (running == nullptr) return {};
  running->terminate();
  const auto end = running->wait(limit_ms);
  const Status gone = end ? wait_until_port_is_free(limit_ms) : Status();
  running->kill();
  settle();
  if (!end) return io_error(fmt::format("{} did not stop within {:.3g} s: {}", name(), limit_ms / 1e3, log_tail()));
  if (!os::ended_as_asked(*end)) {
    return io_error(fmt::format("{} was asked to stop and {}: {}", name(), describe(*end), log_tail()));
  }
  return gone;
}

Status ServerProcess::wait_until_port_is_free(int limit_ms) const {
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  while (!os::wait_until_port_is_free(port_, kPollMs)) {
    TRY(interrupt_.check());
    if (os::elapsed_ms(begin_ns, os::real_clock().monotonic_ns()) > limit_ms) {
      return io_error(fmt::format("{} has ended, but another process still listens at its port {}", name(), port_));
    }
  }
  return {};
}

void ServerProcess::settle() {
  settled_ids_ = decoded_ids();
  base_ids_ = counted().ids;
  settled_encoded_ = encoded_pieces();
  base_encoded_ = counted().encoded;
  was_counted_ = is_counted();
}

ServerProcess::Counted ServerProcess::counted() const {
  const auto file = os::real_file_system().open(path(".count"));
  Counted counted;
  if (!file) return {};
  const auto size = (*file)->read_at(0, std::as_writable_bytes(std::span(&counted, 1)));
  // A server that counts for itself may count no pictures.
  return size && *size >= offsetof(Counted, encoded) ? counted : Counted{};
}

std::uint64_t ServerProcess::encoded_pieces() const { return settled_encoded_ + counted().encoded - base_encoded_; }

std::uint64_t ServerProcess::decoded_ids() const { return settled_ids_ + counted().ids - base_ids_; }

bool ServerProcess::is_counted() const { return was_counted_ || counted().calls > 0; }

std::shared_ptr<os::ChildProcess> ServerProcess::child() const {
  const MutexLock lock(mutex_);
  return child_;
}

std::optional<os::ChildEnd> ServerProcess::ended() const { return child()->ended(); }

void ServerProcess::wait(int limit_ms) const { std::ignore = child()->wait(limit_ms); }

std::string ServerProcess::death() const {
  const auto end = ended();
  return end ? describe(*end) : std::string();
}

Result<double> ServerProcess::cpu_seconds() const { return child()->cpu_seconds(); }

Result<double> ServerProcess::served_cpu_seconds() const {
  TRY_ASSIGN(const double seconds, cpu_seconds());
  if (!settled_cpu_s_) return io_error("an earlier process of " + name() + " ended by itself");
  return *settled_cpu_s_ + seconds - base_cpu_s_;
}

int ServerProcess::id() const { return child()->id(); }

std::string ServerProcess::log() const { return end_of_file(path(".log"), kLogBytesMax); }

std::string ServerProcess::log_tail() const {
  std::string text = end_of_file(path(".log"), 2 * kTailCharacters);
  while (text.ends_with('\n')) text.pop_back();
  std::size_t from = text.size();
  for (int line = 0; line < kTailLines && from != 0 && from != std::string::npos; ++line) {
    from = text.rfind('\n', from - 1);
  }
  if (from != std::string::npos) text.erase(0, from);
  if (text.size() > kTailCharacters) text.erase(0, text.size() - kTailCharacters);
  std::ranges::replace(text, '\n', ' ');
  text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
  return text.empty() ? "(nothing)" : text;
}

}  // namespace kvkeep::bench
