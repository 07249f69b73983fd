# One way to declare a target: the same standard, warnings, include root and numeric rules everywhere.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

function(dgap_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Sums are written in one fixed order of lanes; contraction would make results depend on the
  # instruction set (see base/multiversion.hpp).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                                           -ffp-contract=off -fno-math-errno
                                           -fno-trapping-math)  # exception flags are never read: selects vectorise
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false alarms on std::string +, GCC bug 105651
  endif()
  if(DGAP_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(DGAP_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${DGAP_SANITIZE} -fno-omit-frame-pointer
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${DGAP_SANITIZE})
    target_compile_definitions(${target} PRIVATE DGAP_NO_MULTIVERSION=1)  # ifuncs run before a sanitizer's start
  endif()
endfunction()

# dgap_library(name SOURCES ... [DEPENDS ...] [PRIVATE_DEPENDS ...]): static library dgap_<name>, alias dgap::<name>
function(dgap_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(dgap_${name} STATIC ${ARG_SOURCES})
  add_library(dgap::${name} ALIAS dgap_${name})
  target_include_directories(dgap_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(dgap_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  dgap_compile_options(dgap_${name})
endfunction()

# dgap_test(name SOURCES ... [DEPENDS ...] [LABELS ...]): GoogleTest program, registered test by test
function(dgap_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(test_${name} ${ARG_SOURCES})
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(test_${name} PRIVATE ${ARG_DEPENDS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(test_${name} PRIVATE DGAP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  dgap_compile_options(test_${name})
  include(GoogleTest)
  gtest_discover_tests(test_${name} DISCOVERY_MODE PRE_TEST PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
endfunction()
