#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "bench/report/report.h"
#include "bench/report/summary.h"
#include "bench/run/replayer.h"
#include "bench/run/server_process.h"
#include "bench/run/surroundings.h"
#include "command_words.h"
#include "commands.h"
#include "engine/llama/library.h"
#include "named_files.h"
#include "os/file_system.h"
#include "os/paths.h"
#include "os/signals.h"
#include "output.h"
#include "progress.h"
#include "write_reports.h"

namespace kvkeep::cli {
namespace {

constexpr int kDeathMs = 1'000;

constexpr std::size_t kMaxRecordingBytes = std::size_t{1} << 30;

Result<std::string> read_standard_input() {
  std::string text;
  std::vector<char> piece(1 << 20);
  while (std::cin) {
    std::cin.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMaxRecordingBytes) return invalid("-: more than 1 GiB of text");
  }
  return text;
}

}  // namespace

Result<std::string> read_recording(const std::string& file) {
  return file == "-" ? read_standard_input() : read_file(file, kMaxRecordingBytes);
}

namespace {

// The recordings and their sizes when they were read.
class Recordings {
 public:
  void add(const std::string& path, std::size_t size_bytes) {
    if (path != "-") sizes_bytes_.emplace_back(path, size_bytes);
  }
  // Returns a line for each recording that has grown since: most likely the server under test writes its trace there.
  std::vector<std::string> grown() const {
    std::vector<std::string> lines;
    for (const auto& [path, size_bytes] : sizes_bytes_) {
      const auto target = os::resolve_links(path);
      if (!target) continue;
      const auto file = os::real_file_system().open(*target);
      if (!file) continue;
      const auto now = (*file)->size();
      if (!now || now->value() <= size_bytes) continue;
      lines.push_back(fmt::format(
          "{} grew while it was played: is it the --trace file of this very server? Play a copy of it instead", path));
    }
    return lines;
  }

