# The helpers that every room's CMakeLists.txt uses.

add_library(dynamix_options INTERFACE)
target_include_directories(dynamix_options INTERFACE ${CMAKE_SOURCE_DIR})
# Left out: what designated initialisers leave at their defaults, and GCC 12's false alarms on std::string (GCC bug 105651).
target_compile_options(dynamix_options INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers -Wno-restrict
  # A unity build puts sources into one file, in which an unnamed namespace of one of them is not a header's.
  -Wno-subobject-linkage)
if(DYNAMIX_WERROR)
  target_compile_options(dynamix_options INTERFACE -Werror)
endif()
if(DYNAMIX_SANITIZE)
  # CAF's headers bind references to null on purpose in a few places; the rest of undefined behaviour is checked.
  add_compile_options(-fsanitize=${DYNAMIX_SANITIZE} -fno-sanitize=null,vptr -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DYNAMIX_SANITIZE})
  # What sanitizers add to the headers of the standard library and of LibTorch, GCC takes for reads of what is not set.
  target_compile_options(dynamix_options INTERFACE -Wno-maybe-uninitialized)
endif()

# dynamix_room(<name> SOURCES <file>... [DEPENDS <library>...] [PRIVATE <library>...])
# A room is one static library, dynamix::<name>.
function(dynamix_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS;PRIVATE" ${ARGN})
  add_library(dynamix_${name} STATIC ${ROOM_SOURCES})
  add_library(dynamix::${name} ALIAS dynamix_${name})
  target_link_libraries(dynamix_${name} PUBLIC dynamix_options ${ROOM_DEPENDS} PRIVATE ${ROOM_PRIVATE})
endfunction()

# dynamix_use_torch(<target>): compiles <target> against Torch with the shared precompiled header.
if(DYNAMIX_TRAINER)
  add_library(dynamix_torch_header OBJECT ${CMAKE_SOURCE_DIR}/cmake/torch_header.cpp)
  target_link_libraries(dynamix_torch_header PRIVATE dynamix_options dynamix::torch)
  target_precompile_headers(dynamix_torch_header PRIVATE <torch/torch.h>)
endif()
function(dynamix_use_torch target)
  target_link_libraries(${target} PRIVATE dynamix::torch)
  target_precompile_headers(${target} REUSE_FROM dynamix_torch_header)
endfunction()

# The header that most test programs share, compiled once.
# Compiling a test at -O2 takes a quarter longer than at -O1, and a test's own code has nothing to gain from it. GCC
# 12's false alarms at that level are left out.
set(DYNAMIX_TEST_OPTIONS "$<$<CONFIG:Release>:-O1;-Wno-array-bounds;-Wno-maybe-uninitialized;-Wno-stringop-overread>")
if(DYNAMIX_TESTS)
  add_library(dynamix_test_header OBJECT ${CMAKE_SOURCE_DIR}/cmake/test_header.cpp)
  target_link_libraries(dynamix_test_header PRIVATE dynamix_options GTest::gtest GTest::gmock)
  target_compile_options(dynamix_test_header PRIVATE ${DYNAMIX_TEST_OPTIONS})
  target_precompile_headers(dynamix_test_header PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

# dynamix_test(<name> SOURCES <file>... DEPENDS <library>... [TORCH] [OWN_HEADER] [SEPARATE] [LABELS <label>...] [TIMEOUT <seconds>])
# One test program a subject, registered with CTest as <name>. OWN_HEADER: the caller names a precompiled header and wants
# the speed of -O2. SEPARATE: its files use the same names for different helpers, so they are never one unity source.
function(dynamix_test name)
  cmake_parse_arguments(TEST "TORCH;OWN_HEADER;SEPARATE" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE dynamix_options ${TEST_DEPENDS} GTest::gtest_main GTest::gmock)
  if(TEST_TORCH)
    dynamix_use_torch(${name})
  elseif(NOT TEST_OWN_HEADER)
    target_compile_options(${name} PRIVATE ${DYNAMIX_TEST_OPTIONS})
    target_precompile_headers(${name} REUSE_FROM dynamix_test_header)
  endif()
  if(TEST_SEPARATE)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  # Under AddressSanitizer memory that there is not is an answer, as elsewhere, what is freed counts as free soon, and an
  # injected crash is one.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}"
    ENVIRONMENT "OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1;ASAN_OPTIONS=allocator_may_return_null=1:handle_segv=0:quarantine_size_mb=8;TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tools/thread-sanitizer.txt")
endfunction()
