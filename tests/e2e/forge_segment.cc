// forge_segment FILE OTHER [FROM TO]: FILE gets what OTHER holds, or that part of it, in thousandths, under its own
// name and with sums that are right. forge_segment FILE: if it is of a tenant of LoRA scales, its tenant gets the form
// that former versions wrote, else the exit status is 1.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "testing/sim/forged_segment.h"

namespace {

int give_former_form(const char* path) {
  auto segment = kvkeep::sim::read_segment(path);
  if (!segment || !kvkeep::has_adapters(segment->header.tenant)) return 1;
  std::memcpy(segment->header.tenant.bytes.data(), "lora", 4);
  kvkeep::sim::write_segment(path, std::move(*segment));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2) return give_former_form(arguments[1]);
  if (count != 3 && count != 5) return 2;
  auto segment = kvkeep::sim::read_segment(arguments[1]);
  const auto other = kvkeep::sim::read_segment(arguments[2]);
  if (!segment || !other || segment->payload.size() != other->payload.size()) return 1;
  const auto place = [&](int argument, long otherwise) {
    const long thousandths = count == 5 ? std::atol(arguments[argument]) : otherwise;
    return static_cast<std::ptrdiff_t>(segment->payload.size()) * std::clamp(thousandths, 0L, 1000L) / 1000;
  };
  const std::ptrdiff_t from = place(3, 0);
  const std::ptrdiff_t to = std::max(from, place(4, 1000));
  std::copy(other->payload.begin() + from, other->payload.begin() + to, segment->payload.begin() + from);
  kvkeep::sim::write_segment(arguments[1], std::move(*segment));
  return 0;
}
