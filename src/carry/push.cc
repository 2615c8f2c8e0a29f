#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "carry/carry.h"
#include "carry/lineage.h"
#include "carry/namespaces.h"
#include "format/built_state.h"
#include "format/notes.h"
#include "store/layout.h"
#include "store/segment_io.h"
#include "store/small_files.h"

namespace kvkeep::carry {
namespace {

using Payload = std::shared_ptr<const store::Payload>;
using inspect::kNone;

constexpr ByteCount kMostTurnBytes = mebibytes(32);  // of the file of sampled turns
constexpr std::size_t kSizeOfHash = sizeof(PrefixHash);

// Reads payloads as objects have them: whole, and states that are stored as differences decoded.
class Payloads {
 public:
  Payloads(os::FileSystem& files, const inspect::ModelDirectory& model) : files_(files), model_(model) {
    const auto& found = model_.files.segments;
    for (std::size_t file = 0; file < found.size(); ++file) {
      if (found[file].header.name.kind == format::PartKind::kWhole) states_[found[file].header.name.end_hash] = file;
    }
  }

  // Returns the payload, and the header that describes it.
  Result<std::pair<format::SegmentHeader, Payload>> read(std::size_t file) {
    format::SegmentHeader header = model_.files.segments[file].header;
    TRY_ASSIGN(Payload stored, read_stored(file));
    if (!header.parts.front().built()) return std::pair(std::move(header), std::move(stored));
    TRY_ASSIGN(Payload state, decode(file, std::move(stored)));
    format::Part& part = header.parts.front();
    part = {.kind = part.kind, .size_bytes = state->size(), .layout = part.layout};
    part.sum = format::part_checksum(header.fingerprint, header.name, part.kind, state->bytes());
    return std::pair(std::move(header), std::move(state));
  }

 private:
  Result<Payload> read_stored(std::size_t file) const {
    const store::FoundSegment& found = model_.files.segments[file];
    auto buffer = store::PayloadBuffer::allocate(format::payload_bytes(found.header));
    MutableByteSpan rest = buffer.span();
    for (const format::Part& part : found.header.parts) {
      TRY(store::read_part(files_, model_.path + "/" + found.info.name, found.header, part.kind,
                           rest.first(part.size_bytes)));
      rest = rest.subspan(part.size_bytes);
    }
    return std::move(buffer).freeze();
  }

  // Each base lies before the state that is built on it, so chains end.
  Result<Payload> decode(std::size_t file, Payload stored) {
    const format::SegmentHeader& header = model_.files.segments[file].header;
    const format::Part& part = header.parts.front();
    if (!part.built()) return stored;
    PrefixHash base_hash;
    if (stored->size() < kSizeOfHash) return damaged("a built state is too short");
    std::memcpy(base_hash.bytes.data(), stored->bytes().data(), kSizeOfHash);
    const auto base = states_.find(base_hash);
    if (base == states_.end()) return damaged("the state that it is built on is missing");
    if (model_.files.segments[base->second].header.name.end >= header.name.end) {
      return damaged("it is built on a later state");
    }
    TRY_ASSIGN(Payload base_stored, read_stored(base->second));
    TRY_ASSIGN(const Payload base_state, decode(base->second, std::move(base_stored)));
    auto state = store::PayloadBuffer::allocate(part.state_bytes);
    TRY(format::decode_built_state(base_hash, base_state->bytes(), part.differences, stored->bytes(), state.span()));
    return std::move(state).freeze();
  }

  os::FileSystem& files_;
  const inspect::ModelDirectory& model_;
  std::map<PrefixHash, std::size_t> states_;  // whole states, by where they end
};

class Push {
 public:
  Push(os::FileSystem& files, const inspect::ModelDirectory& model, share::Warehouse& warehouse,
       const CarryOptions& options)
      : files_(files),
        model_(model),
        found_(model.files.segments),
        warehouse_(warehouse),
        options_(options),
        tree_(inspect::build_tree(model.fingerprint, found_)),
        lineage_(tree_, found_),
        payloads_(files, model),
        there_(found_.size()) {}

