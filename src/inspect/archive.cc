#include "inspect/archive.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "format/archive_file.h"
#include "store/layout.h"
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
  TRY(store::check_weights_stayed(files, model.path, model.weights));
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
    if (!directory.note && !directory.weights.hash) continue;
    ModelNote note = directory.note.value_or(ModelNote{});
    note.path.clear();
    if (directory.weights.hash) note.weights = directory.weights.hash->hex();
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

namespace {

constexpr std::size_t kReadBytes = 1 << 20;

// A part of a file as if it were one.
class Region final : public os::File {
 public:
  Region(os::File& file, std::uint64_t offset, std::uint64_t size) : file_(file), offset_(offset), size_(size) {}
  Result<std::size_t> read_at(std::uint64_t offset, MutableByteSpan out) override {
    const std::uint64_t left = size_ - std::min(offset, size_);
    return file_.read_at(offset_ + offset, out.first(std::min<std::uint64_t>(out.size(), left)));
  }
  Status append(ByteSpan) override { return invalid("a region is only read"); }
  Status sync() override { return {}; }
  Result<ByteCount> size() override { return ByteCount{size_}; }

 private:
  os::File& file_;
  const std::uint64_t offset_;
  const std::uint64_t size_;
};

struct Entry {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::size_t model = 0;  // place in Contents::models
  std::size_t file = 0;   // place in its list
};

struct Contents {
  std::vector<Entry> entries;  // as they lie: parents first
  std::vector<FingerprintHash> models;
  std::vector<std::vector<store::FoundSegment>> files;  // by model
  std::vector<std::pair<FingerprintHash, ModelNote>> notes;
};

Result<std::uint64_t> number_at(os::File& file, std::uint64_t offset) {
  std::array<std::byte, format::kArchiveEntryBytes> bytes;
  TRY_ASSIGN(const std::size_t count, file.read_at(offset, bytes));
  if (count != bytes.size()) return invalid("the archive is cut short");
  return format::decode_archive_number(bytes);
}

// Reads and verifies the archive file by file.
class Scan {
 public:
  explicit Scan(os::File& archive) : archive_(archive) {}

  Result<Contents> run() {
    TRY_ASSIGN(const ByteCount size, archive_.size());
    std::vector<std::byte> head(format::kArchiveHeadBytes);
    TRY_ASSIGN(const std::size_t count, archive_.read_at(0, head));
    TRY_ASSIGN(const bool with_notes, format::check_archive_head(ByteSpan(head).first(count)));
    std::uint64_t at = format::kArchiveHeadBytes;
    while (true) {
      TRY_ASSIGN(const std::uint64_t bytes, number_at(archive_, at));
      at += format::kArchiveEntryBytes;
      if (bytes == 0) break;
      if (bytes > size.value() - at) return invalid("the archive is cut short");
      if (contents_.entries.size() == format::kMaxArchiveFiles) return invalid("the archive has too many files");
      TRY(take(at, bytes));
      at += bytes;
    }
    TRY_ASSIGN(const std::uint64_t told, number_at(archive_, at));
    at += format::kArchiveEndBytes;
    const bool ends = at == size.value();
    if (told != contents_.entries.size() || ends == with_notes)
      return invalid("the archive's end does not fit its files");
    if (with_notes) TRY(read_notes(at, size.value() - at));
    TRY(check_paths());
    return std::move(contents_);
  }

 private:
  Status take(std::uint64_t at, std::uint64_t bytes) {
    Region region(archive_, at, bytes);
    const std::string which = "file " + std::to_string(contents_.entries.size() + 1) + " of the archive: ";
    auto checked = store::check_segment_file(region, ByteCount{bytes});
    if (!checked && checked.error().kind == ErrorKind::kDamaged) {
      return damaged(which + "it is not as it was exported (" + checked.error().message +
                     "); nothing was imported: copy the archive again, or export it again");
    }
    if (!checked) return Error{checked.error().kind, which + checked.error().message};
    const auto [found, fresh] = models_.try_emplace(checked->header.fingerprint, contents_.models.size());
    if (contents_.models.size() + fresh > format::kMaxArchiveModels)
      return invalid("the archive has files of too many models");
    if (fresh) {
      contents_.models.push_back(found->first);
      contents_.files.emplace_back();
    }
    std::vector<store::FoundSegment>& files = contents_.files[found->second];
    store::FoundSegment& file = files.emplace_back();
    file.info.name = format::file_name(checked->header.name);
    file.info.size = ByteCount{bytes};
    if (!names_.emplace(found->second, file.info.name).second) return invalid(which + "an earlier file has its name");
    if (checked->base_hash) bases_.emplace_back(found->second, *checked->base_hash);
    file.header = std::move(checked->header);
    contents_.entries.push_back({at, bytes, found->second, files.size() - 1});
    return {};
  }

