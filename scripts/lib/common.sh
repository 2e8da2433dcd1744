# shellcheck shell=bash
# Sourced by the scripts beside it; sets nothing but functions and $root.

# shellcheck disable=SC2034  # used by those who source this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { say "$*"; exit 1; }

# Milliseconds of a clock that only goes forward.
now_ms() {
  local up
  read -r up _ </proc/uptime
  printf '%s\n' "$((10#${up%.*} * 1000 + 10#${up#*.} * 10))"
}
