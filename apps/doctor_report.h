#pragma once

// The report of `kvkeep doctor` as values, and how it looks: text for people, JSON for programs. Pure.

#include <optional>
#include <string>
#include <vector>

#include "bench/sessions/diagnosis.h"
#include "doctor.h"
#include "explain/misses.h"
#include "explain/offenders.h"

namespace kvkeep::cli {

// A part of the report: the cache directory, the causes that cost most, a server's settings, or a recording.
struct DoctorSection {
  std::string title;
  // The requests of a recording, in the order in which they were sent; a trace sums them up itself and has none.
  std::vector<bench::DiagnosedRequest> requests = {};

  // Recordings and traces have misses, other sections none.
  std::optional<explain::Misses> misses = {};

  // Shown even if there are none; a section without any value is about something else.
  std::optional<explain::Offenders> offenders = {};

  // Facts, and what to do about them.
  std::vector<Finding> findings = {};
};

// Returns true if a finding must be mended: the exit status tells it.
bool is_wrong(const std::vector<DoctorSection>& sections);

// Shows at most 200 requests and 10 offenders, and counts the other requests. Lines of at most 100 columns; text of
// clients is made printable.
std::string section_text(const DoctorSection& section);

// {"wrong": false, "sections": [...]}; docs/explain.md describes the fields. Shows every request, and of the offenders
// as many as /cache/offenders. Bytes that are not UTF-8 are replaced.
std::string sections_json(const std::vector<DoctorSection>& sections);

}  // namespace kvkeep::cli
