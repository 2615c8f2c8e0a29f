#pragma once

// The namespaces that an engine holds, and whose each is: of which model, and of which kind of device. A name tells
// neither; an authentic head tells the fingerprint, and a device is found by trying those that are known.

#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "inspect/model_notes.h"
#include "share/warehouse.h"

namespace kvkeep::carry {

struct Namespace {
  std::string space;
  std::vector<share::ObjectName> names = {};        // ascending; records among them
  std::optional<FingerprintHash> fingerprint = {};  // nullopt: nothing in it is authentic under this key
  std::optional<inspect::ModelNote> note = {};      // that a push or a server left: its device names the namespace
};

// Returns all namespaces of an engine, by name. Errors: as share::list_names().
Result<std::vector<Namespace>> find_namespaces(const share::EngineAccess& access, const std::string& key);

// Returns true if the state in a namespace was computed by this device, by the files of the model that its note names.
bool is_named_after(const Namespace& found, const std::string& key, const std::string& device);
// Returns what is known of the device that computed a namespace's state: "any device", one of `devices`, the note's, or
// "another device".
std::string device_of(const Namespace& found, const std::string& key, const std::vector<std::string>& devices);

// The name of the record in which pushes and servers note the model and the device of a namespace.
PrefixHash about_key();
// Makes the record that is written of the one that is there and a server's own: a push notes settings and a first use,
// which a server does not know. At most format::kMostRecordBytes.
std::vector<std::byte> merge_about(ByteSpan there, ByteSpan own);

}  // namespace kvkeep::carry
