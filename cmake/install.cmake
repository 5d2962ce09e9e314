# The CMake package `unbroken`: one target, unbroken::unbroken, from this build tree (-Dunbroken_DIR=build), after
# `cmake --install`, and under add_subdirectory. Users see include/unbroken only; modules are link-time business.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Names of a module and of everything below it.
function(unbroken_closure out name)
  set(all ${name})
  get_property(below GLOBAL PROPERTY UNBROKEN_DEPENDS_${name})
  foreach(dependency ${below})
    unbroken_closure(inner ${dependency})
    list(APPEND all ${inner})
  endforeach()
  list(REMOVE_DUPLICATES all)
  set(${out} ${all} PARENT_SCOPE)
endfunction()

add_library(unbroken_api INTERFACE)
add_library(unbroken::unbroken ALIAS unbroken_api)
set_target_properties(unbroken_api PROPERTIES EXPORT_NAME unbroken)
target_include_directories(unbroken_api INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
target_compile_features(unbroken_api INTERFACE cxx_std_20)
target_link_libraries(unbroken_api INTERFACE $<LINK_ONLY:unbroken_session>)

unbroken_closure(unbroken_exported session)
list(TRANSFORM unbroken_exported PREPEND "unbroken_")
install(TARGETS unbroken_api ${unbroken_exported} unbroken_warnings unbroken_version EXPORT unbrokenTargets
        COMPONENT cpp)
install(DIRECTORY include/unbroken DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT cpp)
if(unbroken_program AND SKBUILD)
  install(TARGETS ${unbroken_program} RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
elseif(unbroken_program)
  install(TARGETS ${unbroken_program} COMPONENT program)
  install(FILES "${unbroken_pages}/unbroken.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT program)
  install(FILES "${unbroken_pages}/unbroken.bash" RENAME unbroken COMPONENT program
          DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
  install(FILES "${unbroken_pages}/_unbroken" COMPONENT program
          DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
endif()

set(unbroken_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/unbroken")
install(EXPORT unbrokenTargets NAMESPACE unbroken:: DESTINATION "${unbroken_package_dir}" COMPONENT cpp)
export(EXPORT unbrokenTargets NAMESPACE unbroken:: FILE "${PROJECT_BINARY_DIR}/unbrokenTargets.cmake")
configure_package_config_file(cmake/unbrokenConfig.cmake.in "${PROJECT_BINARY_DIR}/unbrokenConfig.cmake"
                              INSTALL_DESTINATION "${unbroken_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/unbrokenConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/unbrokenConfig.cmake" "${PROJECT_BINARY_DIR}/unbrokenConfigVersion.cmake"
        DESTINATION "${unbroken_package_dir}" COMPONENT cpp)
