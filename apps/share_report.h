#pragma once

// A shared tier as `kvkeep cache stat --share` and `kvkeep share` show it. Pure.

#include <string>
#include <vector>

#include "carry/carry.h"
#include "carry/namespaces.h"
#include "share/object_engine.h"

namespace kvkeep::cli {

struct ShareReport {
  std::string address;   // without secrets
  double answer_ms = 0;  // how long it took to say that a name is not there
  share::EngineFacts facts;
};

std::string share_text(const ShareReport& report);
std::string share_json(const ShareReport& report);

// A namespace of `kvkeep share ls`.
struct ListedNamespace {
  carry::Namespace found;
  std::string device;
};
std::string namespaces_text(const std::vector<ListedNamespace>& listed);
std::string namespaces_json(const std::vector<ListedNamespace>& listed);

// The counts of one model's state that was carried.
struct CarriedModel {
  std::string fingerprint;  // hexadecimal
  std::string space;
  std::string device;
  carry::CarryReport report;
};
enum class Direction { kPush, kPull };
struct CarriedModels {
  Direction direction = Direction::kPush;
  bool dry = false;
  double seconds = 0;
  std::vector<CarriedModel> models;
  // Returns true if everything that should be carried was, or is left by a limit that the user set.
  bool complete() const;
};
std::string carried_text(const CarriedModels& carried);
std::string carried_json(const CarriedModels& carried);

}  // namespace kvkeep::cli
