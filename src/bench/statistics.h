#pragma once

#include <vector>

namespace kvkeep::bench {

struct Quartiles {
  double low = 0;
  double median = 0;
  double high = 0;
};

// Linear interpolation between the closest ranks. Precondition: `values` is not empty.
Quartiles quartiles_of(std::vector<double> values);

}  // namespace kvkeep::bench
