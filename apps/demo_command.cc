#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/demo_table.h"
#include "bench/run/player.h"
#include "bench/run/server_process.h"
#include "commands.h"
#include "model_maker/make_model.h"
#include "named_files.h"
#include "os/paths.h"
#include "os/signals.h"
#include "output.h"
#include "progress.h"

namespace kvkeep::cli {
namespace {

// Two agents with one system prompt; the second speaks a turn before the kill and one after it.
constexpr const char* kScript =
    "# Two agents\n"
    "context 8192\nsmall-context 4096\nreply 24\n"
    "system agent 900\nopen A agent\nopen B agent\n";
constexpr const char* kTurns =
    "turn A 60\nturn A 90\nturn A 160\nturn B 50\nturn A 120\nturn A 140\nturn A 90\nkill 1\n"
    "turn A 60\nturn A 80\nturn A 130\nturn B 90\nturn A 130\nturn A 70\nturn A 80\n";
constexpr const char* kQuickTurns =
    "turn A 60\nturn B 50\nturn A 90\nturn A 160\nkill 1\nturn A 120\nturn A 140\nturn B 90\nturn A 90\n";

// The first turn after the kill, counted from 0.
constexpr std::size_t kKillBefore = 7;
constexpr std::size_t kQuickKillBefore = 4;

constexpr const char kClosing[] =
    "\n"
    "To serve your own model, any GGUF file:\n"
    "\n"
    "    kvkeep serve -m /path/to/model.gguf\n"
    "\n"
    "It listens on 127.0.0.1:8080. Its cache on disk, in {}/kvkeep,\n"
    "can be read only by you and holds conversations in clear; --no-kv-disk turns it\n"
    "off. Try it:\n"
    "\n"
    "    curl http://127.0.0.1:8080/v1/chat/completions -d '{{\"max_tokens\": 64,\n"
    "      \"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}]}}'\n"
    "\n"
    "Clients of OpenAI's chat completions need the base URL, any key and any model\n"
    "name. For OpenAI's own libraries and what is built on them, and for aider:\n"
    "\n"
    "    export OPENAI_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none\n"
    "\n"
    "    export OPENAI_API_BASE=http://127.0.0.1:8080/v1 OPENAI_API_KEY=none\n"
    "    aider --model openai/local\n"
    "\n"
    "For Claude Code:\n"
    "\n"
    "    ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=none claude\n";

std::string closing() {
  const Result<std::string> cache_home = os::user_cache_home();
  return fmt::format(kClosing, cache_home ? *cache_home : "~/.cache");
}

// Slices of 128 tokens, and quantized rows: with f16 ones replies with and without the cache could differ at near ties.
std::vector<std::string> serve_flags(const std::string& model) {
  return {"serve", "-m",   model,  "-c",   "8192", "-b", "128",       "-ub",   "128",
          "-ctk",  "q8_0", "-ctv", "q8_0", "-fa",  "on", "--restore", "always"};
}

class Demo {
 public:
  Demo(const DemoOptions& options, const std::string& directory, bench::Interrupt& interrupt)
      : options_(options), directory_(directory), interrupt_(interrupt) {}

  Status run() {
    TRY_ASSIGN(const bench::Workload workload,
               bench::parse_workload("demo", std::string(kScript) + (options_.quick ? kQuickTurns : kTurns)));
    TRY_ASSIGN(const std::string model, model_file());
    bench::ServerCommand command;
    command.arguments = serve_flags(model);
    print(
        fmt::format("Two conversations with one system prompt, A and B; each turn sends all that was\n"
                    "said before. A kill -9 in the middle. The server runs as\n"
                    "    kvkeep {}\n",
                    fmt::join(command.arguments, " ")));
    command.arguments.insert(command.arguments.end(), {"--kv-disk-dir", directory_ + "/cache"});
    status_.show("loading the model ...");
    bench::ServerProcess server(std::move(command), directory_, interrupt_);
    TRY(server.start());
    TRY_ASSIGN(const bench::Played with_cache, play(workload, server, "With the cache", true));
    TRY_ASSIGN(const bench::Played without,
               play(workload, server, "The same without the cache (cache_prompt: false)", false));
    TRY(server.stop());
    const std::size_t kill_before = options_.quick ? kQuickKillBefore : kKillBefore;
    std::size_t equal = 0;
    for (std::size_t i = 0; i < with_cache.replies.size(); ++i) equal += with_cache.replies[i] == without.replies[i];
    print("\n" + bench::demo_comparison(with_cache.figures, without.figures, kill_before, equal) + closing());
    return {};
  }

 private:
  Result<std::string> model_file() const {
    if (!options_.model.empty()) {
      TRY(check_model(options_.model));
      return options_.model;
    }
    gguf::MakeModelOptions model;
    model.size = options_.quick ? gguf::ModelSize::kTiny : gguf::ModelSize::kSmall;
    std::string path = directory_ + "/random-weights.gguf";
    TRY(gguf::make_model(model, path));
    return path;
  }

  // An error is the first problem of the run.
  Result<bench::Played> play(const bench::Workload& workload, bench::ServerProcess& server, const char* title,
                             bool cache_prompt) {
    status_.clear();
    print(fmt::format("\n{}\n{}\n", title, bench::demo_heading()));
    std::uint64_t kills = 0;
    const auto show = [&](const bench::RunFigures& so_far) {
      status_.clear();
      if (kills != so_far.kills) print("        kill -9, and a new server on the same cache directory\n");
      kills = so_far.kills;
      print(bench::demo_turn(so_far.requests.back()) + "\n");
      const std::size_t played = so_far.requests.size();
      if (played < workload.requests()) status_.show(fmt::format("turn {} of {} ...", played + 1, workload.requests()));
    };
    const bench::PlayOptions play_options{
        .text_is_exact = options_.model.empty(), .cache_prompt = cache_prompt, .on_request = show};
    TRY_ASSIGN(bench::Played played,
               bench::play(workload, {.name = "kvkeep", .process = &server, .base_url = {}}, play_options, interrupt_));
    status_.clear();
    if (played.figures.problems.empty()) return played;
    return io_error(played.figures.problems.front());
  }

  const DemoOptions& options_;
  const std::string& directory_;
  bench::Interrupt& interrupt_;
  StatusLine status_;
};

}  // namespace

Result<int> run_demo(const DemoOptions& options) {
  bench::Interrupt interrupt;
  const os::SignalWatch watch([&] { interrupt.raise(); });
  TRY_ASSIGN(const os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-demo-"));
  const Status status = Demo(options, directory.path(), interrupt).run();
  if (watch.exit_status() != 0) {
    print_error("kvkeep: interrupted\n");
    return watch.exit_status();
  }
  TRY(status);
  return 0;
}

}  // namespace kvkeep::cli
