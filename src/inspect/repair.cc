#include "inspect/repair.h"

#include <utility>

#include "store/unserved_files.h"

namespace kvkeep::inspect {

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
