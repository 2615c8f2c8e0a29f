#pragma once

// A seam for tests of the tests, as store/mutations.h: the server links mutations.cc, where all are off; the test
// program defines mutations() itself and switches them.

namespace kvkeep::cache {

struct Mutations {
  bool evict_parent_first = false;   // what others hang below leaves the disk before them
  bool points_outlive_rows = false;  // rows leave the disk, what hangs in them stays
  bool evict_in_use = false;         // what somebody holds leaves the disk all the same
  bool write_child_first = false;    // a segment is written before what it hangs below
  bool name_by_begin = false;        // a segment is named by the hash of where it begins
  bool drop_before_written = false;  // rows leave RAM while they wait for the writer
  bool build_on_absent = false;      // a state is built on one that the disk does not have
  bool offer_dead = false;           // what was found damaged is offered again
  bool keep_old_budget = false;      // a budget made smaller holds only when something is stored
};

const Mutations& mutations();

}  // namespace kvkeep::cache
