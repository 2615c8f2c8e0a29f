#pragma once

// A shared tier as `kvkeep cache stat --share` shows it. Pure.

#include <string>

#include "share/object_engine.h"

namespace kvkeep::cli {

struct ShareReport {
  std::string address;   // without secrets
  double answer_ms = 0;  // how long it took to say that a name is not there
  share::EngineFacts facts;
};

std::string share_text(const ShareReport& report);
std::string share_json(const ShareReport& report);

}  // namespace kvkeep::cli
