#include "model_command.h"

#include <utility>

#include "flag_set.h"
#include "flag_values.h"
#include "os/file_system.h"
#include "output.h"

namespace kvkeep::cli {
namespace {

FlagSet make_flags(ParsedModelMake& make) {
  gguf::MakeModelOptions& options = make.options;
  return FlagSet(
      "kvkeep model make [flags] OUT.gguf",
      "Writes a GGUF model with random weights. The model says nothing sensible, but loads and runs like a real one.",
      {{.group = "Model",
        .spelling = "--arch NAME",
        .effect = "Architecture, by the class of its memory: " + gguf::architectures_by_memory_class() + ".",
        .assign = text_into(options.architecture)},
       {.spelling = "--size tiny|small|real",
        .default_text = "tiny",
        .effect = "About 3 MB for tests, 25 MB for demos, 200 MB and more for timings.",
        .assign = parsed_into(options.size, [](const std::string& text) { return gguf::parse_model_size(text); })},
       {.spelling = "--window N",
        .default_text = "128",
        .effect = "Tokens that layers with a sliding window see. For " + gguf::windowed_architecture_names() +
                  "; lfm2 has such layers only if this is given.",
        .assign = number_into(options.window, std::uint32_t{1}, std::uint32_t{131072})},
       {.spelling = "--vocabulary N",
        .effect = "Tokens of the vocabulary, up to 262144, as models in use have them. Default: 3880.",
        .assign = number_into(options.vocabulary, std::uint32_t{1}, std::uint32_t{262144})},
       {.spelling = "--seed N",
        .effect = "The same flags and seed give the same file.",
        .assign = number_into(options.seed, std::uint64_t{0})},
       {.spelling = "--free-output",
        .effect = "Let the model sample every token, markers and invalid UTF-8 included.",
        .assign = switch_into(options.free_output)},
       {.spelling = "--rerank",
        .effect = "With a classifier that scores pairs of texts; only for bert.",
        .assign = switch_into(options.rerank)},
       {.spelling = "--mmproj",
        .effect = "Write the projector of such a model instead, for llama-server's --mmproj (" +
                  gguf::architectures_by_medium() + "). Same --arch and --size as the model.",
        .assign = switch_into(options.projector)},
       {.spelling = "--force", .effect = "Replace OUT.gguf if it exists.", .assign = switch_into(make.replace)}});
}

// Without this check a mistyped name would overwrite a model that took an hour to download.
Status make_sure_of(const std::string& path) {
  os::FileSystem& files = os::real_file_system();
  const auto created = files.create(path);
  if (created) return files.remove(path);
  if (created.error().kind != ErrorKind::kInvalid)
    return Error{created.error().kind, "cannot write the model: " + created.error().message};
  return invalid(path + " exists: remove it, name another file, or pass --force");
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

CommandManual model_make_manual() {
  ParsedModelMake make;
  return make_flags(make).manual();
}

Status run_model_make(const ParsedModelMake& make) {
  if (!make.replace) TRY(make_sure_of(make.path));
  TRY(gguf::make_model(make.options, make.path));
  print(make.path + "\n");
  if (!make.options.free_output && !make.options.projector && make.options.architecture != "bert") {
    print_error("This model never ends a reply by itself: send max_tokens with requests, or serve it with -n 200\n");
  }
  return {};
}

}  // namespace kvkeep::cli
