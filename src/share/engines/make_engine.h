#pragma once

// Makes an engine from its URL.

#include <memory>

#include "os/clock.h"
#include "os/file_system.h"
#include "share/engines/engine_url.h"
#include "share/object_engine.h"

namespace kvkeep::share {

// Connects to nothing yet, but looks for a directory for two seconds at most. kUnsupported if this build lacks the
// library of that kind of URL; kInvalid if secrets that the engine needs are missing, or the directory is not there.
// Clock and file system must outlive the engine. With kLook nothing is made in a directory.
enum class EngineUse { kAll, kLook };
Result<std::unique_ptr<ObjectEngine>> make_engine(const EngineUrl& url, const EngineSecrets& secrets, os::Clock& clock,
                                                  os::FileSystem& files, EngineUse use = EngineUse::kAll);

}  // namespace kvkeep::share