  Result<CarryReport> run(const std::string& device) {
    const std::vector<std::size_t> order = lineage_.last_used_first();
    for (std::size_t file = 0; file < found_.size(); ++file) {
      if (!lineage_.placed(file)) report_.lost.add(size_of(file));
    }
    for (const os::FileInfo& file : model_.files.damaged) report_.note_unusable(file.name, "it is damaged");
    for (const os::FileInfo& file : model_.files.unreadable) report_.note_unusable(file.name, "it cannot be read");
    TRY(look_up(order));
    if (!options_.dry) TRY(note_about(device));
    std::size_t next = 0;
    for (; next < order.size() && report_.stopped.empty(); ++next) carry(order[next]);
    for (; next < order.size(); ++next) {
      if (!there_[order[next]]) report_.left.add(size_of(order[next]));
    }
    if (report_.stopped.empty()) TRY(carry_turns());
    return std::move(report_);
  }

 private:
  // As an object: a built state is carried decoded.
  std::uint64_t size_of(std::size_t file) const {
    const format::SegmentHeader& header = found_[file].header;
    const format::Part& part = header.parts.front();
    return part.built() ? part.state_bytes : format::payload_bytes(header);
  }

  Status look_up(const std::vector<std::size_t>& order) {
    std::vector<share::ObjectName> names;
    for (const std::size_t file : order) names.push_back(warehouse_.name_of(found_[file].header.name));
    TRY_ASSIGN(const std::vector<bool> there, warehouse_.has(names));
    for (std::size_t i = 0; i < order.size(); ++i) {
      there_[order[i]] = there[i];
      if (!there[i]) total_ += ByteCount{size_of(order[i])};
    }
    return {};
  }

  // The first write: a key that may not write is noticed here.
  Status note_about(const std::string& device) {
    inspect::ModelNote note = model_.note.value_or(inspect::ModelNote{});
    note.path.clear();  // it would tell others about this machine
    note.devices = {device};
    if (model_.weights.hash) note.weights = model_.weights.hash->hex();
    const std::string text = inspect::encode_model_note(note);
    return warehouse_.put_record(about_key(), std::as_bytes(std::span(text)));
  }

  void carry(std::size_t file) {
    const std::uint64_t size = size_of(file);
    if (there_[file]) return report_.present.add(size);
    const std::size_t parent = lineage_.parent(file);
    const bool leads_here = parent == kNone || there_[parent];
    if (!leads_here || report_.carried.bytes + ByteCount{size} > options_.most) return report_.left.add(size);
    if (!options_.dry && !publish(file)) return;
    there_[file] = true;
    report_.carried.add(size);
    if (options_.progress) options_.progress(report_.carried.bytes, std::min(total_, options_.most));
  }

  bool publish(std::size_t file) {
    auto read = payloads_.read(file);
    if (!read.ok() && read.error().kind == ErrorKind::kNotFound) {  // a server evicted it meanwhile
      report_.lost.add(size_of(file));
      return false;
    }
    if (!read.ok()) {
      report_.note_unusable(found_[file].info.name, read.error().message);
      return false;
    }
    auto& [header, payload] = *read;
    Status written = store::check_weights_stayed(files_, model_.path, model_.weights);
    if (written.ok()) {
      written =
          warehouse_.put({.segment = std::move(header), .path = lineage_.path(file), .payload = std::move(payload)});
    }
    if (!written.ok()) {
      report_.stopped = written.error().message;
      report_.left.add(size_of(file));
    }
    return written.ok();
  }

  using Turns = std::vector<format::SampledTurnRecord>;

  // The engine has one record for each place. A push must not take the newest turns of servers away, so that those of
  // the directory count as older. Returns nullopt if the record would stay as it is.
  std::optional<std::vector<std::byte>> merged(const Turns& own, const Turns& there,
                                               const Result<std::vector<std::byte>>& record) {
    Turns all = own;
    all.insert(all.end(), there.begin(), there.end());
    auto contents = format::encode_shared_turns(std::move(all), format::kMostRecordBytes);
    if (record.ok() && contents == *record) return std::nullopt;
    return contents;
  }

