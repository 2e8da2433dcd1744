# shellcheck shell=bash
# Sourced after common.sh: programs in the background, known by pid and by what they are.
# shellcheck disable=SC2154  # root, say and die are common.sh's

# A registry is a file with a line for each program: pid, start time (ticks since boot; pids are used
# again, the pair is not), name. Only what stands there, and is still the same process, is signalled.
registry=''

process_start() { # pid; its start time, nothing if there is none
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  # The name, in parentheses, may hold anything; the start is the 20th word after it.
  read -ra stat <<<"${stat##*) }"
  [[ ${stat[0]} == Z ]] || printf '%s\n' "${stat[19]}"
}

register() { # pid name
  printf '%s %s %s\n' "$1" "$(process_start "$1")" "$2" >>"$registry"
}

# launch NAME LOG COMMAND...: in a session of its own, so that Ctrl-C in the terminal is ours to
# handle; without the lock that the script may hold as descriptor 9. Sets $launched to its pid.
launch() {
  local name=$1 log=$2
  shift 2
  setsid "$@" </dev/null >"$log" 2>&1 9>&- &
  launched=$!
  register "$launched" "$name"
}

# The lines of the registry whose processes are alive.
launched_alive() {
  local pid start name
  [[ -n $registry && -f $registry ]] || return 0
  while read -r pid start name; do
    [[ -n $start && $(process_start "$pid") == "$start" ]] && printf '%s %s %s\n' "$pid" "$start" "$name"
  done <"$registry"
  return 0
}

# shims_alive RUN-DIR: the process ids of the ProcessShims of a MasterApp with that folder. They and
# what they have started outlive a MasterApp that is killed.
shims_alive() {
  local file program words
  for file in /proc/[0-9]*/cmdline; do
    { mapfile -d '' -t words <"$file"; } 2>/dev/null || continue
    program=${words[0]:-}
    [[ ${program##*/} != ProcessShim || ${words[1]:-} != "$1/processes/"* ]] || basename "${file%/cmdline}"
  done
}

# stop_shims RUN-DIR: ends them, and so what they have started.
stop_shims() {
  local limit=$(($(now_ms) + 10000)) pids
  mapfile -t pids < <(shims_alive "$1")
  ((${#pids[@]} > 0)) || return 0
  kill -TERM "${pids[@]}" 2>/dev/null || true
  while mapfile -t pids < <(shims_alive "$1"); ((${#pids[@]} > 0)); do
    (($(now_ms) < limit)) || kill -KILL "${pids[@]}" 2>/dev/null || true
    sleep 0.05
  done
}

# stop_launched [SECONDS]: SIGTERM to all; SIGKILL to what is there after SECONDS (10).
stop_launched() {
  local limit=$(($(now_ms) + ${1:-10} * 1000)) pid name
  while read -r pid _ name; do kill -TERM "$pid" 2>/dev/null || true; done < <(launched_alive)
  while [[ -n $(launched_alive) ]]; do
    if (($(now_ms) > limit)); then
      while read -r pid _ name; do
        say "$name does not stop: SIGKILL"
        kill -KILL "$pid" 2>/dev/null || true
      done < <(launched_alive)
    fi
    sleep 0.05
  done
  rm -f "$registry"
}
