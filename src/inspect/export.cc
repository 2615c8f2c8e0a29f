#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "format/archive_file.h"
#include "inspect/archive.h"
#include "store/segment_io.h"

namespace kvkeep::inspect {
namespace {

constexpr std::size_t kCopyBytes = 1 << 20;

// How far each of a model's files is needed, by its place.
using NeededTo = std::map<std::size_t, Position>;

// Adds the files of `run` that a prompt needs up to `at`.
void add_part(const Forest& forest, std::size_t model, std::size_t run, Position at, NeededTo& chosen) {
  const Run& part = forest.trees[model].runs[run];
  const auto& files = forest.directory.models[model].files.segments;
  const auto add = [&](std::size_t file) { chosen[file] = std::max(chosen[file], at); };
  for (const std::size_t file : part.rows) {
    if (files[file].header.name.begin < at) add(file);
  }
  for (const std::size_t file : part.leaves) {
    if (files[file].header.name.end <= at) add(file);
  }
}

Status copy(os::File& from, ByteCount size, os::File& to) {
  std::vector<std::byte> buffer(kCopyBytes);
  for (std::uint64_t at = 0; at < size.value();) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), size.value() - at);
    TRY_ASSIGN(const std::size_t count, from.read_at(at, MutableByteSpan(buffer).first(wanted)));
    if (count != wanted) return damaged("a file became shorter while it was copied");
    TRY(to.append(ByteSpan(buffer).first(count)));
    at += count;
  }
  return {};
}

Status append_file(os::FileSystem& files, const ModelDirectory& model, const store::FoundSegment& file, os::File& to) {
  const auto checked = store::check_segment(files, model.path, file.info.name, model.fingerprint);
  if (!checked) return Error{checked.error().kind, file.info.name + ": " + checked.error().message};
  TRY_ASSIGN(const std::unique_ptr<os::File> from, files.open(model.path + "/" + file.info.name));
  TRY(to.append(format::encode_archive_number(checked->read.value())));
  return copy(*from, checked->read, to);
}

bool fits_archive(const std::vector<ChosenFile>& chosen) {
  std::set<std::size_t> models;
  for (const ChosenFile& file : chosen) models.insert(file.model);
  return chosen.size() <= format::kMaxArchiveFiles && models.size() <= format::kMaxArchiveModels;
}

// The models' notes, without the paths of their files, which would tell others about this machine.
std::vector<format::ArchiveNote> notes_of(const Forest& forest, const std::vector<ChosenFile>& chosen) {
  std::set<std::size_t> models;
  for (const ChosenFile& file : chosen) models.insert(file.model);
  std::vector<format::ArchiveNote> notes;
  for (const std::size_t model : models) {
    const ModelDirectory& directory = forest.directory.models[model];
    if (!directory.note) continue;
    ModelNote note = *directory.note;
    note.path.clear();
    notes.push_back({directory.fingerprint, encode_model_note(note)});
    if (notes.back().text.size() > format::kMaxArchiveNoteBytes) notes.pop_back();
  }
  return notes;
}

}  // namespace

ExportChoice files_to_export(const Forest& forest, const std::vector<IdTarget>& targets) {
  ExportChoice choice;
  for (std::size_t model = 0; model < forest.trees.size(); ++model) {
    const PrefixTree& tree = forest.trees[model];
    const NamedRuns runs = named_runs(tree, runs_of_model(targets, model));
    NeededTo needed;
    for (const std::size_t run : runs.asked) {
      add_part(forest, model, run, tree.runs[run].range.end, needed);
      Position at = tree.runs[run].range.begin;
      for (std::size_t above = tree.runs[run].parent; above != kNone; above = tree.runs[above].parent) {
        add_part(forest, model, above, at, needed);
        at = tree.runs[above].range.begin;
      }
    }
    choice.others += count_conversations(tree, runs.others);
    const auto& files = forest.directory.models[model].files.segments;
    const std::size_t first = choice.files.size();
    for (const auto& [file, to] : needed) {
      choice.files.push_back({model, file});
      const Position end = files[file].header.name.end;
      choice.foreign_tokens += end - std::min(to, end);
    }
    std::ranges::sort(choice.files.begin() + static_cast<std::ptrdiff_t>(first), choice.files.end(), {},
                      [&](const ChosenFile& one) { return order_of(files[one.file].header, one.file); });
  }
  return choice;
}

Result<ExportReport> export_files(os::FileSystem& files, const Forest& forest, const std::vector<ChosenFile>& chosen,
                                  const std::string& path) {
  for (const ChosenFile& file : chosen) {
    const ModelDirectory& model = forest.directory.models[file.model];
    if (model.distrust)
      return invalid("the stored state of model " + model.fingerprint.hex().substr(0, 12) + " was found to be wrong (" +
                     *model.distrust + "), so it is not exported: see docs/audit.md");
  }
  if (!fits_archive(chosen)) return invalid("too much for one archive: name prefixes, or a --model");
  const std::vector<format::ArchiveNote> notes = notes_of(forest, chosen);
  TRY_ASSIGN(const std::unique_ptr<os::File> archive, files.create(path));
  ExportReport report;
  Status written = archive->append(format::encode_archive_head(!notes.empty()));
  std::set<std::pair<std::size_t, std::size_t>> runs;
  for (const ChosenFile& file : chosen) {
    if (!written) break;
    const ModelDirectory& model = forest.directory.models[file.model];
    const store::FoundSegment& segment = model.files.segments[file.file];
    written = append_file(files, model, segment, *archive);
    report.files.add(segment.info.size);
    runs.emplace(file.model, forest.trees[file.model].run_of[file.file]);
  }
  if (written) written = archive->append(format::encode_archive_number(0));
  if (written) written = archive->append(format::encode_archive_number(report.files.files));
  if (written && !notes.empty()) written = archive->append(format::encode_archive_notes(notes));
  if (written) written = archive->sync();
  if (!written) {
    (void)files.remove(path);
    return written.error();
  }
  report.prefixes = runs.size();
  return report;
}

}  // namespace kvkeep::inspect
