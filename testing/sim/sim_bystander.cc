#include "testing/sim/sim_bystander.h"

namespace kvkeep::sim {

SimBystander::SimBystander(SimFileSystem& files) : files_(files), boot_(files.boots_[1]) {}

void SimBystander::die() { files_.end_process(1); }

bool SimBystander::dead() const { return boot_ != files_.boots_[1]; }

template <typename Call>
auto SimBystander::act(Call call) -> decltype(call()) {
  if (operations_left_ && (*operations_left_)-- == 0) die();
  if (dead()) return io_error("a dead process");
  const ActingProcess acting(files_, 1);
  return call();
}

Result<std::unique_ptr<os::File>> SimBystander::create(const std::string& path) {
  return act([&] { return files_.create(path); });
}
Result<std::unique_ptr<os::File>> SimBystander::open(const std::string& path) {
  return act([&] { return files_.open(path); });
}
Status SimBystander::rename(const std::string& from, const std::string& to) {
  return act([&] { return files_.rename(from, to); });
}
Status SimBystander::remove(const std::string& path) {
  return act([&] { return files_.remove(path); });
}
Status SimBystander::make_directories(const std::string& path) {
  return act([&] { return files_.make_directories(path); });
}
Result<std::vector<os::FileInfo>> SimBystander::list(const std::string& directory) {
  return act([&] { return files_.list(directory); });
}
Status SimBystander::sync_directory(const std::string& directory) {
  return act([&] { return files_.sync_directory(directory); });
}
Status SimBystander::set_modified(const std::string& path, std::int64_t modified_ns) {
  return act([&] { return files_.set_modified(path, modified_ns); });
}
Result<std::unique_ptr<os::FileLock>> SimBystander::lock(const std::string& path) {
  return act([&] { return files_.lock(path); });
}
Result<std::unique_ptr<os::FileLock>> SimBystander::lock_shared(const std::string& path) {
  return act([&] { return files_.lock_shared(path); });
}
Result<os::Space> SimBystander::space(const std::string& path) {
  return act([&] { return files_.space(path); });
}

}  // namespace kvkeep::sim
