#include "carry/namespaces.h"

#include <algorithm>
#include <utility>

#include "base/mac.h"

namespace kvkeep::carry {
namespace {

// Heads that are looked at until one is authentic.
constexpr std::size_t kMostTried = 64;
constexpr std::int64_t kUnusedTtlS = 1;  // nothing is written

std::vector<share::ObjectName> first_heads(const std::vector<share::ObjectName>& names) {
  std::vector<share::ObjectName> first;
  for (const share::ObjectName& name : names) {
    if (name.kind != share::ObjectKind::kRecord && first.size() < kMostTried) first.push_back(name);
  }
  return first;
}

std::optional<inspect::ModelNote> note_in(ByteSpan bytes) {
  return inspect::decode_model_note({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// An engine that is in trouble for longer than a command waits tells nothing of a namespace.
bool is_trouble(const Error& error) { return error.kind == ErrorKind::kIo || error.kind == ErrorKind::kBusy; }

Status look_into(Namespace& found, const share::EngineAccess& access, const std::string& key) {
  share::Warehouse warehouse(access, {.key = key, .space = found.space}, kUnusedTtlS);
  for (const auto& head : warehouse.heads(first_heads(found.names))) {
    if (!head.ok() && is_trouble(head.error())) return head.error();
    if (!head.ok()) continue;
    found.fingerprint = head->segment.fingerprint;
    break;
  }
  const share::ObjectName about = warehouse.vault().record_name(about_key());
  if (!std::ranges::binary_search(found.names, about)) return {};
  const auto records = warehouse.records({about});
  if (!records.front().ok()) return is_trouble(records.front().error()) ? Status(records.front().error()) : Status{};
  found.note = note_in(*records.front());
  return {};
}

}  // namespace

PrefixHash about_key() {
  PrefixHash key;
  key.bytes = derive_key("kvkeep 2026-11-24 about a namespace of shared objects", {}).bytes;
  return key;
}

std::vector<std::byte> merge_about(ByteSpan there, ByteSpan own) {
  const auto noted = note_in(there);
  auto merged = note_in(own);
  if (!noted || !merged) return {own.begin(), own.end()};
  if (merged->settings.empty()) merged->settings = noted->settings;
  if (merged->computed_by.empty()) merged->computed_by = noted->computed_by;
  if (merged->first_used_s == 0) merged->first_used_s = noted->first_used_s;
  const std::string text = inspect::encode_model_note(*merged);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<std::vector<Namespace>> find_namespaces(const share::EngineAccess& access, const std::string& key) {
  TRY_ASSIGN(std::vector<share::ObjectName> names, share::list_names(access, ""));
  std::vector<Namespace> found;
  for (share::ObjectName& name : names) {
    if (found.empty() || found.back().space != name.space) found.push_back({.space = std::string(name.space.text())});
    found.back().names.push_back(std::move(name));
  }
  for (Namespace& one : found) TRY(look_into(one, access, key));
  return found;
}

bool is_named_after(const Namespace& found, const std::string& key, const std::string& device) {
  return found.fingerprint && share::Vault::space_of({.fingerprint = *found.fingerprint,
                                                      .device = device,
                                                      .weights = found.note ? found.note->weights : "",
                                                      .key = key}) == found.space;
}

std::string device_of(const Namespace& found, const std::string& key, const std::vector<std::string>& devices) {
  const auto is_of = [&](const std::string& device) { return is_named_after(found, key, device); };
  if (is_of("")) return "any device";
  for (const std::string& device : devices) {
    if (!device.empty() && is_of(device)) return device;
  }
  const bool told = found.note && found.note->devices.size() == 1 && is_of(found.note->devices.front());
  return told ? found.note->devices.front() : "another device";
}

}  // namespace kvkeep::carry
