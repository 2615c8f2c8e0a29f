#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/media_ids.h"
#include "base/types.h"
#include "inspect/print/print.h"
#include "text/terminal.h"

namespace kvkeep::inspect {
namespace {

constexpr std::size_t kShownDigits = 12;  // of a fingerprint

std::string size_text(ByteCount bytes) {
  constexpr double kKibi = 1024;
  const auto value = static_cast<double>(bytes.value());
  if (value < kKibi * kKibi) return fmt::format("{:.0f} KiB", value / kKibi);
  if (value < kKibi * kKibi * kKibi) return fmt::format("{:.1f} MiB", value / kKibi / kKibi);
  return fmt::format("{:.2f} GiB", value / kKibi / kKibi / kKibi);
}

// "1 file", "2,000 files".
std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", text::grouped(count), count == 1 ? one : many);
}

// "  name        value", or nothing if there is no value.
void append_line(std::string& out, const char* name, const std::string& value) {
  if (!value.empty()) out += fmt::format("  {:<12}{}\n", name, value);
}

using Align = text::TextTable::Align;

constexpr std::size_t kLostFilesTold = 20;  // orphans, which one damaged file usually has many of
constexpr std::size_t kLongestWords = 60;
constexpr std::size_t kLongestPath = 500;
constexpr std::size_t kLongestSettings = 200;

std::string share_text(ByteCount part, ByteCount whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part.value()) / static_cast<double>(whole.value()));
}

