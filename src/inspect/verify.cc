#include "inspect/verify.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "store/segment_io.h"
#include "store/unserved_files.h"

namespace kvkeep::inspect {
namespace {

// A directory with orphans is listed again, at most this often: a writer may go on and on.
constexpr int kLooks = 3;

using Names = std::map<std::string, ByteCount>;

Result<Names> segment_names(os::FileSystem& files, const std::string& directory) {
  auto listed = files.list(directory);
  if (!listed && listed.error().kind == ErrorKind::kNotFound) return Names{};
  if (!listed) return listed.error();
  Names names;
  for (const os::FileInfo& info : *listed) {
    if (info.is_regular && store::is_segment_name(info.name)) names[info.name] = info.size;
  }
  return names;
}

// The progress over all models. Thread safe.
class Meter {
 public:
  Meter(const VerifyProgress& progress, ByteCount total) : progress_(progress), total_(total) {}
  void add(ByteCount bytes) {
    if (!progress_) return;
    const MutexLock lock(mutex_);
    done_ += bytes;
    progress_(std::min(done_, total_), total_);
  }

 private:
  const VerifyProgress& progress_;
  const ByteCount total_;
  Mutex mutex_;
  ByteCount done_ GUARDED_BY(mutex_);
};

// The files of one model.
class ModelCheck {
 public:
  ModelCheck(os::FileSystem& files, const ModelDirectory& model, const std::vector<os::Executor*>& executors,
             Meter& meter, const VerifyWait& wait)
      : files_(files), model_(model), executors_(executors), meter_(meter), wait_(wait) {}

  Status run(Names names, VerifyReport& report) {
    read_all(names);
    join();
    for (int look = 1; !troubled_.empty(); ++look) {
      const bool waited = has_orphans() && wait_ && wait_();
      if (!waited && look >= kLooks) break;
      TRY_ASSIGN(names, segment_names(files_, model_.path));
      if (look_again(names)) {
        join();
      } else if (!waited) {
        break;
      }
    }
    tell(report);
    return {};
  }

 private:
  struct Read {
    std::string name;
    ByteCount size;
    Result<store::CheckedSegment> result = damaged("not read");
  };

  void read_all(const Names& names);
  bool look_again(const Names& names);
  bool has_orphans() const {
    return std::ranges::any_of(troubled_, [](const Finding& found) { return found.trouble == Trouble::kOrphan; });
  }
  void join();
  void find_lost_bases(const std::vector<std::size_t>& whole);
  void tell(VerifyReport& report);
  Finding finding(Trouble trouble, const Read& read, std::string reason) const {
    return {trouble, model_.path, read.name, read.size, std::move(reason), {}};
  }

