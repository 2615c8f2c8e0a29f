#include "write_reports.h"

#include <fmt/format.h>

#include <map>
#include <span>

#include "bench/report/report.h"
#include "os/file_system.h"
#include "os/paths.h"
#include "os/process.h"

namespace kvkeep::cli {
namespace {

// Resolves links; returns the path itself if there is nothing yet.
std::string target_of(const std::string& path) {
  const auto target = os::resolve_links(path);
  return target ? *target : path;
}

std::string draft_of(const std::string& path) { return fmt::format("{}.{}.tmp", path, os::process_id()); }

Status write_whole(os::FileSystem& files, const std::string& path, const std::string& text) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.create(path));
  return file->append(std::as_bytes(std::span(text)));
}

Status replace_file(const std::string& path, const std::string& text) {
  os::FileSystem& files = os::real_file_system();
  const std::string target = target_of(path);
  const std::string draft = draft_of(target);
  Status done = write_whole(files, draft, text);
  if (done) done = files.rename(draft, target);
  if (done) return {};
  static_cast<void>(files.remove(draft));  // the draft may not exist
  return Error{done.error().kind, path + ": " + done.error().message};
}

Status check_output(const std::string& target) {
  os::FileSystem& files = os::real_file_system();
  // A file that may not be read may still be replaced.
  const auto there = files.open(target);
  if (!there && there.error().kind == ErrorKind::kInvalid) return there.error();
  const std::string draft = draft_of(target);
  const Status made = write_whole(files, draft, {});
  if (!made && made.error().kind == ErrorKind::kNotFound) return not_found("its folder does not exist");
  TRY(made);
  return files.remove(draft);
}

}  // namespace

std::vector<NamedOutput> outputs_of(const ReportFiles& files) {
  return {{"--json", files.json}, {"--html", files.html}};
}

Status check_outputs(const std::vector<NamedOutput>& outputs) {
  std::map<std::string, std::string> flags;  // by the path that they name
  for (const NamedOutput& output : outputs) {
    if (output.path.empty()) continue;
    const std::string target = target_of(output.path);
    const auto [known, is_new] = flags.try_emplace(target, output.flag);
    if (!is_new)
      return invalid(fmt::format("{} and {} name the same file: {}", known->second, output.flag, output.path));
    if (const Status checked = check_output(target); !checked) {
      return Error{checked.error().kind, fmt::format("{} {}: {}", output.flag, output.path, checked.error().message)};
    }
  }
  return {};
}

Status write_reports(const bench::Report& report, const ReportFiles& files) {
  Status first;
  const auto write = [&](const std::string& path, auto form) {
    if (path.empty()) return;
    const Status written = replace_file(path, form(report));
    if (first) first = written;
  };
  write(files.json, bench::to_json);
  write(files.html, bench::to_html);
  return first;
}

}  // namespace kvkeep::cli
