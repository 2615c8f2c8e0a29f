#include "write_reports.h"

#include <fmt/format.h>

#include <span>
#include <string>

#include "bench/report.h"
#include "os/file_system.h"
#include "os/process.h"

namespace kvkeep::cli {
namespace {

Status write_whole(os::FileSystem& files, const std::string& path, const std::string& text) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.create(path));
  return file->append(std::as_bytes(std::span(text)));
}

Status replace_file(const std::string& path, const std::string& text) {
  os::FileSystem& files = os::real_file_system();
  const std::string draft = fmt::format("{}.{}.tmp", path, os::process_id());
  Status done = write_whole(files, draft, text);
  if (done) done = files.rename(draft, path);
  if (done) return {};
  static_cast<void>(files.remove(draft));  // it may not even be there
  return Error{done.error().kind, path + ": " + done.error().message};
}

}  // namespace

Status write_reports(const bench::Report& report, const ReportFiles& files) {
  if (!files.json.empty()) TRY(replace_file(files.json, bench::to_json(report)));
  if (!files.csv.empty()) TRY(replace_file(files.csv, bench::to_csv(report)));
  if (!files.html.empty()) TRY(replace_file(files.html, bench::to_html(report)));
  if (!files.markdown.empty()) TRY(replace_file(files.markdown, bench::to_markdown(report)));
  return {};
}

}  // namespace kvkeep::cli
