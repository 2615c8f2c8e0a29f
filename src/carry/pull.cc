#include <algorithm>
#include <set>
#include <utility>

#include "base/media_ids.h"
#include "carry/carry.h"
#include "carry/lineage.h"
#include "format/notes.h"
#include "inspect/cache_directory.h"
#include "store/layout.h"
#include "store/segment_io.h"
#include "store/small_files.h"
#include "store/weights.h"

namespace kvkeep::carry {
namespace {

using inspect::kNone;

// So many files get their names between two syncs of their directory.
constexpr std::size_t kFilesBetweenSyncs = 64;

// The object's own fault, not the engine's.
bool is_unusable(const Error& error) {
  return error.kind == ErrorKind::kDamaged || error.kind == ErrorKind::kUnsupported;
}

std::string text_of(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

class Pull {
 public:
  Pull(os::FileSystem& files, const Namespace& from, share::Warehouse& warehouse, const PullTarget& target,
       const CarryOptions& options)
      : files_(files),
        from_(from),
        warehouse_(warehouse),
        target_(target),
        options_(options),
        directory_(target.root + "/" + from.fingerprint->hex()) {}

  Result<CarryReport> run() {
    TRY(read_directory());
    TRY(fetch_heads());
    const inspect::PrefixTree tree = inspect::build_tree(*from_.fingerprint, all_);
    const Lineage lineage(tree, all_);
    const std::vector<std::size_t> chosen = choose(lineage);
    if (options_.dry) {
      for (const std::size_t file : chosen) report_.carried.add(all_[file].info.size.value());
      note_turns(read_turns());
      return std::move(report_);
    }
    if (!chosen.empty()) TRY(begin());
    TRY(carry_all(lineage, chosen));
    if (report_.stopped.empty()) TRY(carry_turns());
    return std::move(report_);
  }

 private:
  // ---- what there is ----

  Status read_directory() {
    auto own = inspect::read_model(files_, target_.root, *from_.fingerprint);
    if (!own && own.error().kind == ErrorKind::kNotFound) return {};
    if (!own) return own.error();
    if (own->distrust) {
      return invalid("an audit found the stored state to be wrong (" + *own->distrust +
                     "), so nothing is added to it: see docs/audit.md");
    }
    note_ = own->note;
    all_ = std::move(own->files.segments);
    own_files_ = all_.size();
    for (const store::FoundSegment& file : all_) known_.insert(file.info.name);
    return {};
  }

  // Appends the files that the namespace's objects would be.
  Status fetch_heads() {
    std::vector<share::ObjectName> names;
    for (const share::ObjectName& name : from_.names) {
      if (name.kind != share::ObjectKind::kRecord) names.push_back(name);
    }
    auto heads = warehouse_.heads(names);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (heads[i].ok()) {
        take(names[i], std::move(*heads[i]));
      } else if (heads[i].error().kind == ErrorKind::kNotFound) {
        report_.lost.add(0);
      } else if (is_unusable(heads[i].error())) {
        report_.note_unusable(names[i].text(), heads[i].error().message);
      } else {
        return heads[i].error();
      }
    }
    return {};
  }

  void take(const share::ObjectName& name, format::SharedHead head) {
    const format::SegmentHeader& segment = head.segment;
    const bool built = std::ranges::any_of(segment.parts, &format::Part::built);
    if (built || segment.fingerprint != *from_.fingerprint) {
      return report_.note_unusable(name.text(), "it is not of this model, or no whole state");
    }
    if (!are_segment_ids(segment.tokens, kAnyVocabulary)) {
      return report_.note_unusable(name.text(), "its ids are of no vocabulary");
    }
    store::FoundSegment file{.info = {.name = format::file_name(segment.name),
                                      .size = ByteCount{format::file_bytes(segment)},
                                      .is_regular = true},
                             .header = segment,
                             .encoded = {}};
    if (!known_.insert(file.info.name).second) return report_.present.add(file.info.size.value());
    all_.push_back(std::move(file));
    heads_.push_back(std::move(head));
  }

  // ---- what is taken ----

  bool is_new(std::size_t file) const { return file >= own_files_; }
  ByteCount physical(std::size_t file) const { return os::physical_size(all_[file].info.size); }

  // Each after its parent, as much as the limits allow.
  std::vector<std::size_t> choose(const Lineage& lineage) {
    std::vector<std::size_t> chosen;
    there_.assign(all_.size(), false);
    for (std::size_t file = 0; file < all_.size(); ++file) {
      if (!lineage.placed(file) && is_new(file)) report_.lost.add(all_[file].info.size.value());
    }
    ByteCount bytes;
    for (const std::size_t file : lineage.beginnings_first()) {
      const ByteCount size = all_[file].info.size;
      const std::size_t parent = lineage.parent(file);
      const bool leads_here = parent == kNone || there_[parent];
      const bool fits = bytes + size <= options_.most && added_ + physical(file) <= target_.room;
      there_[file] = !is_new(file) || (leads_here && fits);
      if (!is_new(file)) continue;
      if (!there_[file]) {
        report_.left.add(size.value());
        continue;
      }
      chosen.push_back(file);
      bytes += size;
      added_ += physical(file);
    }
    total_ = bytes;
    return chosen;
  }

  // The note comes first: what lies here was computed by this device, too.
  Status begin() {
    if (target_.reserve) TRY(target_.reserve(added_));
    TRY(files_.make_directories(directory_));
    (void)files_.remove(temporary_path());  // of a process that had this one's number and was killed
    inspect::ModelNote note = note_ ? *note_ : from_.note.value_or(inspect::ModelNote{});
    if (!note_) {
      note.path.clear();  // others wrote it: no file is opened because a note says so
      note.first_used_s = target_.now_s;
    }
    TRY_ASSIGN(share_, store::join_weights(files_, store::make_layout(target_.root, *from_.fingerprint),
                                           from_.note ? store::parse_model_hash(from_.note->weights) : std::nullopt));
    note.devices = {target_.device.empty() ? std::string(inspect::kUnknownDevice) : target_.device};
    return inspect::write_model_note(files_, directory_, note);
  }

  // ---- carrying ----

  Status carry_all(const Lineage& lineage, const std::vector<std::size_t>& chosen) {
    std::size_t next = 0;
    for (; next < chosen.size() && report_.stopped.empty(); ++next) {
      const std::size_t file = chosen[next];
      const std::size_t parent = lineage.parent(file);
      if (parent != kNone && !there_[parent]) {
        report_.left.add(all_[file].info.size.value());
        there_[file] = false;
        continue;
      }
      TRY_ASSIGN(there_[file], carry(file));
      if (there_[file] && report_.carried.items % kFilesBetweenSyncs == 0) TRY(files_.sync_directory(directory_));
    }
    for (; next < chosen.size(); ++next) report_.left.add(all_[chosen[next]].info.size.value());
    return report_.carried.items > 0 ? files_.sync_directory(directory_) : Status{};
  }

  // Returns false if the object cannot be had.
  Result<bool> carry(std::size_t file) {
    const format::SharedHead& head = heads_[file - own_files_];
    const std::uint64_t size = all_[file].info.size.value();
    const auto payload = warehouse_.payload(head);
    if (!payload.ok()) {
      note_failure(head, size, payload.error());
      return false;
    }
    TRY(write(head.segment, (*payload)->bytes()));
    report_.carried.add(size);
    if (options_.progress) options_.progress(report_.carried.bytes, total_);
    return true;
  }

  void note_failure(const format::SharedHead& head, std::uint64_t size, const Error& error) {
    switch (error.kind) {
      case ErrorKind::kNotFound: return report_.lost.add(size);
      case ErrorKind::kUnsupported:
      case ErrorKind::kDamaged:
        return report_.note_unusable(warehouse_.name_of(head.segment.name).text(), error.message);
      default: report_.stopped = error.message; report_.left.add(size);
    }
  }

  std::string temporary_path() const {
    return directory_ + "/" + target_.own_mark + ".0" + std::string(store::kTemporarySuffix);
  }

  Status write(const format::SegmentHeader& segment, ByteSpan payload) {
    std::vector<store::PartBytes> parts;
    for (const format::Part& part : segment.parts) {
      parts.push_back({part.kind, payload.first(part.size_bytes)});
      payload = payload.subspan(part.size_bytes);
    }
    const std::string temporary = temporary_path();
    const auto written = [&]() -> Status {
      TRY_ASSIGN(const std::unique_ptr<os::File> file, files_.create(temporary));
      TRY(store::write_segment(*file, format::encode_header(segment), parts));
      TRY(file->sync());
      return files_.rename(temporary, directory_ + "/" + format::file_name(segment.name));
    };
    Status done = written();
    if (!done.ok()) (void)files_.remove(temporary);
    return done;
  }

  // ---- sampled turns ----

  std::string turns_path() const { return directory_ + "/" + std::string(store::kTurnsName); }

  std::vector<std::vector<std::byte>> read_turns() {
    std::vector<share::ObjectName> names;
    for (const share::ObjectName& name : from_.names) {
      if (name.kind == share::ObjectKind::kRecord) names.push_back(name);
    }
    const share::ObjectName about = warehouse_.vault().record_name(about_key());
    std::erase(names, about);
    std::vector<std::vector<std::byte>> turns;
    auto records = warehouse_.records(names);
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (!records[i].ok() && records[i].error().kind == ErrorKind::kNotFound) continue;
      if (!records[i].ok() && !is_unusable(records[i].error())) {
        report_.stopped = records[i].error().message;
        return turns;
      }
      if (!records[i].ok()) {
        report_.note_unusable(names[i].text(), records[i].error().message);
      } else if (const auto own = turns_of(names[i], *records[i]); !own.ok()) {
        report_.note_unusable(names[i].text(), own.error().message);
      } else {
        for (const auto& turn : *own) turns.push_back(format::encode_sampled_turn(turn));
      }
    }
    return turns;
  }

