#pragma once

// An engine in memory and virtual time, for tests of the room: several nodes that lose, delay, truncate, flip, swap and
// evict, as a test says or a seed decides. One of its kind serves several stores: they are servers that share it.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "share/object_engine.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::share {

struct FrailObject {
  std::vector<std::byte> head;
  std::vector<std::vector<std::byte>> pieces;
};

// The state that all clients of one engine see.
struct FrailWorld {
  enum class Node { kWell, kHung, kRefusing, kLoading };
  explicit FrailWorld(sim::SimClock& its_clock, std::size_t count = 3) : clock(its_clock), nodes(count, Node::kWell) {}

  sim::SimClock& clock;
  std::map<ObjectName, FrailObject> objects;
  std::vector<std::pair<ObjectName, FrailObject>> late;
  std::vector<Node> nodes;
  double answer_ms = 0.3;
  double most_deadline_ms = 50;  // of a look-up
  // A call's time passes for everybody, unless a test says that others go on meanwhile.
  std::function<void(std::int64_t)> pass_ns = [this](std::int64_t ns) { clock.advance_ns(ns); };
  bool full = false;        // puts are refused
  bool refuses_us = false;  // wrong password
  std::size_t cut_put_at =
      0;  // the n-th part of the next put, pieces and then the head, and all after it are lost; 0: none
  bool reads_hang = false;                  // answers heads and probes, and hangs at payloads
  std::size_t hang_after_bytes = SIZE_MAX;  // of each payload: the connection is cut in its middle
  std::int64_t read_silence_ns = 0;         // that the last get() was allowed
  bool puts_hang = false;
  std::function<void()> before_call = [] {};  // of heads, get, put and touch: what happens in the middle of an action
  // Puts fail and are done later, by land(), in any order: their answers were lost, or the network held them up.
  bool puts_land_late = false;
  std::size_t names_in_time = SIZE_MAX;  // of one call: the answers for further ones are late
  bool more_names_take_longer = false;   // one more round trip for as many more as an engine's pace says
  std::map<ObjectName, int> touches;
  std::map<ObjectName, std::uint64_t> touched_bytes;  // of the payload, as the last touch has it
  std::optional<Error> touch_trouble = {};            // of each touch
  std::vector<NodeId> hung_up = {};
  std::uint64_t calls = 0;
  std::uint64_t gets = 0;
  std::size_t head_bytes_asked = 0;  // of a name, at most
  std::size_t call_bytes_asked = 0;  // of all names of a call, at most
  std::size_t call_names_asked = 0;  // likewise
  std::uint64_t puts = 0;
  std::uint64_t probes = 0;

  // Changes chosen by a seed, as any owner of an engine, or its disk, could make them.
  void harm(std::mt19937_64& random) {
    if (objects.empty()) return;
    const auto pick = [&] {
      return std::next(objects.begin(), static_cast<std::ptrdiff_t>(random() % objects.size()));
    };
    const auto victim = pick();
    FrailObject& object = victim->second;
    switch (random() % 9) {
      case 0:  // evicted as a whole
        objects.erase(victim);
        break;
      case 1:
        if (!object.pieces.empty()) object.pieces[random() % object.pieces.size()].clear();
        break;
      case 2: flip(object.head, random); break;
      case 3:
        if (!object.pieces.empty()) flip(object.pieces[random() % object.pieces.size()], random);
        break;
      case 4: truncate(object.head, random); break;
      case 5: std::swap(object, pick()->second); break;
      case 6: std::swap(object.pieces, pick()->second.pieces); break;
      case 7:
        if (!object.pieces.empty()) truncate(object.pieces[random() % object.pieces.size()], random);
        break;
      default: std::swap(object.head, pick()->second.head);
    }
  }
  // One of the late puts is done, over what came after it as well.
  void land(std::mt19937_64& random) {
    if (late.empty()) return;
    const auto landing = std::next(late.begin(), static_cast<std::ptrdiff_t>(random() % late.size()));
    objects[landing->first] = std::move(landing->second);
    late.erase(landing);
  }
  static void truncate(std::vector<std::byte>& bytes, std::mt19937_64& random) {
    if (!bytes.empty()) bytes.resize(random() % bytes.size());
  }
  static void flip(std::vector<std::byte>& bytes, std::mt19937_64& random) {
    if (!bytes.empty()) bytes[random() % bytes.size()] ^= std::byte{1} << (random() % 8);
  }
};

