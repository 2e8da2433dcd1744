# shellcheck shell=bash
# Sourced after common.sh: building a preset.
# shellcheck disable=SC2154  # root, say and die are common.sh's

# Ninja's lines go to the file $1; of them a person sees how far the build is: on a terminal in one
# line that is redrawn, else in a line for each quarter.
show_build() { # LOG
  local line percent told=0 terminal=no
  [[ ! -t 2 ]] || terminal=yes
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    if [[ $terminal == yes ]]; then
      printf '\r\033[K%s: building: %d %%, %d of %d files' "${0##*/}" "$percent" \
        "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
    elif ((percent / 25 > told)); then
      told=$((percent / 25))
      say "building: $percent %, ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]} files"
    fi
  done 3>"$1"
  [[ $terminal == no ]] || printf '\r\033[K' >&2
}

# build PRESET TARGET...: builds these targets in build/PRESET. A folder that was configured before
# keeps its options; a new one builds neither tests nor benchmarks. What the compiler says is in
# build/PRESET/build.log; its errors are shown.
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
  NINJA_STATUS='[%f/%t] ' cmake --build "$folder" --target "$@" 2>&1 | show_build "$folder/build.log" || {
    grep -E '(error|Error)[: ]|^FAILED' "$folder/build.log" | head -n 20 >&2 || tail -n 20 "$folder/build.log" >&2
    die "the build failed; all of what it said is in build/$preset/build.log"
  }
}
