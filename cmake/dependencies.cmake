# Every dependency is a Debian 12 package; scripts/setup installs them.
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED)
find_package(RocksDB REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
# Whoever uses Eigen links this, so that all of a program has the same Eigen. No approximations whose
# bytes differ between processors (EIGEN_FAST_MATH: roots from rsqrt), nothing under the LGPL.
add_library(millrace_eigen INTERFACE)
target_link_libraries(millrace_eigen INTERFACE Eigen3::Eigen)
target_compile_definitions(millrace_eigen INTERFACE EIGEN_FAST_MATH=0 EIGEN_MPL2_ONLY)
# GCC 12 warns of its own AVX-512 intrinsics, which Eigen uses.
target_compile_options(millrace_eigen INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-uninitialized>)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(RDKAFKA REQUIRED IMPORTED_TARGET rdkafka)
pkg_check_modules(LBFGS REQUIRED IMPORTED_TARGET liblbfgs)
find_package(ZLIB REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
if(MILLRACE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(MILLRACE_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
