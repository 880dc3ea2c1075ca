# The library, its headers with the generated ones, and the files for find_package(accelerd).
include(CMakePackageConfigHelpers)
set(ACCELERD_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/accelerd")

install(TARGETS accelerd EXPORT accelerd-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/accelerd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY "${ACCELERD_GENERATED_DIR}/accelerd" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.pb.h")
install(EXPORT accelerd-targets NAMESPACE accelerd:: DESTINATION ${ACCELERD_CMAKE_DIR})
configure_package_config_file(cmake/accelerd-config.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/accelerd-config.cmake"
  INSTALL_DESTINATION ${ACCELERD_CMAKE_DIR})
# Versions before 1.0 are compatible with none but themselves.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/accelerd-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/accelerd-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/accelerd-config-version.cmake"
  cmake/dependencies.cmake
  DESTINATION ${ACCELERD_CMAKE_DIR})
