# shellcheck shell=bash
# Sourced behind common.sh: building a preset.
# shellcheck disable=SC2154  # root, say and die are common.sh's

# build PRESET TARGET...: builds these targets in build/PRESET. A folder that was configured before
# keeps its options; a new one builds neither tests nor benchmarks.
build() {
  local preset=$1 folder=$root/build/$1 options=()
  shift
  if [[ ! -f $folder/build.ninja ]]; then
    command -v ccache >/dev/null || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=)
    mkdir -p "$folder"
    (cd "$root" && cmake --preset "$preset" -DMILLRACE_BUILD_TESTS=OFF \
      -DMILLRACE_BUILD_BENCHMARKS=OFF "${options[@]}") >"$folder/configure.log" 2>&1 || {
      tail -n 15 "$folder/configure.log" >&2
      die "cmake could not configure; see build/$preset/configure.log"
    }
  fi
  cmake --build "$folder" --target "$@" || die "the build failed"
}