  os::FileSystem& files_;
  const ModelDirectory& model_;
  const std::vector<os::Executor*>& executors_;
  Meter& meter_;
  const VerifyWait& wait_;
  std::vector<Read> reads_;
  std::uint64_t vanished_ = 0;
  ByteCount bytes_;
  // Results of join():
  std::vector<Finding> troubled_;
  std::size_t runs_ = 0;
  std::size_t redundant_ = 0;
};

// Reads a damaged file once more: it may have been replaced between two reads.
Result<store::CheckedSegment> check_twice(os::FileSystem& files, const ModelDirectory& model, const std::string& name) {
  auto checked = store::check_segment(files, model.path, name, model.fingerprint);
  if (checked || checked.error().kind != ErrorKind::kDamaged) return checked;
  return store::check_segment(files, model.path, name, model.fingerprint);
}

void ModelCheck::read_all(const Names& names) {
  const std::size_t first = reads_.size();
  for (const auto& [name, size] : names) reads_.push_back({.name = name, .size = size});
  std::atomic<std::size_t> next = first;
  const auto work = [&] {
    for (std::size_t i = next++; i < reads_.size(); i = next++) {
      reads_[i].result = check_twice(files_, model_, reads_[i].name);
      meter_.add(reads_[i].size);
    }
  };
  for (os::Executor* executor : executors_) executor->post(work);
  for (os::Executor* executor : executors_) executor->drain();
  for (std::size_t i = first; i < reads_.size(); ++i) {
    if (reads_[i].result) bytes_ += reads_[i].result->read;
  }
  const auto gone = [](const Read& read) { return !read.result && read.result.error().kind == ErrorKind::kNotFound; };
  vanished_ += std::erase_if(reads_, gone);
}

// Returns false if nothing changed since the last look.
bool ModelCheck::look_again(const Names& names) {
  Names fresh = names;
  for (const Read& read : reads_) fresh.erase(read.name);
  const auto gone = [&](const Read& read) { return !names.contains(read.name); };
  const std::size_t left = std::erase_if(reads_, gone);
  vanished_ += left;
  read_all(fresh);
  return left > 0 || !fresh.empty();
}

// Builds a tree of the whole files, and notes files that have no place in it or could not be read.
void ModelCheck::join() {
  troubled_.clear();
  std::vector<store::FoundSegment> found;
  std::vector<std::size_t> whole;  // places in reads_
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    const Read& read = reads_[i];
    if (read.result) {
      store::FoundSegment& file = found.emplace_back();
      file.info.name = read.name;
      file.info.size = read.size;
      file.header = read.result->header;
      whole.push_back(i);
      continue;
    }
    const bool is_damage = read.result.error().kind == ErrorKind::kDamaged;
    troubled_.push_back(
        finding(is_damage ? Trouble::kDamaged : Trouble::kUnreadable, read, read.result.error().message));
  }
  const PrefixTree tree = build_tree(model_.fingerprint, found);
  const auto add = [&](Trouble trouble, std::size_t file, const char* reason) {
    troubled_.push_back(finding(trouble, reads_[whole[file]], reason));
    troubled_.back().order = std::get<Position>(order_of(found[file].header, file));
  };
  for (const std::size_t file : tree.misnamed)
    add(Trouble::kMisnamed, file, "its tokens have another hash than its name");
  for (const std::size_t file : tree.orphans) {
    const bool rows = found[file].header.name.kind == format::PartKind::kRows;
    add(Trouble::kOrphan, file, rows ? "the file that it continues is missing" : "no rows lead to it");
  }
  find_lost_bases(whole);
  runs_ = tree.runs.size();
  redundant_ = tree.redundant.size();
}

// A state is whole only if its base is: goes by ascending position, so that a base is judged before its successors.
void ModelCheck::find_lost_bases(const std::vector<std::size_t>& whole) {
  std::vector<std::size_t> states;
  for (const std::size_t i : whole) {
    if (reads_[i].result->header.name.kind == format::PartKind::kWhole) states.push_back(i);
  }
  std::ranges::sort(states, {}, [&](std::size_t i) { return reads_[i].result->header.name.end; });
  std::set<PrefixHash> there;
  for (const std::size_t i : states) {
    const store::CheckedSegment& state = *reads_[i].result;
    if (!state.base_hash || there.contains(*state.base_hash)) {
      there.insert(state.header.name.end_hash);
      continue;
    }
    troubled_.push_back(finding(Trouble::kOrphan, reads_[i], "the state that it is built on is missing"));
    troubled_.back().order = state.header.name.end;
  }
}

void ModelCheck::tell(VerifyReport& report) {
  report.files += reads_.size();
  report.read += bytes_;
  report.prefixes += runs_;
  report.redundant += redundant_;
  report.vanished += vanished_;
  std::ranges::sort(troubled_, [](const Finding& a, const Finding& b) {
    return std::tie(b.order, a.file) < std::tie(a.order, b.file);
  });
  const auto same = std::ranges::unique(troubled_, {}, &Finding::file);  // some lack both rows and a base
  troubled_.erase(same.begin(), same.end());
  std::ranges::move(troubled_, std::back_inserter(report.findings));
}

}  // namespace

std::string_view to_string(Trouble trouble) {
  switch (trouble) {
    case Trouble::kDamaged: return "damaged";
    case Trouble::kMisnamed: return "misnamed";
    case Trouble::kOrphan: return "orphan";
    case Trouble::kUnreadable: return "unreadable";
  }
  return "damaged";
}

Result<VerifyReport> verify(os::FileSystem& files, const CacheDirectory& directory,
                            const std::vector<os::Executor*>& executors, const VerifyProgress& progress,
                            const VerifyWait& wait) {
  std::vector<Names> names;
  ByteCount total;
  for (const ModelDirectory& model : directory.models) {
    TRY_ASSIGN(Names listed, segment_names(files, model.path));
    for (const auto& [name, size] : listed) total += size;
    names.push_back(std::move(listed));
  }
  Meter meter(progress, total);
  VerifyReport report;
  for (std::size_t i = 0; i < names.size(); ++i) {
    ModelCheck check(files, directory.models[i], executors, meter, wait);
    TRY(check.run(std::move(names[i]), report));
  }
  return report;
}

Result<RepairReport> repair(os::FileSystem& files, os::Clock& clock, const CacheDirectory& directory, ByteCount budget,
                            const std::vector<Finding>& findings) {
  store::SpaceLedger ledger(budget);
  store::UnservedFiles unserved(files, ledger);
  const std::string root = directory.root + "/" + std::string(store::kQuarantineName);
  store::Quarantine quarantine(root, budget, files, clock, ledger, unserved);
  RepairReport report;
  bool opened = false;
  for (const Finding& finding : findings) {
    const std::string path = finding.directory + "/" + finding.file;
    const ByteCount bytes = os::physical_size(finding.size);
    if (finding.trouble == Trouble::kUnreadable) continue;
    if (finding.trouble == Trouble::kOrphan) {
      const Status removed = files.remove(path);
      const bool gone = removed.ok() || removed.error().kind == ErrorKind::kNotFound;
      gone ? ++report.removed : ++report.failed;
      if (removed) report.freed += bytes;
      continue;
    }
    if (!std::exchange(opened, true)) TRY(quarantine.open());
    ledger.add_existing(bytes);
    quarantine.take(path, bytes);
    unserved.knows(path) ? ++report.failed : ++report.set_aside;
  }
  for (const ModelDirectory& model : directory.models) {
    const Status synced = files.sync_directory(model.path);
    if (!synced && synced.error().kind != ErrorKind::kNotFound) return synced.error();
  }
  if (opened) TRY(files.sync_directory(root));
  return report;
}

}  // namespace kvkeep::inspect