  // The replies of a record that are to the prompt before these.
  static Turns turns_in(const Result<std::vector<std::byte>>& record, const PrefixHash& before) {
    auto turns = record.ok() ? format::decode_shared_turns(*record) : Result<Turns>(record.error());
    return turns.ok() && turns->front().before == before ? std::move(*turns) : Turns();
  }

  // How many of these replies a record has, and the one before it had not.
  static std::size_t count_new(const Turns& own, const Turns& there, const std::vector<std::byte>& contents) {
    const Turns now = turns_in(contents, own.front().before);
    return static_cast<std::size_t>(std::ranges::count_if(now, [&](const auto& turn) {
      return std::ranges::find(own, turn) != own.end() && std::ranges::find(there, turn) == there.end();
    }));
  }

  Status carry_turns() {
    TRY_ASSIGN(const store::ReadRecords read,
               store::read_records(files_, model_.path + "/" + std::string(store::kTurnsName),
                                   format::kSampledTurnRecords, kMostTurnBytes));
    std::map<PrefixHash, Turns> turns;
    for (const std::vector<std::byte>& payload : read.payloads) {
      auto turn = format::decode_sampled_turn(payload);
      if (turn.ok() && payload.size() <= format::kMostRecordBytes) turns[turn->before].push_back(std::move(*turn));
    }
    std::vector<share::ObjectName> names;
    for (const auto& [before, own] : turns) names.push_back(warehouse_.vault().record_name(before));
    const auto known = warehouse_.records(names);
    std::size_t place = 0;
    for (const auto& [before, own] : turns) {
      const auto& record = known[place++];
      const Turns there = turns_in(record, before);
      const auto contents = merged(own, there, record);
      if (!contents) continue;
      if (!options_.dry) {
        if (const Status written = warehouse_.put_record(before, *contents); !written.ok()) {
          report_.stopped = written.error().message;
          return {};
        }
      }
      report_.turns += count_new(own, there, *contents);
    }
    return {};
  }

  os::FileSystem& files_;
  const inspect::ModelDirectory& model_;
  const std::vector<store::FoundSegment>& found_;
  share::Warehouse& warehouse_;
  const CarryOptions& options_;
  const inspect::PrefixTree tree_;
  const Lineage lineage_;
  Payloads payloads_;
  std::vector<bool> there_;  // by file: the engine has its object, or would by now
  ByteCount total_;          // that is not there
  CarryReport report_;
};

}  // namespace

Result<CarryReport> push(os::FileSystem& files, const inspect::ModelDirectory& model, const std::string& device,
                         share::Warehouse& warehouse, const CarryOptions& options) {
  if (model.distrust) {
    return invalid("an audit found the stored state to be wrong (" + *model.distrust +
                   "), so it is not published: see docs/audit.md");
  }
  return Push(files, model, warehouse, options).run(device);
}

Result<std::string> device_of(const inspect::ModelDirectory& model) {
  const std::vector<std::string> devices = model.note ? model.note->devices : std::vector<std::string>();
  const bool known = devices.size() == 1 && devices.front() != inspect::kUnknownDevice;
  if (known) return devices.front();
  std::string listed;
  for (const std::string& device : devices) listed += (listed.empty() ? " (" : "; ") + device;
  return invalid(devices.size() > 1 ? "state of several kinds of devices lies in " + model.path + listed + ")"
                                    : "nothing in " + model.path + " tells which kind of device computed it");
}

Result<std::string> weights_of(const inspect::ModelDirectory& model) {
  if (model.weights.hash) return model.weights.hash->hex();
  if (!model.weights.mark) return std::string();
  return invalid(model.path +
                 ": no server has read all of the model's file yet, which names the state for other machines: serve it "
                 "for a while longer");
}

}  // namespace kvkeep::carry
