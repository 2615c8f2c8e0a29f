#include "share/object_engine.h"

namespace kvkeep::share {

std::string ObjectName::text() const { return space + '/' + id + '.' + static_cast<char>(kind); }

bool counts_for_breaker(ErrorKind kind) { return kind == ErrorKind::kIo || kind == ErrorKind::kDamaged; }

}  // namespace kvkeep::share
