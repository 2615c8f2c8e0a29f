# One CMake target per room, so that an upward include does not link. ARCHITECTURE.md draws the picture.
add_library(kvkeep_flags INTERFACE)
target_include_directories(kvkeep_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(kvkeep_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion
                                              -Wnon-virtual-dtor -Woverloaded-virtual -Wunused-result)
target_compile_definitions(kvkeep_flags INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
# In a unit of several files clang would warn of locals named like something in another file. The preset clang has no units.
if(NOT (KVKEEP_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang"))
  target_compile_options(kvkeep_flags INTERFACE -Wshadow)
endif()
if(KVKEEP_WERROR)
  target_compile_options(kvkeep_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(kvkeep_flags INTERFACE -Wthread-safety)
endif()
if(KVKEEP_SANITIZE)
  # Undefined behaviour would only be printed, and its test would pass.
  target_compile_options(kvkeep_flags INTERFACE -fsanitize=${KVKEEP_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer -g1)
  target_compile_definitions(kvkeep_flags INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(kvkeep_flags INTERFACE -fsanitize=${KVKEEP_SANITIZE})
endif()
target_link_libraries(kvkeep_flags INTERFACE Threads::Threads)

# Compiles the sources of a target as a few large units: most of the time goes into headers, which each unit reads once.
# Units of KVKEEP_UNITY_FILES files keep two processors busy and a change of one line short. A few files too many join the
# other units: a unit of their own would read the headers again.
set(KVKEEP_UNITY_FILES 16)
set(KVKEEP_UNITY_FEW 4)
function(kvkeep_unity target)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  set(files ${KVKEEP_UNITY_FILES})
  math(EXPR units "${count} / ${files}")
  math(EXPR rest "${count} % ${files}")
  if(units GREATER 0 AND rest LESS_EQUAL KVKEEP_UNITY_FEW)
    math(EXPR files "(${count} + ${units} - 1) / ${units}")
  endif()
  if(KVKEEP_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It warns of types of anonymous namespaces where a unit includes the file that defines them.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KVKEEP_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# For code outside of loops over tokens and bytes: what -O3 adds to -O2 is a tenth of the time to compile it.
function(kvkeep_seldom target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
endfunction()

# Rooms whose test files are still compiled one by one: helpers of several files have the same name.
set(KVKEEP_TESTS_APART store)

# kvkeep_room(<name> DIR <dir below this one> [HOT] [FOLDERS <folder in DIR>...] [DEPS <room or library>...]): the room's
# library from every .cc in DIR and its FOLDERS that is not a test or benchmark, one test program from its *_test.cc, one
# benchmark program from its *_bench.cc.
# HOT: its code has loops over tokens, bytes or names. TEST_SHARDS: see kvkeep_test.
function(kvkeep_room name)
  cmake_parse_arguments(ROOM "HOT" "DIR;TEST_SHARDS" "FOLDERS;DEPS;TEST_DEPS" ${ARGN})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/${ROOM_DIR})
  set(places ${dir}/*.cc)
  foreach(folder ${ROOM_FOLDERS})
    list(APPEND places ${dir}/${folder}/*.cc)
  endforeach()
  file(GLOB all CONFIGURE_DEPENDS ${places})
  set(sources ${all})
  list(FILTER sources EXCLUDE REGEX "_(test|bench)\\.cc$")
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  if(sources)
    add_library(room_${name} STATIC ${sources})
    kvkeep_unity(room_${name})
    if(NOT ROOM_HOT)
      kvkeep_seldom(room_${name})
    endif()
    target_link_libraries(room_${name} PUBLIC kvkeep_flags ${ROOM_DEPS})
  else()
    add_library(room_${name} INTERFACE)
    target_link_libraries(room_${name} INTERFACE kvkeep_flags ${ROOM_DEPS})
  endif()
  # Includes of rooms beside src/ begin with the folder they lie in.
  if(sources AND NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL ${CMAKE_SOURCE_DIR}/src)
    target_include_directories(room_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  endif()
  if(KVKEEP_BUILD_TESTS AND tests)
    kvkeep_test(${name}_test SOURCES ${tests} DEPS room_${name} ${ROOM_TEST_DEPS} SHARDS ${ROOM_TEST_SHARDS})
  endif()
  if(KVKEEP_BUILD_BENCH AND benches)
    kvkeep_bench(${name}_bench SOURCES ${benches} DEPS room_${name} ${ROOM_TEST_DEPS})
  endif()
endfunction()

# kvkeep_bench(<name> SOURCES ... DEPS ...): a program on Google Benchmark. Tests do not run it, so that only the target
# `benchmarks` builds it.
if(KVKEEP_BUILD_BENCH)
  add_custom_target(benchmarks)
endif()
function(kvkeep_bench name)
  cmake_parse_arguments(BENCH "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${BENCH_SOURCES})
  target_link_libraries(${name} PRIVATE ${BENCH_DEPS} benchmark::benchmark_main)
  add_dependencies(benchmarks ${name})
endfunction()

# kvkeep_test(<name> SOURCES ... [DEPS ...] [LABEL everyday|slow|long] [SHARDS n]): a GoogleTest program, one ctest entry,
# or one for each n-th of its tests, so that none comes near its time limit where processors are slow or shared.
function(kvkeep_test name)
  cmake_parse_arguments(TEST "" "LABEL;TIMEOUT;SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT TEST_LABEL)
    set(TEST_LABEL everyday)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 900)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  string(REGEX REPLACE "_test$" "" room ${name})
  if(NOT room IN_LIST KVKEEP_TESTS_APART)
    kvkeep_unity(${name})
    # A test file is compiled more often than it runs. Without any optimisation its copies of inline functions, which the
    # linker prefers to those of the room, would slow down the loops over thousands of faults.
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endif()
  target_link_libraries(${name} PRIVATE kvkeep_flags ${TEST_DEPS} GTest::gmock GTest::gtest_main rapidcheck)
  if(NOT TEST_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
    return()
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    set(part ${name}_${shard})
    # Folders of their own: tests of two shards that run at once may write files of one name.
    set(directory ${CMAKE_BINARY_DIR}/tmp/${part})
    file(MAKE_DIRECTORY ${directory})
    set(environment GTEST_TOTAL_SHARDS=${TEST_SHARDS} GTEST_SHARD_INDEX=${index} TMPDIR=${directory}
                    TEST_TMPDIR=${directory}/)
    add_test(NAME ${part} COMMAND ${name})
    set_tests_properties(${part} PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT} ENVIRONMENT "${environment}")
  endforeach()
endfunction()
