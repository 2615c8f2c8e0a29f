#include "server/run/job.h"

namespace kvkeep::server {

std::string_view to_string(CacheSource source) {
  switch (source) {
    case CacheSource::kNone: return "none";
    case CacheSource::kMemoryToken: return "memory-token";
    case CacheSource::kRamToken: return "ram-token";
    case CacheSource::kDiskToken: return "disk-token";
    case CacheSource::kSharedToken: return "shared-token";
    case CacheSource::kMemoryText: return "memory-text";
    case CacheSource::kRamText: return "ram-text";
    case CacheSource::kDiskText: return "disk-text";
    case CacheSource::kSharedText: return "shared-text";
  }
  return "none";
}

CacheSource source_of(policy::CacheTier tier) {
  switch (tier) {
    case policy::CacheTier::kRam: return CacheSource::kRamToken;
    case policy::CacheTier::kDisk: return CacheSource::kDiskToken;
    case policy::CacheTier::kShared: return CacheSource::kSharedToken;
  }
  return CacheSource::kNone;
}

CacheSource as_text(CacheSource source) {
  switch (source) {
    case CacheSource::kMemoryToken: return CacheSource::kMemoryText;
    case CacheSource::kRamToken: return CacheSource::kRamText;
    case CacheSource::kDiskToken: return CacheSource::kDiskText;
    case CacheSource::kSharedToken: return CacheSource::kSharedText;
    default: return source;
  }
}

std::string_view to_string(CachePoint point) {
  switch (point) {
    case CachePoint::kNone: return "none";
    case CachePoint::kRam: return "ram";
    case CachePoint::kDisk: return "disk";
    case CachePoint::kShared: return "shared";
  }
  return "none";
}

CachePoint point_of(policy::CacheTier tier) {
  switch (tier) {
    case policy::CacheTier::kRam: return CachePoint::kRam;
    case policy::CacheTier::kDisk: return CachePoint::kDisk;
    case policy::CacheTier::kShared: return CachePoint::kShared;
  }
  return CachePoint::kNone;
}

std::string_view to_string(MissReason reason) {
  switch (reason) {
    case MissReason::kWholePrompt: return "whole-prompt";
    case MissReason::kNewTokens: return "new-tokens";
    case MissReason::kNothingCached: return "nothing-cached";
    case MissReason::kCacheOff: return "cache-off";
    case MissReason::kPromptScored: return "prompt-scored";
    case MissReason::kNoPoint: return "no-point";
    case MissReason::kNotCacheable: return "memory-class";
    case MissReason::kLoadFailed: return "load-failed";
    case MissReason::kLoadTooSlow: return "load-too-slow";
    case MissReason::kNoCells: return "no-cells";
  }
  return "new-tokens";
}

void JobStats::count_memory(std::size_t tokens, CachePoint restored_point) {
  memory_tokens = tokens;
  ram_tokens = disk_tokens = shared_tokens = 0;
  source = tokens > 0 ? CacheSource::kMemoryToken : CacheSource::kNone;
  point = restored_point;
}

std::size_t& JobStats::tokens_in(policy::CacheTier tier) {
  switch (tier) {
    case policy::CacheTier::kRam: break;
    case policy::CacheTier::kDisk: return disk_tokens;
    case policy::CacheTier::kShared: return shared_tokens;
  }
  return ram_tokens;
}

std::string_view to_string(Finish how) {
  switch (how) {
    case Finish::kStop: return "stop";
    case Finish::kLength: return "length";
    case Finish::kGone: return "client-left";
    case Finish::kError: return "error";
  }
  return "error";
}

}  // namespace kvkeep::server
