#include "model_command.h"

#include <cstdio>
#include <utility>

#include "flag_binding.h"
#include "flag_set.h"
#include "os/file_system.h"

namespace kvkeep::cli {
namespace {

FlagSet make_flags(ParsedModelMake& make) {
  gguf::MakeModelOptions& options = make.options;
  const char* group = "Model";
  return FlagSet(
      "kvkeep model make [flags] OUT.gguf",
      "Writes a GGUF model with random weights. It says nothing sensible, but loads and runs like a real one.",
      {row(group, "--arch", {}, {}, "NAME", "", options.architecture,
           "Architecture, by the class of its memory: " + gguf::architectures_by_memory_class() + ".",
           text_into(options.architecture)),
       row(group, "--size", {}, {}, "tiny|small|real", "", "tiny",
           "About 3 MB for tests, 25 MB for demos, 200 MB and more for timings.",
           parsed_into(options.size, [](const std::string& text) { return gguf::parse_model_size(text); })),
       row(group, "--window", {}, {}, "N", "", "128",
           "Tokens that layers with a sliding window see. For " + gguf::windowed_architecture_names() +
               "; lfm2 has such layers only if this is given.",
           number_into(options.window, std::uint32_t{1}, std::uint32_t{131072})),
       row(group, "--seed", {}, {}, "N", "", "1", "The same flags and seed give the same file.",
           number_into(options.seed, std::uint64_t{0})),
       row(group, "--free-output", {}, {}, "", "", "off",
           "Let the model generate every token, markers and broken UTF-8 included.", switch_into(options.free_output)),
       row(group, "--force", {}, {}, "", "", "off", "Replace a file that exists.", switch_into(make.replace))});
}

// Without this, a mistyped name would cost a model that took an hour to download.
Status make_sure_of(const std::string& path) {
  os::FileSystem& files = os::real_file_system();
  const auto created = files.create(path);
  if (created) return files.remove(path);
  if (created.error().kind != ErrorKind::kInvalid)
    return Error{created.error().kind, "cannot write the model: " + created.error().message};
  return invalid(path + " exists; remove it, name another, or pass --force");
}

}  // namespace

Result<ParsedModelMake> parse_model_make(const std::vector<std::string>& arguments,
                                         const os::Environment& environment) {
  ParsedModelMake parsed;
  std::vector<std::string> positional;
  TRY_ASSIGN(parsed.wants_help, make_flags(parsed).parse(arguments, environment, &positional));
  if (parsed.wants_help) return parsed;
  if (positional.empty()) return invalid("no file to write: kvkeep model make [flags] OUT.gguf");
  if (positional.size() > 1) return invalid("unexpected argument '" + positional[1] + "'");
  parsed.path = positional.front();
  return parsed;
}

std::string model_make_help() {
  ParsedModelMake make;
  return make_flags(make).help();
}

Status run_model_make(const ParsedModelMake& make) {
  if (!make.replace) TRY(make_sure_of(make.path));
  TRY(gguf::make_model(make.options, make.path));
  std::printf("%s\n", make.path.c_str());
  if (!make.options.free_output) {
    std::fputs("This model never ends a reply by itself: send max_tokens with requests, or serve it with -n 200\n",
               stderr);
  }
  return {};
}

}  // namespace kvkeep::cli