  // A server that reads the turns holds them against its vocabulary, which is not known here.
  Result<std::vector<format::SampledTurnRecord>> turns_of(const share::ObjectName& name, ByteSpan record) const {
    TRY_ASSIGN(std::vector<format::SampledTurnRecord> turns, format::decode_shared_turns(record));
    if (warehouse_.vault().record_name(turns.front().before) != name) return damaged("it is a turn of another place");
    const auto is_usable = [](const auto& turn) { return are_tokens(turn.ids, kAnyVocabulary); };
    if (!std::ranges::all_of(turns, is_usable)) return damaged("its ids are of no vocabulary");
    return turns;
  }

  // Returns the new turns: those that the directory lacks.
  std::vector<std::vector<std::byte>> note_turns(std::vector<std::vector<std::byte>> turns) {
    const ByteCount most = target_.turn_memory + target_.turn_memory + target_.turn_memory;
    auto known = store::read_records(files_, turns_path(), format::kSampledTurnRecords, most);
    if (known.ok()) old_turns_ = std::move(known->payloads);
    std::set<std::string> old;
    for (const auto& turn : old_turns_) old.insert(text_of(turn));
    std::erase_if(turns, [&](const auto& turn) { return old.contains(text_of(turn)); });
    ByteCount bytes;
    for (const auto& turn : old_turns_) bytes += ByteCount{turn.size()};
    std::erase_if(turns, [&](const auto& turn) {
      bytes += ByteCount{turn.size()};
      return bytes > target_.turn_memory + target_.turn_memory;
    });
    (target_.beside_servers ? report_.turns_left : report_.turns) = turns.size();
    return turns;
  }

