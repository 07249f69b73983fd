# CUDA is used where it is found. The backend itself is not part of this version: the seam is
# engine/backend/, and `device: cuda` answers with what is missing.
if(DGAP_ENABLE_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  message(STATUS "dgap: CUDA compiler found (${CMAKE_CUDA_COMPILER})")
  set(DGAP_HAVE_CUDA ON)
else()
  message(STATUS "dgap: CUDA backend off (no CUDA compiler found or DGAP_ENABLE_CUDA=OFF)")
  set(DGAP_HAVE_CUDA OFF)
endif()
