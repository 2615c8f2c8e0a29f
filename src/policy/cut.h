#pragma once

// Why state was captured where it was. Names are what the log and the trace print.

#include <string_view>

namespace kvkeep::policy {

enum class CutReason {
  kContinued,  // a prefill slice or a run of decoded tokens is complete
  kTurn,       // the reply is complete
  kEvict,      // the sequence leaves the model's memory
  kShutdown,   // the server stops
};

constexpr std::string_view to_string(CutReason reason) {
  switch (reason) {
    case CutReason::kContinued: return "continued";
    case CutReason::kTurn: return "turn";
    case CutReason::kEvict: return "evict";
    case CutReason::kShutdown: return "shutdown";
  }
  return "unknown";
}

}  // namespace kvkeep::policy
