#pragma once

// `kvkeep model make`: writes a random-weight model, so that everything can be tried without a download.

#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "model_maker/make_model.h"
#include "os/process.h"

namespace kvkeep::cli {

struct ParsedModelMake {
  gguf::MakeModelOptions options;
  std::string path;
  bool replace = false;  // --force
  bool wants_help = false;
};

// `arguments` are those after "model make".
Result<ParsedModelMake> parse_model_make(const std::vector<std::string>& arguments, const os::Environment& environment);
std::string model_make_help();
CommandManual model_make_manual();

// Writes the file; prints its path, and advice on standard error. kInvalid if the file exists and is to stay.
Status run_model_make(const ParsedModelMake& make);

}  // namespace kvkeep::cli
