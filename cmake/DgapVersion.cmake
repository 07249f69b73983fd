# The commit that a build was made from, for traces and bundles. "unknown" outside a checkout.
execute_process(COMMAND git rev-parse HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                OUTPUT_VARIABLE DGAP_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  set(DGAP_COMMIT unknown)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/version.cpp.in ${PROJECT_BINARY_DIR}/generated/version.cpp @ONLY)
