#pragma once

// A seam for tests of the tests: the fault loop must catch each of these mistakes. The server links mutations.cc, where
// all are off; a test program defines mutations() itself and switches them.

namespace kvkeep::store {

struct Mutations {
  bool ignore_checksum = false;               // payload bytes are served unverified
  bool checksum_without_name = false;         // sums do not depend on whose bytes they are
  bool checksum_without_fingerprint = false;  // nor on which model's
  bool short_reads_whole = false;             // a read that gave fewer bytes than asked is taken as whole
  bool keep_damaged = false;                  // a damaged file stays what is stored
  bool ignore_tokens = false;                 // the header's token ids are not compared
  bool count_after_write = false;             // the budget learns of bytes when they are already on disk
  bool trust_saved_index = false;             // entries are believed without looking at the directory
  bool release_before_sync = false;           // room of an unlinked file is given away before the unlink is durable
  bool names_without_kind = false;            // window rows lie where the rows of their run do
  bool sync_directory_first = false;          // the directory is synced before a new name is in it
  bool rename_over_before_sync = false;       // a file takes the place of a durable one before it is durable
  bool remove_before_write = false;           // a file leaves before the one that takes its place is written
  bool reopen_uncounted = false;              // what lies in a directory that was replaced is not counted
  bool trust_recovered_durability = false;    // put() of a file a former process wrote is ok without writing
  // Several servers:
  bool grant_before_scan = false;      // what a member says it used makes room before the files were looked at
  bool publish_before_write = false;   // a member says that it used what it is about to write
  bool never_publish = false;          // a member never says what it used
  bool keep_dead_leases = false;       // what a dead member might have written stays reserved
  bool sweep_living = false;           // temporary files of living servers are swept
  bool two_keepers = false;            // a server that finds the directory kept keeps it as well
  bool count_leases_late = false;      // a new keeper does not know of leases that its forerunner gave
  bool release_dead_early = false;     // the room of a dead member is given out before its removals are durable
  bool publish_before_settle = false;  // a member says what it used before its own removals are durable
  bool smaller_grant = false;          // of the known and the listed grant of a member the smaller one counts
  bool count_leftovers_twice = false;  // a file that could not be unlinked is counted by each look
  bool lockless_lives = false;         // an id without a lock is taken for a living server
  bool believe_totals = false;         // any total that a name tells counts as written today
};

const Mutations& mutations();

}  // namespace kvkeep::store
