# Libraries, headers, find_package(dgap) and pkg-config, as the component "runtime".
include(CMakePackageConfigHelpers)

install(TARGETS dgap_runtime dgap_runtime_static EXPORT dgap
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT runtime
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(DIRECTORY include/dgap DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT runtime)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dgap)
install(EXPORT dgap NAMESPACE dgap:: FILE dgapConfig.cmake DESTINATION ${package_dir} COMPONENT runtime)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dgapConfigVersion.cmake
                                 VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dgapConfigVersion.cmake DESTINATION ${package_dir} COMPONENT runtime)

# Relative to where the file lies, so that an installed tree can be moved.
file(RELATIVE_PATH DGAP_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/dgap.pc.in ${CMAKE_CURRENT_BINARY_DIR}/dgap.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dgap.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT runtime)