// Not thread safe.
class FrailEngine final : public ObjectEngine {
 public:
  explicit FrailEngine(FrailWorld& world, std::size_t heads_at_once = 512)
      : world_(world), heads_at_once_(heads_at_once) {}

  std::string address() const override { return "frail://engine"; }
  Pace pace() const override {
    return {.least_deadline_ms = 5, .most_deadline_ms = world_.most_deadline_ms, .heads_at_once = heads_at_once_};
  }
  NodeId node_of(const ObjectName& name) const override {
    return NodeId{static_cast<std::uint32_t>(std::stoul(std::string(name.id.text().substr(0, 4)), nullptr, 16) %
                                             world_.nodes.size())};
  }
  std::size_t nodes() const override { return world_.nodes.size(); }
  std::string node_address(NodeId node) const override { return "frail" + std::to_string(node.value()); }

  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                               std::int64_t deadline_ns) override {
    ++world_.calls;
    world_.before_call();
    world_.head_bytes_asked = std::max(world_.head_bytes_asked, first_bytes);
    world_.call_bytes_asked = std::max(world_.call_bytes_asked, names.size() * first_bytes);
    world_.call_names_asked = std::max(world_.call_names_asked, names.size());
    // Nodes work side by side: the call takes as long as the slowest.
    const std::int64_t from_ns = world_.clock.monotonic_ns();
    std::int64_t longest_ns = 0;
    std::map<NodeId, std::size_t> asked;
    for (const ObjectName& name : names) ++asked[node_of(name)];
    std::map<NodeId, Status> well;
    for (const auto& [node, count] : asked) {
      const std::size_t rounds = world_.more_names_take_longer ? (count + heads_at_once_ - 1) / heads_at_once_ : 1;
      const auto [status, ns] = visit_alone(node, deadline_ns - from_ns, false, rounds);
      longest_ns = std::max(longest_ns, ns);
      well.emplace(node, status);
    }
    const bool late = names.size() > world_.names_in_time;
    world_.pass_ns(late ? deadline_ns - from_ns : longest_ns);
    std::vector<HeadBytes> answers;
    for (const ObjectName& name : names) {
      const Status& status = well.at(node_of(name));
      if (answers.size() >= world_.names_in_time) {
        answers.push_back(io_error("no answer in time"));
        continue;
      }
      answers.push_back(status.ok() ? head(name, first_bytes) : HeadBytes(status.error()));
    }
    return answers;
  }
  Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits& limits) override {
    ++world_.calls;
    ++world_.gets;
    world_.read_silence_ns = limits.silence_ns;
    world_.before_call();
    TRY(visit(node_of(name), wait_until(limits), world_.reads_hang));
    const auto found = world_.objects.find(name);
    if (found == world_.objects.end()) return not_found("no such object");
    std::vector<std::byte> all;
    for (const auto& piece : found->second.pieces) {
      if (piece.empty()) return not_found("a piece is gone");
      all.insert(all.end(), piece.begin(), piece.end());
    }
    if (all.size() < slice.begin + out.size()) return not_found("the payload is shorter");
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(slice.begin), out.size(), out.begin());
    for (std::size_t at = 0; at < std::min(out.size(), world_.hang_after_bytes); at += 1000) arrived(at);
    if (out.size() > world_.hang_after_bytes) return visit(node_of(name), wait_until(limits), true);
    arrived(out.size());
    return {};
  }
  Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t,
             const TransferLimits& limits) override {
    ++world_.calls;
    world_.before_call();
    TRY(visit(node_of(name), wait_until(limits), world_.puts_hang));
    if (world_.full) return no_space("used memory > 'maxmemory'");
    ++world_.puts;
    FrailObject& object =
        world_.puts_land_late ? world_.late.emplace_back(name, FrailObject{}).second : world_.objects[name];
    object.pieces.clear();
    std::size_t parts = 0;
    const auto is_lost = [&] { return world_.cut_put_at != 0 && ++parts >= world_.cut_put_at; };
    for (std::size_t at = 0; at < payload.size(); at += kFrailPieceBytes) {
      const ByteSpan piece = payload.subspan(at, std::min(kFrailPieceBytes, payload.size() - at));
      if (is_lost()) return cut();
      object.pieces.emplace_back(piece.begin(), piece.end());
    }
    if (is_lost()) return cut();
    object.head.assign(head.begin(), head.end());
    return world_.puts_land_late ? Status(io_error("no answer in time")) : Status{};
  }
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t,
                                        std::int64_t deadline_ns) override {
    ++world_.calls;
    world_.before_call();
    std::vector<ObjectName> broken;
    if (world_.touch_trouble) return *world_.touch_trouble;
    for (const Touched& object : objects) {
      TRY(visit(node_of(object.name), deadline_ns));
      ++world_.touches[object.name];
      world_.touched_bytes[object.name] = object.payload_bytes;
      const auto found = world_.objects.find(object.name);
      if (found == world_.objects.end() || found->second.head.empty()) continue;
      const auto is_gone = [](const auto& piece) { return piece.empty(); };
      if (std::ranges::any_of(found->second.pieces, is_gone)) broken.push_back(object.name);
    }
    return broken;
  }
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override {
    TRY(visit(node_of(name), deadline_ns));
    world_.objects.erase(name);
    return {};
  }
  // Pages of a few names. Each page asks every node.
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override {
    ++world_.calls;
    for (std::uint32_t node = 0; node < world_.nodes.size(); ++node) TRY(visit(NodeId{node}, deadline_ns));
    NamesPage page;
    for (const auto& [name, object] : world_.objects) {
      if (object.head.empty() || name.text() <= from || (!space.empty() && name.space != space)) continue;
      if (page.names.size() == kFrailPageNames) {
        page.next = page.names.back().text();
        break;
      }
      page.names.push_back(name);
    }
    return page;
  }
  std::vector<NodeId> hung_up() override { return std::exchange(world_.hung_up, {}); }
  Status probe(NodeId node, std::int64_t deadline_ns) override {
    ++world_.probes;
    return visit(node, deadline_ns);
  }
  Result<EngineFacts> facts(std::int64_t) override { return EngineFacts{.description = "frail"}; }

 private:
  static constexpr std::size_t kFrailPieceBytes = 700;
  static constexpr std::size_t kFrailPageNames = 5;

  std::int64_t wait_until(const TransferLimits& limits) const { return limits.wait_until(world_.clock.monotonic_ns()); }
  Status cut() {
    world_.cut_put_at = 0;
    return io_error("the connection was cut");
  }
  Status visit(NodeId node, std::int64_t deadline_ns, bool hangs = false) {
    const auto [status, ns] = visit_alone(node, deadline_ns - world_.clock.monotonic_ns(), hangs);
    world_.pass_ns(ns);
    return status;
  }
  // Returns the outcome of a call at the node and how long it takes, at most `left_ns`.
  std::pair<Status, std::int64_t> visit_alone(NodeId node, std::int64_t left_ns, bool hangs = false,
                                              std::size_t rounds = 1) const {
    const FrailWorld::Node state = world_.nodes[node.value()];
    const auto needed_ns = static_cast<std::int64_t>(world_.answer_ms * 1e6 * static_cast<double>(rounds));
    if (state == FrailWorld::Node::kRefusing) return {io_error("connection refused"), 0};
    if (state == FrailWorld::Node::kHung || hangs || left_ns < needed_ns) {
      return {io_error("no answer in time"), std::max<std::int64_t>(left_ns, 0)};
    }
    if (state == FrailWorld::Node::kLoading) return {busy("LOADING"), needed_ns};
    if (world_.refuses_us) return {invalid("WRONGPASS"), needed_ns};
    return {Status{}, needed_ns};
  }
  HeadBytes head(const ObjectName& name, std::size_t first_bytes) const {
    const auto found = world_.objects.find(name);
    if (found == world_.objects.end() || found->second.head.empty()) return not_found("no such object");
    const auto& bytes = found->second.head;
    return std::vector<std::byte>(bytes.begin(),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(std::min(first_bytes, bytes.size())));
  }

  FrailWorld& world_;
  const std::size_t heads_at_once_;
};

}  // namespace kvkeep::share
