# kvkeep_builtin_workloads(<target>): adds bench/workloads/*.txt to the target, as the source that bench/workloads/workload.h
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
// Made from bench/workloads/*.txt by cmake/BuiltinTexts.cmake.
#include "bench/workloads/workload.h"

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

# kvkeep_builtin_page(<target>): adds bench/report/page.html to the target, as the source that bench/report/json.cc
# declares.
function(kvkeep_builtin_page target)
  set(file ${CMAKE_SOURCE_DIR}/bench/report/page.html)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  set(source ${CMAKE_BINARY_DIR}/generated/page_text.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// Made from bench/report/page.html by cmake/BuiltinTexts.cmake.
#include <string_view>

namespace kvkeep::bench {

std::string_view page_text() { return R"page(@text@)page"; }

}  // namespace kvkeep::bench
]])
  target_sources(${target} PRIVATE ${source})
endfunction()

# kvkeep_builtin_web(<target>): adds the files of web/dist to the target, as the source that src/server/web/page.h declares.
function(kvkeep_builtin_web target)
  set(entries "")
  foreach(entry "index.html|/|text/html; charset=utf-8" "page.js|/web/page.js|text/javascript; charset=utf-8"
                "page.css|/web/page.css|text/css; charset=utf-8")
    string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" matched "${entry}")
    set(file ${CMAKE_SOURCE_DIR}/web/dist/${CMAKE_MATCH_1})
    set(path ${CMAKE_MATCH_2})
    set(type "${CMAKE_MATCH_3}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    string(APPEND entries "    {\"${path}\", \"${type}\", R\"page(${text})page\"},\n")
  endforeach()
  set(source ${CMAKE_BINARY_DIR}/generated/web_files.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
// Made from web/dist by cmake/BuiltinTexts.cmake.
#include "server/web/page.h"

namespace kvkeep::server {
namespace {

constexpr PageFile kFiles[] = {
@entries@};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

}  // namespace kvkeep::server
]])
  target_sources(${target} PRIVATE ${source})
endfunction()
