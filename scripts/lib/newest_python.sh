# shellcheck shell=bash
# Sourced after python.sh: the newest Python, with the Python package built for it, below build/.
# shellcheck disable=SC2154  # root, python, say, now_ms and python_with are theirs

# Debian 12 has Python 3.11. The newest one is in Debian's development branch; its files are
# unpacked, with the C library that they need, and are used from there: nothing is installed.
newest_python_version=3.15
newest_python_debs=(
  "python$newest_python_version" "python$newest_python_version-minimal" "python$newest_python_version-venv"
  "libpython$newest_python_version-minimal" "libpython$newest_python_version-stdlib"
  "python$newest_python_version-dev" "libpython$newest_python_version-dev"
  libc6 libstdc++6 libgcc-s1 libexpat1 libssl3t64 zlib1g libffi8 liblzma5 libbz2-1.0)
newest_python_pip='pip==26.3'
newest_python_set='numpy==2.5.5 pandas==3.1.1 python-dateutil==4.0.0 tzdata==2026.6 scipy==1.18.1 scikit-learn==1.9.1 joblib==1.6.0 threadpoolctl==3.8.0'
# What pip builds the package with, in an environment of its own (build isolation), as users have it.
newest_python_build_set='scikit-build-core==1.1.2 packaging==26.4 pathspec==1.1.1 nanobind==2.15.0'

# get_debs FOLDER PACKAGE...: unpacks the newest versions of these there. Fails where this machine
# knows no Debian archive that has them.
get_debs() {
  local folder=$1 archive options one
  shift
  # shellcheck disable=SC2016  # apt-get's own words
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
  [[ -n $archive ]] || return 1
  rm -rf "$folder"
  mkdir -p "$folder"/{apt/state/lists/partial,apt/cache/archives/partial,debs}
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s sid main\n' "$archive" \
    >"$folder/apt/sources.list"
  options=(-q -o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State=$folder/apt/state" -o Dir::State::status=/dev/null -o "Dir::Cache=$folder/apt/cache"
    -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none)
  apt-get "${options[@]}" update && (cd "$folder/debs" && apt-get "${options[@]}" download "$@") || return 1
  for one in "$folder"/debs/*.deb; do dpkg-deb --extract "$one" "$folder" || return 1; done
  rm -rf "$folder/apt" "$folder/debs"
}

# Makes the interpreter start with the C library that was unpacked beside it.
make_newest_python() {  # FOLDER
  local usr=$1/usr include=python$newest_python_version/pyconfig.h
  get_debs "$1" "${newest_python_debs[@]}" || return 1
  patchelf --set-interpreter "$usr/lib64/ld-linux-x86-64.so.2" --force-rpath \
    --set-rpath "$usr/lib/x86_64-linux-gnu" "$usr/bin/python$newest_python_version" || return 1
  cp "$usr/include/x86_64-linux-gnu/$include" "$usr/include/$include"  # that one only names this one
}

# Leaves the interpreter's path in $newest_python; fails, and has said so, where there is none to be
# had. Nothing is done when the package was installed from the same files. REQUIRES python_with.
newest_python_package() {
  local folder=$root/build/python-newest log=$root/build/python-newest.log launcher=() began words wheel tree
  began=$(now_ms)
  newest_python=$folder/venv/bin/python
  if [[ $(cat "$folder/.have" 2>/dev/null) != "$newest_python_version $newest_python_set" ]]; then
    rm -rf "$folder"
    make_newest_python "$folder/root" >"$log" 2>&1 || {
      say "NOT TRIED: no Python $newest_python_version can be had here (see build/python-newest.log)"
      return 1
    }
    read -ra words <<<"$newest_python_set"
    {
      "$folder/root/usr/bin/python$newest_python_version" -m venv --without-pip "$folder/venv" &&
        "$python" -m pip download -q --disable-pip-version-check --no-deps -d "$folder" "$newest_python_pip" &&
        wheel=$(echo "$folder"/pip-*.whl) &&
        "$newest_python" "$wheel/pip" install -q "$newest_python_pip" &&
        "$newest_python" -m pip install -q --only-binary :all: "${words[@]}"
    } >>"$log" 2>&1 || die "pip could not install $newest_python_set; see build/python-newest.log"
    printf '%s %s\n' "$newest_python_version" "$newest_python_set" >"$folder/.have"
  fi
  # (With what it is built: a folder that was made anew has no .have-tree.)
  tree="$newest_python_build_set $(tree_of_the_package)"
  [[ $(cat "$folder/.have-tree" 2>/dev/null) != "$tree" ]] || return 0
  ! command -v ccache >/dev/null || launcher=(CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  tr ' ' '\n' <<<"$newest_python_build_set" >"$folder/build-constraints.txt"
  # (Most of it was compiled for the other Python, in build/python. With a name of as many folders
  # ccache sees that.)
  env "${launcher[@]}" CCACHE_BASEDIR="$root" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" \
    "$newest_python" -m pip install -q --no-deps --build-constraint "$folder/build-constraints.txt" \
    -C "build-dir=$root/build/python-newest-cmake" "$root/python" >>"$log" 2>&1 ||
    die "pip could not install python/ for Python $newest_python_version; see build/python-newest.log"
  printf '%s\n' "$tree" >"$folder/.have-tree"
  say "installed the Python package for Python $newest_python_version in $((($(now_ms) - began + 500) / 1000)) s"
}
