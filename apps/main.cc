// The program kvkeep: parse, hand over, report.

#include <cstdio>
#include <string>
#include <vector>

#include "command_line.h"
#include "engine/llama/memory_class.h"
#include "os/environment.h"
#include "serve_command.h"

namespace {

using kvkeep::Status;
namespace cli = kvkeep::cli;

struct Run {
  Status operator()(const cli::PrintText& print) const {
    std::fputs(print.text.c_str(), stdout);
    return {};
  }
  Status operator()(const cli::ServeOptions& options) const { return cli::run_serve(options); }
  Status operator()(const cli::ParsedModelMake& make) const {
    TRY(kvkeep::gguf::make_model(make.options, make.path));
    std::printf("%s\n", make.path.c_str());
    return {};
  }
};

Status run(const std::vector<std::string>& arguments) {
  TRY_ASSIGN(const cli::Command command, cli::parse_command_line(arguments, kvkeep::os::read_environment()));
  return std::visit(Run{}, command);
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  namespace llama = kvkeep::engine::llama;
  // Not for users: the trial of a model's memory, which may end the process (memory_class.h).
  if (!given.empty() && given.front() == llama::kClassTestCommand) {
    return llama::class_test_main({given.begin() + 1, given.end()});
  }
  const Status status = run(given);
  if (status) return 0;
  std::fprintf(stderr, "kvkeep: %s\n", status.error().message.c_str());
  return 1;
}