  Status carry_turns() {
    std::vector<std::vector<std::byte>> turns = note_turns(read_turns());
    if (turns.empty() || target_.beside_servers) return {};
    TRY(files_.make_directories(directory_));
    old_turns_.insert(old_turns_.end(), turns.begin(), turns.end());
    TRY(store::RecordLog::rewrite(files_, turns_path(), format::kSampledTurnRecords, old_turns_));
    return {};
  }

  os::FileSystem& files_;
  const Namespace& from_;
  share::Warehouse& warehouse_;
  const PullTarget& target_;
  const CarryOptions& options_;
  const std::string directory_;
  std::unique_ptr<os::FileLock> share_;  // of the directory's lock
  std::optional<inspect::ModelNote> note_;
  std::vector<store::FoundSegment> all_;   // files of the directory, then those to come
  std::size_t own_files_ = 0;              // of the directory
  std::vector<format::SharedHead> heads_;  // of those to come
  std::set<std::string> known_;            // names of all
  std::vector<bool> there_;                // by file: it is there, or is about to be
  std::vector<std::vector<std::byte>> old_turns_;
  ByteCount added_;  // physical
  ByteCount total_;
  CarryReport report_;
};

}  // namespace

Result<CarryReport> pull(os::FileSystem& files, const Namespace& from, share::Warehouse& warehouse,
                         const PullTarget& target, const CarryOptions& options) {
  return Pull(files, from, warehouse, target, options).run();
}

}  // namespace kvkeep::carry