 private:
  std::vector<std::pair<std::string, std::size_t>> sizes_bytes_;
};

Result<std::vector<bench::Session>> read_sessions(const std::vector<std::string>& files, Recordings& recordings) {
  std::vector<bench::Session> sessions;
  for (const std::string& file : files) {
    TRY_ASSIGN(const std::string text, read_recording(file));
    recordings.add(file, text.size());
    TRY_ASSIGN(bench::Session session, bench::parse_session(file, text));
    bench::put_stand_ins(session);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

// A server of --server and the directory that it writes to, destroyed in reverse order.
struct StartedServer {
  os::TemporaryDirectory directory;
  std::unique_ptr<bench::ServerProcess> process;
};

Result<StartedServer> start_server(const std::string& command, bench::Interrupt& interrupt) {
  TRY_ASSIGN(std::vector<std::string> words, command_words(command));
  const std::string name = words.front().substr(words.front().rfind('/') + 1);
  if (name.empty()) return invalid("--server '" + command + "' does not name a program");
  bench::ServerCommand server{.name = name, .program = words.front(), .arguments = {words.begin() + 1, words.end()}};
  TRY_ASSIGN(os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-replay-"));
  auto process = std::make_unique<bench::ServerProcess>(std::move(server), directory.path(), interrupt);
  TRY(process->start());
  return StartedServer{std::move(directory), std::move(process)};
}

bench::ReplayOptions replay_options(const ReplayCommandOptions& options, bench::ServerProcess* process) {
  bench::ReplayOptions replay;
  replay.server_name = process == nullptr ? options.server.url : process->name();
  bench::ServerTarget& target = replay.run.target;
  target.base_url = process == nullptr ? options.server.url : process->base_url();
  target.adapt = {.model = options.model, .reply_tokens = options.reply_tokens, .stream = true};
  target.silence_ms = static_cast<int>(options.timeout_s) * 1000;
  replay.run.fast = options.fast;
  replay.run.echo_generated = options.echo_generated;
  replay.run.in_flight_max = options.in_flight_max;
  if (process != nullptr) {
    replay.death = [process] {
      process->wait(kDeathMs);  // its connections break a moment before the process ends
      return process->death();
    };
    replay.decoded_ids = [process] { return process->decoded_ids(); };
    replay.cpu_seconds = [process]() -> std::optional<double> {
      const auto seconds = process->served_cpu_seconds();
      return seconds ? std::optional(*seconds) : std::nullopt;
    };
  }
  return replay;
}

// A running server is described by its own replies; one that was started, also by what its program prints.
bench::ServerInfo server_info(const ReplayCommandOptions& options, const bench::Replayer& replayer,
                              const std::string& server_name, bench::Interrupt& interrupt) {
  bench::ServerInfo info{.name = server_name, .version = replayer.server_version(), .flags = "was running"};
  if (options.server_command.empty()) {
    if (!replayer.server_field().empty()) info.flags += fmt::format(", calls itself {}", replayer.server_field());
    return info;
  }
  info.flags = options.server_command + bench::note_on_environment();
  const auto words = command_words(options.server_command);
  if (words && info.version.empty()) info.version = bench::version_of_program(words->front(), interrupt);
  return info;
}

bench::Report begin_report(const bench::Replayer& replayer, bench::ServerInfo server) {
  bench::Report report = bench::start_report();
  report.title = "kvkeep replay";
  report.kvkeep_version = KVKEEP_VERSION;
  report.libllama_version = engine::llama::library_versions();
  report.model = replayer.model_name();
  report.servers = {std::move(server)};
  return report;
}

void play_all(const std::vector<bench::Session>& sessions, bench::Replayer& replayer, StatusLine& line,
              bench::Report& report) {
  for (const bench::Session& session : sessions) {
    if (replayer.is_over()) break;
    report.runs.push_back(replayer.play(session));
    line.clear();
    print(bench::to_request_table(report.runs.back()) + "\n");
    std::fflush(stdout);
  }
}

Status check_played(const bench::Report& report, std::size_t sessions) {
  std::size_t requests = 0;
  std::size_t answered = 0;
  for (const bench::RunFigures& run : report.runs) {
    requests += run.requests.size();
    answered += static_cast<std::size_t>(std::ranges::count_if(run.requests, std::not_fn(bench::failed)));
  }
  if (answered == 0) return io_error(fmt::format("nothing was played: all {} requests failed", requests));
  if (report.runs.size() < sessions) {
    const std::size_t missing = sessions - report.runs.size();
    print_error(fmt::format("kvkeep: the last {} of {} recordings were not played\n", missing, sessions));
  }
  return {};
}

// Returns exit status 1 if something is wrong.
Result<int> play_sessions(const ReplayCommandOptions& options, const std::vector<bench::Session>& sessions,
                          const Recordings& recordings, bench::Interrupt& interrupt) {
  TRY_ASSIGN(const std::string key, key_to_send(options.server));
  std::optional<StartedServer> started;
  if (!options.server_command.empty()) {
    TRY_ASSIGN(started, start_server(options.server_command, interrupt));
  }
  bench::ServerProcess* process = started ? started->process.get() : nullptr;
  StatusLine line;
  bench::ReplayOptions replay = replay_options(options, process);
  replay.run.target.api_key = key;
  replay.run.on_progress = [&line](const bench::Session& session, std::size_t ended) {
    line.show(fmt::format("{:.60}: {} of {} requests", session.name, ended, session.requests.size()));
  };
  const std::string server_name = replay.server_name;
  TRY_ASSIGN(const std::unique_ptr<bench::Replayer> replayer, bench::Replayer::make(std::move(replay), interrupt));

  bench::Report report = begin_report(*replayer, server_info(options, *replayer, server_name, interrupt));
  play_all(sessions, *replayer, line, report);
  std::ranges::move(recordings.grown(), std::back_inserter(report.problems));
  print(bench::to_table(report));
  std::fflush(stdout);
  TRY(write_reports(report, options.reports));
  TRY(interrupt.check());
  if (process != nullptr && !process->ended()) TRY(process->stop());
  TRY(check_played(report, sessions.size()));
  return replayer->found_wrong() ? 1 : 0;
}

}  // namespace

Result<int> run_replay(const ReplayCommandOptions& options) {
  TRY(check_outputs(outputs_of(options.reports)));
  Recordings recordings;
  TRY_ASSIGN(const std::vector<bench::Session> sessions, read_sessions(options.files, recordings));
  bench::Interrupt interrupt;
  const os::SignalWatch watch([&] { interrupt.raise(); });
  const Result<int> played = play_sessions(options, sessions, recordings, interrupt);
  if (watch.exit_status() != 0) {
    print_error("kvkeep: interrupted\n");
    return watch.exit_status();
  }
  return played;
}

}  // namespace kvkeep::cli
