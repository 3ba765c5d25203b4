# Finds the C++ Actor Framework as Debian packages it (no CMake config of its own).
# Components: core, io, openssl. Targets: CAF::core, CAF::io, CAF::openssl.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
set(required_variables CAF_INCLUDE_DIR)
foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY caf_${component})
  list(APPEND required_variables CAF_${component}_LIBRARY)
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS ${required_variables})

if(CAF_FOUND)
  find_package(Threads REQUIRED)
  foreach(component IN LISTS CAF_FIND_COMPONENTS)
    if(NOT TARGET CAF::${component})
      add_library(CAF::${component} UNKNOWN IMPORTED)
      set_target_properties(CAF::${component} PROPERTIES
        IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}")
      if(component STREQUAL "core")
        # An unregistered message type becomes a compile error.
        target_compile_definitions(CAF::core INTERFACE CAF_ENABLE_TYPE_ID_CHECKS)
        target_link_libraries(CAF::core INTERFACE Threads::Threads)
      else()
        target_link_libraries(CAF::${component} INTERFACE CAF::core)
      endif()
    endif()
  endforeach()
endif()
mark_as_advanced(CAF_INCLUDE_DIR)