  Status read_notes(std::uint64_t at, std::uint64_t bytes) {
    if (bytes > format::kMaxArchiveNotesBytes) return invalid("the archive's end does not fit its files");
    std::vector<std::byte> text(bytes);
    TRY_ASSIGN(const std::size_t count, archive_.read_at(at, text));
    TRY_ASSIGN(const auto notes, format::decode_archive_notes(ByteSpan(text).first(count)));
    std::set<FingerprintHash> told;
    for (const format::ArchiveNote& note : notes) {
      auto decoded = decode_model_note(note.text);
      if (!decoded || !models_.contains(note.fingerprint) || !told.insert(note.fingerprint).second)
        return invalid("the archive has a note about a model without files");
      decoded->path.clear();  // others wrote it: no file is opened because a note says so
      contents_.notes.emplace_back(note.fingerprint, std::move(*decoded));
    }
    return {};
  }

  // An import that is interrupted leaves files that have their parents.
  Status check_order() const {
    std::vector<Position> reached(contents_.models.size());
    for (const Entry& entry : contents_.entries) {
      const Position at = std::get<Position>(order_of(contents_.files[entry.model][entry.file].header, entry.file));
      if (at < std::exchange(reached[entry.model], at))
        return invalid("the archive has a file before its parent: kvkeep cache export writes parents first");
    }
    return {};
  }

  // An archive must be complete by itself: a path that other files complete may be gone tomorrow.
  Status check_paths() const {
    TRY(check_order());
    for (std::size_t model = 0; model < contents_.models.size(); ++model) {
      const PrefixTree tree = build_tree(contents_.models[model], contents_.files[model]);
      if (!tree.misnamed.empty()) return invalid("the archive has a file whose tokens have another hash than its name");
      if (!tree.orphans.empty()) return invalid("the archive has a file without its parent");
    }
    std::set<std::pair<std::size_t, PrefixHash>> states;
    for (const Entry& entry : contents_.entries) {
      const format::SegmentName& name = contents_.files[entry.model][entry.file].header.name;
      if (name.kind == format::PartKind::kWhole) states.emplace(entry.model, name.end_hash);
    }
    const auto there = [&](const auto& base) { return states.contains(base); };
    if (!std::ranges::all_of(bases_, there)) return invalid("the archive has a built state without its base");
    return {};
  }

