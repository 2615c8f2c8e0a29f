#include <nlohmann/json.hpp>

#include "base/media_ids.h"
#include "inspect/print/print.h"

namespace kvkeep::inspect {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSecondNs = 1e9;

std::string text_of(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Seconds since the epoch.
Json time_of(const std::optional<std::int64_t>& time_ns) {
  return time_ns ? Json(static_cast<double>(*time_ns) / kSecondNs) : Json(nullptr);
}

Json count_of(const FileCount& count) { return {{"files", count.files}, {"bytes", count.bytes.value()}}; }

Json head_of(const CacheView& view) {
  Json head = {{"version", kJsonVersion},
               {"directory", view.root},
               {"server_running", view.servers > 0},
               {"servers", view.servers},
               {"bytes", view.used.value()}};
  if (view.budget) head["budget_bytes"] = view.budget->value();
  return head;
}

Json note_of(const std::optional<ModelNote>& note) {
  if (!note) return nullptr;
  return {{"name", note->name},         {"description", note->description}, {"path", note->path},
          {"settings", note->settings}, {"computed_by", note->computed_by}, {"first_used", note->first_used_s},
          {"devices", note->devices}};
}

Json model_of(const ModelView& model) {
  Json versions = Json::object();
  for (const auto& [version, files] : model.versions) versions[std::to_string(version)] = files;
  return {{"fingerprint", model.fingerprint},
          {"model", note_of(model.note)},
          {"distrusted", model.distrust ? Json(*model.distrust) : Json(nullptr)},
          {"pins", model.pins},
          {"tenants", model.tenants},
          {"prefixes", model.prefixes},
          {"tokens", model.tokens},
          {"files", model.all.files},
          {"bytes", model.all.bytes.value()},
          {"rows", count_of(model.rows)},
          {"window_rows", count_of(model.windows)},
          {"points", count_of(model.points)},
          {"built_states", model.built},
          {"damaged", count_of(model.damaged)},
          {"unreadable", count_of(model.unreadable)},
          {"temporaries", count_of(model.temporaries)},
          {"orphans", model.lost},
          {"foreign_names", model.foreign},
          {"set_aside", count_of(model.set_aside)},
          {"format_versions", std::move(versions)},
          {"oldest_use", time_of(model.oldest_use_ns)},
          {"newest_use", time_of(model.newest_use_ns)}};
}

Json tenant_of(const RunView& run) { return run.tenant.empty() ? Json(nullptr) : Json(run.tenant); }

Json run_of(const RunView& run, const ModelView& model) {
  return {{"id", run.id},
          {"hash", run.hash},
          {"parent", run.parent ? Json(*run.parent) : Json(nullptr)},
          {"fingerprint", model.fingerprint},
          {"tenant", tenant_of(run)},
          {"begin", run.range.begin.value()},
          {"end", run.range.end.value()},
          {"files", run.files()},
          {"bytes", run.bytes().value()},
          {"window_rows", run.windows.files},
          {"points", run.points.files},
          {"last_use", time_of(run.used_ns)},
          {"kept_until", time_of(run.kept_until_ns)},
          {"pinned", run.pinned},
          {"set_aside", run.set_aside},
          {"words", run.words.empty() ? Json(nullptr) : Json(run.words)}};
}

Json file_of(const FileView& file) {
  return {{"name", file.name},
          {"kind", file.kind},
          {"begin", file.range.begin.value()},
          {"end", file.range.end.value()},
          {"bytes", file.bytes.value()},
          {"payload_bytes", file.payload.value()},
          {"sum", file.sum},
          {"format_version", file.version},
          {"sampled", file.sampled},
          {"base", file.base ? Json(file.base->value()) : Json(nullptr)},
          {"modified", time_of(file.modified_ns)}};
}

Json media_of(TokenSpan ids) {
  Json media = Json::array();
  const auto runs = media_runs(ids);
  for (std::size_t i = 0; runs && i < runs->size(); ++i) {
    const auto& [range, shape] = (*runs)[i];
    media.push_back({{"name", media_name(ids.subspan(range.begin.value()))},
                     {"begin", range.begin.value()},
                     {"end", range.end.value()},
                     {"cells", shape.embeddings},
                     {"positions", shape.positions}});
  }
  return media;
}

Json finding_of(const Finding& finding) {
  return {{"trouble", to_string(finding.trouble)},
          {"file", finding.directory + "/" + finding.file},
          {"bytes", finding.size.value()},
          {"reason", finding.reason}};
}

}  // namespace

std::string stat_json(const CacheView& view) {
  Json json = head_of(view);
  json["quarantine"] = count_of(view.quarantine);
  json["foreign_names"] = view.foreign;
  json["models"] = Json::array();
  for (const ModelView& model : view.models) json["models"].push_back(model_of(model));
  return text_of(json);
}

std::string list_json(const CacheView& view) {
  Json json = head_of(view);
  json["prefixes"] = Json::array();
  std::uint64_t hidden = 0;
  for (const ModelView& model : view.models) {
    for (const RunView& run : model.runs) json["prefixes"].push_back(run_of(run, model));
    hidden += model.hidden;
  }
  json["hidden"] = hidden;
  return text_of(json);
}

std::string show_json(const PrefixView& view, bool with_ids, const std::optional<std::string>& text) {
  Json json = {{"version", kJsonVersion},
               {"fingerprint", view.fingerprint},
               {"id", view.run.id},
               {"hash", view.run.hash},
               {"tenant", tenant_of(view.run)},
               {"path", view.path},
               {"begin", view.run.range.begin.value()},
               {"end", view.run.range.end.value()}};
  json["bytes"] = view.run.bytes().value();
  json["last_use"] = time_of(view.run.used_ns);
  json["kept_until"] = time_of(view.run.kept_until_ns);
  json["files"] = Json::array();
  for (const FileView& file : view.files) json["files"].push_back(file_of(file));
  json["media"] = media_of(view.ids);
  if (with_ids) json["ids"] = view.ids;
  if (text) json["text"] = *text;
  return text_of(json);
}

std::string removal_json(const RemovalReport& report, bool dry) {
  Json reasons = Json::object();
  for (const auto& [why, count] : report.removed) reasons[std::string(to_string(why))] = count_of(count);
  return text_of({{"version", kJsonVersion},
                  {"dry_run", dry},
                  {"removed", count_of(report.all())},
                  {"reasons", std::move(reasons)},
                  {"failed", report.failed},
                  {"others", report.others},
                  {"left",
                   {{"useless", count_of(report.left.useless)},
                    {"quarantine", count_of(report.left.quarantine)},
                    {"unreadable", count_of(report.left.unread)}}}});
}

std::string export_json(const ExportReport& report) {
  return text_of({{"version", kJsonVersion},
                  {"prefixes", report.prefixes},
                  {"exported", count_of(report.files)},
                  {"others", report.others},
                  {"foreign_tokens", report.foreign_tokens}});
}

std::string pins_json(std::size_t changed) { return text_of({{"version", kJsonVersion}, {"changed", changed}}); }

std::string import_json(const ImportReport& report) {
  return text_of({{"version", kJsonVersion},
                  {"fingerprints", report.fingerprints},
                  {"added", count_of(report.added)},
                  {"present", count_of(report.present)}});
}

std::string verify_json(const VerifyReport& report, const std::optional<RepairReport>& repaired, double seconds) {
  Json json = {{"version", kJsonVersion},     {"files", report.files},       {"bytes", report.read.value()},
               {"seconds", seconds},          {"prefixes", report.prefixes}, {"redundant", report.redundant},
               {"vanished", report.vanished}, {"findings", Json::array()},   {"repaired", nullptr}};
  for (const Finding& finding : report.findings) json["findings"].push_back(finding_of(finding));
  if (repaired) {
    json["repaired"] = {{"set_aside", repaired->set_aside},
                        {"removed", repaired->removed},
                        {"freed_bytes", repaired->freed.value()},
                        {"failed", repaired->failed}};
  }
  return text_of(json);
}

}  // namespace kvkeep::inspect
