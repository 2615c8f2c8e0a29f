#pragma once

// The store's work while the fault loop breaks its disk.

#include <functional>
#include <vector>

#include "store/store_scenario_fixture.h"

namespace kvkeep::store {

inline void nothing(StoreScenario&) {}

inline void open_with_two(StoreScenario& world) {
  world.open();
  world.put(0);
  world.put(1);
}

inline const std::vector<Script>& scripts() {
  static const std::vector<Script> all = {
      {"first store", nothing,
       [](StoreScenario& world) {
         world.open();
         world.put(0);
         world.put(1);
       }},
      {"continue", [](StoreScenario& world) { open_with_two(world), world.restart(); },
       [](StoreScenario& world) {
         world.get(0);
         world.put(2);
         world.put(3);
         world.save_index();
         world.get(2);
       }},
      {"evict",
       [](StoreScenario& world) {
         open_with_two(world);
         world.put(2);
         world.put(3);
       },
       [](StoreScenario& world) {
         world.put_with_room(4);
         world.put_with_room(5);
         world.get(5);
       }},
      {"hit", open_with_two,
       [](StoreScenario& world) {
         world.get(0);
         world.touch(0);
         world.get(1);
         world.save_index();
         world.touch(1);
         world.get(0);
       }},
      {"restart",
       [](StoreScenario& world) {
         open_with_two(world);
         world.save_index();
         world.put(2);
         world.remove(1);
       },
       [](StoreScenario& world) {
         world.restart();
         world.get(0);
         world.put(1);
         world.save_index();
         world.restart();
         world.get(2);
       }},
      {"store again after a restart", [](StoreScenario& world) { open_with_two(world), world.restart(); },
       [](StoreScenario& world) {
         world.put(0);
         world.get(0);
         world.put(1);
         world.put(1);
         world.put(0);
       }},
      {"damage",
       [](StoreScenario& world) {
         open_with_two(world);
         world.save_index();
         world.flip_payload_byte(0);
         world.plant_spliced(1);
         world.plant_other_tokens();
         world.restart();
       },
       [](StoreScenario& world) {
         for (const int number : {0, kSpliced, kOtherTokens}) world.get(number);
         world.put(0);
         world.get(0);
         world.put_with_room(2);
       }},
      {"the directory is removed under it",
       [](StoreScenario& world) {
         open_with_two(world);
         world.put(2);
         world.flip_payload_byte(2);
         world.get(2);
       },
       [](StoreScenario& world) {
         world.remove_directory(kRoot);
         world.put(3);
         world.put(0);
         world.get(0);
         world.save_index();
         world.put_with_room(5);
       }},
      {"its own part is removed under it", open_with_two,
       [](StoreScenario& world) {
         world.get(0);
         world.remove_directory(make_layout(kRoot, kModel).own);
         world.get(1);
         world.put(2);
         world.put(1);
         world.get(1);
         world.put_with_room(5);
       }},
      // Files of this version next to files and an index of a later one, as an upgrade and a return leave them.
      {"other versions and models",
       [](StoreScenario& world) {
         open_with_two(world);
         world.save_index();
         world.plant_future_version(1);
         world.plant_future_version(3);
         world.plant_other_model();
         world.make_index_of_future_version();
       },
       [](StoreScenario& world) {
         world.restart();
         for (const int number : {1, 3}) world.check_left_for_later(number);
         for (const int number : {0, 1, 3, kOtherModel}) world.get(number);
         world.put(1);
         world.get(1);
         world.save_index();
         world.restart();
         world.get(1);
       }},
  };
  return all;
}

inline sim::FaultLoopResult run_script(const Script& script, const sim::FaultLoopOptions& options) {
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<StoreScenario>(script, files, fault);
  });
}

}  // namespace kvkeep::store