  os::File& archive_;
  Contents contents_;
  std::map<FingerprintHash, std::size_t> models_;
  std::set<std::pair<std::size_t, std::string>> names_;
  std::vector<std::pair<std::size_t, PrefixHash>> bases_;
};

// With one decimal. Rounds files up and room down, so that no message says that 1.0 MiB do not fit into 1.0 MiB.
std::string mib_text(ByteCount bytes, bool up) {
  constexpr std::uint64_t kMib = 1U << 20;
  const std::uint64_t rest = bytes.value() % kMib * 10 + (up ? kMib - 1 : 0);
  const std::uint64_t tenths = bytes.value() / kMib * 10 + rest / kMib;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

// Writes the missing files. Before give_names(), and after an error, none of them has its name.
class Writing {
 public:
  Writing(os::FileSystem& files, os::File& archive, const Contents& contents, const ImportOptions& options)
      : files_(files), archive_(archive), contents_(contents), options_(options) {}
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  ~Writing() {
    for (const auto& [temporary, path] : waiting_) (void)files_.remove(temporary);
    // Children before parents.
    for (auto path = named_.rbegin(); path != named_.rend(); ++path) (void)files_.remove(*path);
    for (const std::string& directory : made_) (void)files_.remove(directory);
  }

  Result<ImportReport> run() {
    std::vector<Entry> missing;
    TRY_ASSIGN(ImportReport report, sort_out(missing));
    if (report.added.bytes > options_.room) {
      return no_space(mib_text(report.added.bytes, true) + " to import, and room for " +
                      mib_text(options_.room, false) +
                      ": give more with --kv-disk-space-mb, or make room with kvkeep cache gc --to-mb N");
    }
    if (report.added.bytes > options_.free) {
      return no_space(mib_text(report.added.bytes, true) + " to import, and the file system of " + options_.root +
                      " has " + mib_text(options_.free, false) +
                      " free: free some there, or name a directory elsewhere with --kv-disk-dir");
    }
    if (options_.reserve && !missing.empty()) TRY(options_.reserve(report.added.bytes));
    for (const Entry& entry : missing) TRY(write(entry));
    TRY(join_models(missing));
    const Status named = give_names();
    // A server may continue from a file that has its name, so it stays; it is no orphan, for parents got names first.
    if (named || options_.beside_servers) {
      named_.clear();
      made_.clear();
    }
    TRY(named);
    add_notes();
    return report;
  }

 private:
  std::string directory_of(const Entry& entry) const {
    return options_.root + "/" + contents_.models[entry.model].hex();
  }
  const store::FoundSegment& file_of(const Entry& entry) const { return contents_.files[entry.model][entry.file]; }

  Result<ImportReport> sort_out(std::vector<Entry>& missing) {
    ImportReport report;
    std::vector<std::set<std::string>> present;
    for (const FingerprintHash& model : contents_.models) {
      const auto listed = files_.list(options_.root + "/" + model.hex());
      if (!listed && listed.error().kind != ErrorKind::kNotFound) return listed.error();
      std::set<std::string>& names = present.emplace_back();
      if (!listed) absent_.insert(options_.root + "/" + model.hex());
      if (!listed) continue;
      for (const os::FileInfo& info : *listed) names.insert(info.name);
    }
    for (const Entry& entry : contents_.entries) {
      const store::FoundSegment& file = file_of(entry);
      const bool there = present[entry.model].contains(file.info.name);
      (there ? report.present : report.added).add(os::physical_size(file.info.size));
      if (!there) missing.push_back(entry);
    }
    report.fingerprints = contents_.models.size();
    return report;
  }

  // State gets its name only where the note says whose it is.
  Status join_models(const std::vector<Entry>& missing) {
    std::set<std::size_t> models;
    for (const Entry& entry : missing) models.insert(entry.model);
    for (const std::size_t model : models) {
      const FingerprintHash& fingerprint = contents_.models[model];
      const auto noted = std::ranges::find(contents_.notes, fingerprint, &std::pair<FingerprintHash, ModelNote>::first);
      const auto weights =
          noted != contents_.notes.end() ? store::parse_model_hash(noted->second.weights) : std::nullopt;
      TRY_ASSIGN(auto share, store::join_weights(files_, store::make_layout(options_.root, fingerprint), weights));
      shares_.push_back(std::move(share));
    }
    return {};
  }

  Status write(const Entry& entry) {
    const std::string directory = directory_of(entry);
    if (absent_.erase(directory) > 0) made_.insert(directory);
    TRY(files_.make_directories(directory));
    const std::string temporary = directory + "/" + options_.own_mark + "." + std::to_string(waiting_.size()) +
                                  std::string(store::kTemporarySuffix);
    TRY_ASSIGN(const std::unique_ptr<os::File> file, files_.create(temporary));
    waiting_.emplace_back(temporary, directory + "/" + file_of(entry).info.name);
    std::vector<std::byte> buffer(kReadBytes);
    Region region(archive_, entry.offset, entry.size);
    for (std::uint64_t at = 0; at < entry.size;) {
      TRY_ASSIGN(const std::size_t count, region.read_at(at, buffer));
      if (count == 0) return invalid("the archive was changed while it was read");
      TRY(file->append(ByteSpan(buffer).first(count)));
      at += count;
    }
    // Verifies the written file, whatever became of the archive meanwhile, before it gets its name.
    TRY_ASSIGN(const store::CheckedSegment written, store::check_segment_file(*file, ByteCount{entry.size}));
    if (written.header != file_of(entry).header) return invalid("the archive was changed while it was read");
    return file->sync();
  }

  Status give_names() {
    std::set<std::string> directories;
    while (named_.size() < waiting_.size()) {
      const auto& [temporary, path] = waiting_[named_.size()];
      TRY(files_.rename(temporary, path));
      named_.push_back(path);
      directories.insert(store::directory_of(path));
    }
    for (const std::string& directory : directories) TRY(files_.sync_directory(directory));
    waiting_.clear();
    return {};
  }

  // Notes are for people: their loss costs only names. The devices of both are noted.
  void add_notes() {
    for (const auto& [model, note] : contents_.notes) {
      const std::string directory = options_.root + "/" + model.hex();
      auto known = read_model_note(files_, directory);
      if (known) known->devices = note.devices;
      (void)write_model_note(files_, directory, known ? *known : note).ok();
    }
  }

  os::FileSystem& files_;
  os::File& archive_;
  const Contents& contents_;
  const ImportOptions& options_;
  std::vector<std::pair<std::string, std::string>> waiting_;  // temporary name and path
  std::vector<std::string> named_;
  std::vector<std::unique_ptr<os::FileLock>> shares_;  // of the models' directories
  std::set<std::string> absent_;  // directories of models that were not there, and which of them were made
  std::set<std::string> made_;
};

}  // namespace

Result<ImportReport> import_files(os::FileSystem& files, const std::string& archive, const ImportOptions& options) {
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(archive));
  TRY_ASSIGN(const Contents contents, Scan(*file).run());
  return Writing(files, *file, contents, options).run();
}

Guest::Guest(const std::string& root, os::FileSystem& files, os::Clock& clock)
    : servers_(root + "/" + std::string(store::kServersName), files, clock) {}

// Publishes a total of 0: when the guest is gone, servers count the files that they find.
Status Guest::reserve(ByteCount bytes, const std::function<bool()>& wait) {
  TRY(servers_.publish(0, bytes.value()));
  do {
    TRY_ASSIGN(const store::ListedServers listed, servers_.list());
    const auto own = listed.find(servers_.id());
    if (own != listed.end() && own->second.granted >= bytes.value()) return {};
  } while (wait());
  return no_space("the server that keeps the budget of this directory made no room for " +
                  std::to_string((bytes.value() + 0xFFFFF) >> 20) + " MiB; try again, or stop the servers first");
}

}  // namespace kvkeep::inspect
