# kvkeep_builtin_workloads(<target>): adds bench/workloads/*.txt to the target, as the source that src/bench/builtin_texts.h
# declares. A file that is new, gone or changed makes CMake run again.
function(kvkeep_builtin_workloads target)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/workloads/*.txt)
  if(NOT files)
    message(FATAL_ERROR "bench/workloads has no *.txt")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(texts "")
  foreach(file IN LISTS files)
    cmake_path(GET file STEM LAST_ONLY name)
    file(READ ${file} text)
    string(APPEND texts "    {\"${name}\", R\"workload(${text})workload\"},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/generated/builtin_texts.cc)
  # Written only if it differs, so that configuring again compiles nothing.
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// Made from bench/workloads/*.txt by cmake/BuiltinWorkloads.cmake.
#include "bench/builtin_texts.h"

namespace kvkeep::bench {
namespace {

constexpr BuiltinText kTexts[] = {
@texts@};

}  // namespace

std::span<const BuiltinText> builtin_texts() { return kTexts; }

}  // namespace kvkeep::bench
]])
  target_sources(${target} PRIVATE ${source})
endfunction()
