// The program kvkeep: parses its command line, runs the command, reports an error.

#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "command_words.h"
#include "commands.h"
#include "engine/llama/memory_class.h"
#include "os/process.h"
#include "output.h"
#include "serve_log.h"
#include "text/terminal.h"

namespace {

using kvkeep::Result;
using kvkeep::Status;
namespace cli = kvkeep::cli;

Result<int> success_after(Status status) {
  TRY(std::move(status));
  return 0;
}

void complain(const kvkeep::Error& error) {
  constexpr std::size_t kIndent = 2;  // so that no words of others begin a line
  cli::print_error("kvkeep: " + kvkeep::text::escaped(error.message, kIndent) + "\n");
}

// The exit status.
struct Run {
  Result<int> operator()(const cli::PrintText& printed) const {
    cli::print(printed.text);
    return 0;
  }
  Result<int> operator()(const cli::ServeOptions& options) const {
    const kvkeep::Status served = cli::run_serve(options);
    if (served || served.error().kind != kvkeep::ErrorKind::kAborted) return success_after(served);
    complain(served.error());
    return 0;  // a signal that comes while the model is loaded is obeyed like a later one
  }
  Result<int> operator()(const cli::ParsedModelMake& make) const { return success_after(cli::run_model_make(make)); }
  Result<int> operator()(const cli::BenchCommandOptions& options) const { return cli::run_bench(options); }
  Result<int> operator()(const cli::CacheCommandOptions& options) const { return cli::run_cache(options); }
  Result<int> operator()(const cli::ShareCommandOptions& options) const { return cli::run_share(options); }
  Result<int> operator()(const cli::ReplayCommandOptions& options) const { return cli::run_replay(options); }
  Result<int> operator()(const cli::WarmOptions& options) const { return cli::run_warm(options); }
  Result<int> operator()(const cli::DemoOptions& options) const { return cli::run_demo(options); }
  Result<int> operator()(const cli::TopCommandOptions& options) const { return success_after(cli::run_top(options)); }
  Result<int> operator()(const cli::DoctorOptions& options) const { return cli::run_doctor(options); }
};

Result<int> run(const std::vector<std::string>& arguments) {
  cli::LogOptions log;  // of commands other than serve, which sets up its own
  log.timestamps = false;
  TRY(cli::set_up_log(log));
  TRY_ASSIGN(const cli::Command command, cli::parse_command_line(arguments, kvkeep::os::read_environment()));
  return std::visit(Run{}, command);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> given(arguments + 1, arguments + count);
  namespace llama = kvkeep::engine::llama;
  // Not for users: kvkeep starts itself like this to try a model's memory, which may end the process (memory_class.h).
  if (!given.empty() && given.front() == llama::kClassTestCommand) {
    return llama::class_test_main({given.begin() + 1, given.end()});
  }
  if (count > 0) {
    cli::set_typed_program(arguments[0]);
    const bool says_serve = !given.empty() && given.front() == "serve";
    if (cli::always_serves(arguments[0]) && !says_serve) given.insert(given.begin(), "serve");
  }
  const Result<int> status = run(given);
  if (status) return *status;
  complain(status.error());
  return 1;
}
