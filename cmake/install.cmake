# cmake --install BUILD --component library --prefix PREFIX
#
# installs the library for others' trainers, for find_package(Millrace). Its parts are static: those of the
# programs, so nothing is compiled twice, and no program depends on where the library lies. What they are made
# of are packages of Debian, which MillraceConfig.cmake finds again.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/Millrace)
install(TARGETS millrace millrace_client millrace_rpc millrace_answer_service millrace_node_service millrace_job
                millrace_tasks millrace_processors millrace_stores millrace_topics millrace_kafka millrace_models
                millrace_messages millrace_base
  EXPORT MillraceTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
# Server programs of one's own are linked with all that ServerApp is made of, which needs more packages.
install(TARGETS millrace_own_server millrace_server_program millrace_apps millrace_server millrace_worker millrace_snapshots
                millrace_replicas millrace_replica_service millrace_checkpoints millrace_exports millrace_onnx
                millrace_features millrace_formats millrace_metrics
  EXPORT MillraceServerTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(EXPORT MillraceServerTargets NAMESPACE Millrace:: DESTINATION ${package} COMPONENT library)
install(EXPORT MillraceTargets NAMESPACE Millrace:: DESTINATION ${package} COMPONENT library)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/millrace DESTINATION include COMPONENT library)
set(version_file ${PROJECT_BINARY_DIR}/MillraceConfigVersion.cmake)
write_basic_package_version_file(${version_file} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/MillraceConfig.cmake ${version_file} DESTINATION ${package} COMPONENT library)