// " (3 window rows, 1 damaged)", or nothing.
class Remarks {
 public:
  void add(std::uint64_t count, const std::string& what) {
    if (count == 0) return;
    text_ += fmt::format("{}{} {}", text_.empty() ? "" : ", ", text::grouped(count), what);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The settings after a name in a listing; empty if they are the default.
std::string settings_behind(const ModelView& model) {
  if (!model.note || model.note->settings.empty() || model.note->settings == "default") return {};
  return ", " + text::printable(model.note->settings, kLongestSettings);
}

// Makes the note's text printable, because it is not trusted.
std::string model_title(const ModelView& model) {
  const std::string fingerprint = model.fingerprint.substr(0, kShownDigits);
  if (!model.note || model.note->name.empty()) return fmt::format("model {}", fingerprint);
  const std::string name = text::printable(model.note->name, kLongestWords);
  if (model.note->description.empty()) return fmt::format("{} {}", fingerprint, name);
  return fmt::format("{} {} ({})", fingerprint, name, text::printable(model.note->description, kLongestWords));
}

std::string servers_text(std::size_t servers) {
  if (servers == 0) return "none is running on it";
  return servers == 1 ? "one is running on it" : fmt::format("{} are running on it", servers);
}

std::string use_text(const ModelView& model, std::int64_t now_ns) {
  if (!model.newest_use_ns) return "never";
  const std::string newest = age_text(*model.newest_use_ns, now_ns);
  const std::string oldest = age_text(*model.oldest_use_ns, now_ns);
  return newest == oldest ? newest : fmt::format("{} (the oldest {})", newest, oldest);
}

std::string troubles_of(const ModelView& model) {
  Remarks remarks;
  remarks.add(model.damaged.files, "damaged");
  remarks.add(model.lost, "below nothing");
  remarks.add(model.unreadable.files, "unreadable");
  remarks.add(model.temporaries.files, "unfinished");
  remarks.add(model.foreign, "not ours");
  return remarks.text();
}

std::string versions_text(const ModelView& model) {
  Remarks remarks;
  for (const auto& [version, files] : model.versions) remarks.add(files, fmt::format("of version {}", version));
  return remarks.text();
}

std::string model_text(const ModelView& model, const CacheView& view) {
  std::string out = fmt::format("{}\n", model_title(model));
  append_line(out, "tokens",
              fmt::format("{} in {}", text::grouped(model.tokens), counted(model.prefixes, "prefix", "prefixes")));
  Remarks files;
  files.add(model.rows.files, "of rows");
  files.add(model.windows.files, "of window rows");
  files.add(model.points.files, model.built > 0 ? fmt::format("points ({} built)", model.built) : "points");
  append_line(out, "files", files.text());
  const std::string share =
      view.budget ? fmt::format(" ({} of the budget)", share_text(model.all.bytes, *view.budget)) : "";
  append_line(out, "size", size_text(model.all.bytes) + share);
  append_line(out, "last used", use_text(model, view.now_ns));
  if (model.pins > 0) append_line(out, "pinned", counted(model.pins, "prefix", "prefixes"));
  if (model.note) {
    append_line(out, "settings", text::printable(model.note->settings, kLongestPath));
    append_line(out, "made by", text::printable(model.note->computed_by, kLongestPath));
    append_line(out, "file", text::printable(model.note->path, kLongestPath));
  }
  if (model.tenants > 0) append_line(out, "tenants", text::grouped(model.tenants));
  append_line(out, "format", versions_text(model));
  append_line(out, "trouble", troubles_of(model));
  if (model.set_aside.files > 0) {
    append_line(out, "set aside",
                fmt::format("{}, {}: an earlier version named them by its LoRA scales, no server asks for them",
                            counted(model.set_aside.files, "file", "files"), size_text(model.set_aside.bytes)));
  }
  if (model.distrust) {
    append_line(out, "distrusted", text::printable(*model.distrust, kLongestPath));
  }
  return out;
}

std::string points_text(const RunView& run) {
  Remarks remarks;
  remarks.add(run.windows.files, run.windows.files == 1 ? "window" : "windows");
  remarks.add(run.points.files, run.points.files == 1 ? "point" : "points");
  return remarks.text().empty() ? "-" : remarks.text();
}

std::vector<std::string> cells_of(const RunView& run, std::int64_t now_ns, bool with_tenants) {
  const bool kept = run.kept_until_ns.has_value();
  std::vector<std::string> cells{fmt::format("{:{}}{}", "", 2 * run.depth, run.id),
                                 text::grouped(run.range.end.value()),
                                 run.depth == 0 ? "" : fmt::format("+{}", text::grouped(run.range.size())),
                                 size_text(run.bytes()),
                                 run.set_aside ? "set aside"
                                 : run.pinned  ? "pinned"
                                 : kept        ? "kept"
                                               : age_text(run.used_ns, now_ns),
                                 points_text(run)};
  if (with_tenants) cells.push_back(run.tenant);
  cells.push_back(text::printable(run.words, kLongestWords));
  return cells;
}

// The column of tenants is there only if there are tenants.
text::TextTable table_of(const ModelView& model, std::int64_t now_ns) {
  const bool with_tenants = model.tenants > 0;
  std::vector<text::TextTable::Column> columns{
      {"ID", Align::kLeft}, {"TOKENS"}, {"NEW"}, {"SIZE"}, {"USED", Align::kLeft}, {"POINTS", Align::kLeft}};
  if (with_tenants) columns.push_back({"TENANT", Align::kLeft});
  columns.push_back({"TEXT", Align::kLeft});
  text::TextTable table(std::move(columns));
  for (const RunView& run : model.runs) table.add_row(cells_of(run, now_ns, with_tenants));
  return table;
}

std::string finding_line(const Finding& finding) {
  const std::size_t slash = finding.directory.find_last_of('/');
  return fmt::format("{:<10} {}/{} ({}): {}\n", to_string(finding.trouble),
                     finding.directory.substr(slash + 1, kShownDigits), finding.file, size_text(finding.size),
                     finding.reason);
}

std::string reason_text(Why why, std::uint64_t files) {
  switch (why) {
    case Why::kAdvisory: return counted(files, "note about files that go", "notes about files that go");
    case Why::kEmpty: return counted(files, "empty directory", "empty directories");
    default: return fmt::format("{} {}", text::grouped(files), to_string(why));
  }
}

// Each count with the command that removes its files.
std::string left_text(const LeftFiles& left) {
  if (left.files() == 0) return {};
  std::string parts;
  const auto add = [&](const FileCount& count, std::string_view what, std::string_view command) {
    if (count.files == 0) return;
    parts += fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", text::grouped(count.files), what, command);
  };
  add(left.useless, "of no use", "kvkeep cache gc");
  add(left.quarantine, "in quarantine", "kvkeep cache gc --all");
  add(left.unread, "that could not be read", "kvkeep cache rm --model");
  return fmt::format("files that ls does not show, and that may hold prompts too, stay: {}\n", parts);
}

}  // namespace

std::string age_text(std::int64_t then_ns, std::int64_t now_ns) {
  const std::int64_t seconds = std::max<std::int64_t>(now_ns - then_ns, 0) / 1'000'000'000;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return fmt::format("{} min ago", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} days ago", seconds / 86400);
}

std::string stat_text(const CacheView& view) {
  std::string out = fmt::format("{}\n", view.root);
  append_line(out, "server", servers_text(view.servers));
  const std::string share =
      view.budget ? fmt::format(" of {} ({})", size_text(*view.budget), share_text(view.used, *view.budget)) : "";
  append_line(out, "size", size_text(view.used) + share);
  if (view.quarantine.files > 0) {
    append_line(
        out, "quarantine",
        fmt::format("{}, {}", counted(view.quarantine.files, "file", "files"), size_text(view.quarantine.bytes)));
  }
  if (view.foreign > 0) append_line(out, "not ours", counted(view.foreign, "name", "names"));
  if (view.models.empty()) out += "  nothing is stored here\n";
  for (const ModelView& model : view.models) out += fmt::format("\n{}", model_text(model, view));
  return out;
}

std::string list_text(const CacheView& view, std::size_t columns) {
  std::string out;
  for (const ModelView& model : view.models) {
    if (model.prefixes == 0) continue;
    out += fmt::format("{}{}{}: {}, {}\n", out.empty() ? "" : "\n", model_title(model), settings_behind(model),
                       counted(model.prefixes, "prefix", "prefixes"), size_text(model.all.bytes));
    const text::TextTable table = table_of(model, view.now_ns);
    if (!table.empty()) out += table.text(columns);
    if (model.hidden > 0) out += fmt::format("... and {}\n", counted(model.hidden, "more", "more"));
  }
  return out.empty() ? "nothing is stored here\n" : out;
}

std::string removal_text(const RemovalReport& report, bool dry) {
  const FileCount all = report.all();
  std::string out = fmt::format("{} {} ({})", dry ? "would remove" : "removed", counted(all.files, "file", "files"),
                                size_text(all.bytes));
  std::string reasons;
  for (const auto& [why, count] : report.removed) {
    reasons += fmt::format("{}{}", reasons.empty() ? ": " : ", ", reason_text(why, count.files));
  }
  if (report.removed.size() > 1 || (all.files > 0 && !report.removed.contains(Why::kAsked))) out += reasons;
  if (report.failed > 0) out += fmt::format("; {} could not be removed", counted(report.failed, "file", "files"));
  out += "\n";
  if (report.others > 0) {
    out += fmt::format("among them {} that no id names: each leaves one of the lines before its end\n",
                       counted(report.others, "conversation", "conversations"));
  }
  return out + left_text(report.left);
}

std::string export_text(const ExportReport& report, const std::string& path) {
  std::string out = fmt::format("{} with {} ({}) to {}\n", counted(report.prefixes, "line", "lines"),
                                counted(report.files.files, "file", "files"), size_text(report.files.bytes), path);
  if (report.foreign_tokens > 0) {
    out += fmt::format("with {} of other conversations, at the ends of files that the exported ones share\n",
                       counted(report.foreign_tokens, "token", "tokens"));
  }
  if (report.others > 0) {
    out += fmt::format("without {} that no id names: each leaves one of the lines before its end\n",
                       counted(report.others, "conversation", "conversations"));
  }
  return out;
}

std::string import_text(const ImportReport& report) {
  return fmt::format("added {} ({}); {} there already\n", counted(report.added.files, "file", "files"),
                     size_text(report.added.bytes), counted(report.present.files, "was", "were"));
}

std::string verify_text(const VerifyReport& report, const std::optional<RepairReport>& repaired, double seconds) {
  std::string out;
  std::uint64_t lost = 0;
  for (const Finding& finding : report.findings) {
    if (finding.trouble == Trouble::kOrphan && ++lost > kLostFilesTold) continue;
    out += finding_line(finding);
  }
  if (lost > kLostFilesTold) out += fmt::format("... and {} more orphans\n", lost - kLostFilesTold);
  const double rate = seconds > 0 ? static_cast<double>(report.read.value()) / seconds / 1e9 : 0;
  out += fmt::format("{} read, {} in {:.1f} s ({:.2f} GB/s): ", counted(report.files, "file", "files"),
                     size_text(report.read), seconds, rate);
  out += report.clean() ? "all whole"
                        : counted(report.findings.size(), "file is not as it", "files are not as they") + " should be";
  out += "\n";
  if (report.vanished > 0)
    out += fmt::format("{} gone while this ran\n", counted(report.vanished, "file was", "files were"));
  if (repaired) {
    out +=
        fmt::format("set aside {}, removed {} ({}){}\n", counted(repaired->set_aside, "damaged file", "damaged files"),
                    counted(repaired->removed, "orphan", "orphans"), size_text(repaired->freed),
                    repaired->failed > 0 ? fmt::format("; {} could not be changed", repaired->failed) : "");
  } else if (!report.clean()) {
    out += "kvkeep cache verify --repair sets damaged files aside and removes what hangs below them\n";
  }
  return out;
}

namespace {

std::string file_line(const FileView& file, std::int64_t now_ns) {
  const std::string base = file.base ? fmt::format(", built on {}", file.base->value()) : "";
  return fmt::format("  {:<12}{:>8} .. {:<8} {:>10}  {}{}{}\n    {}\n    sum {}\n", file.kind, file.range.begin.value(),
                     file.range.end.value(), size_text(file.bytes), age_text(file.modified_ns, now_ns),
                     file.sampled ? ", sampled" : "", base, file.name, file.sum);
}

// The pictures and sounds of a prefix, each chunk on a line.
std::string media_lines(TokenSpan ids) {
  std::string out;
  const auto runs = media_runs(ids);
  for (std::size_t i = 0; runs && i < runs->size(); ++i) {
    const auto& [range, shape] = (*runs)[i];
    const std::string name = media_name(ids.subspan(range.begin.value()));
    out += fmt::format("  {:<18}{:>8} .. {:<8} {}, {}\n", name, range.begin.value(), range.end.value(),
                       counted(shape.embeddings, "cell", "cells"), counted(shape.positions, "position", "positions"));
  }
  return out.empty() ? out : "\n" + out;
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t end = text.find_first_of("\n\t");
    out += text::printable(text.substr(0, end), SIZE_MAX);
    if (end == std::string_view::npos) return out;
    out += text[end];
    text.remove_prefix(end + 1);
  }
}

std::string show_text(const PrefixView& view, std::int64_t now_ns, bool with_ids,
                      const std::optional<std::string>& text) {
  std::string out = fmt::format("{}\n", view.run.id);
  append_line(out, "hash", view.run.hash);
  append_line(out, "model", view.fingerprint);
  append_line(out, "tenant", view.run.tenant);
  append_line(out, "path", fmt::format("{}", fmt::join(view.path, " > ")));
  append_line(out, "tokens",
              fmt::format("{}, of which {} from {} on are its own", text::grouped(view.run.range.end.value()),
                          text::grouped(view.run.range.size()), view.run.range.begin.value()));
  append_line(out, "size",
              fmt::format("{} in {}", size_text(view.run.bytes()), counted(view.run.files(), "file", "files")));
  append_line(out, "last used", age_text(view.run.used_ns, now_ns));
  out += "\n";
  for (const FileView& file : view.files) out += file_line(file, now_ns);
  out += media_lines(view.ids);
  if (with_ids) out += fmt::format("\n{}\n", fmt::join(view.ids, " "));
  if (text) out += fmt::format("\n{}\n", *text);
  return out;
}

}  // namespace kvkeep::inspect
