#include "bench/run/program_version.h"

#include <memory>
#include <span>

#include "os/child_process.h"
#include "os/file_system.h"
#include "os/paths.h"

namespace kvkeep::bench {
namespace {

constexpr int kVersionMs = 10'000;
constexpr std::size_t kVersionBytesMax = 4'096;

}  // namespace

std::string version_in(std::string_view output, std::string_view program_name) {
  constexpr std::string_view kMark = "version: ";
  if (const auto mark = output.find(kMark); mark != std::string_view::npos) {
    output.remove_prefix(mark + kMark.size());
  } else if (output.starts_with(program_name) && output.substr(program_name.size()).starts_with(' ')) {
    output.remove_prefix(program_name.size() + 1);
  } else {
    return {};
  }
  return std::string(output.substr(0, output.find('\n')));
}

std::string version_of_program(const std::string& program, Interrupt& interrupt) {
  const auto directory = os::TemporaryDirectory::make("kvkeep-version-");
  if (!directory) return {};
  const std::string output = directory->path() + "/output";
  const auto child =
      os::start_child({.program = program, .arguments = {"--version"}, .environment = {}, .output_path = output});
  if (!child) return {};
  const Interrupt::Guard guard(interrupt, [&child] { (*child)->kill(); });
  if (!(*child)->wait(kVersionMs)) return {};
  const auto file = os::real_file_system().open(output);
  if (!file) return {};
  std::string text(kVersionBytesMax, '\0');
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(count ? *count : 0);
  return version_in(text, program.substr(program.rfind('/') + 1));
}

}  // namespace kvkeep::bench
