# shellcheck shell=bash
# Sourced after common.sh: a Docker engine (the one that runs, or one of our own), and the images that
# others are made from where no image registry can be reached.
# shellcheck disable=SC2154  # root, say, die and now_ms are common.sh's

engine_folder=$root/build/docker
engine_pid=''     # set when the engine is ours
engine_run=''     # its socket and what else must have a short path
engine_rules=''   # the firewall as it was before
engine_forward='' # and net.ipv4.ip_forward

# start_engine: leaves an engine that docker and docker-compose talk to; 1 when there can be none.
start_engine() {
  local options
  if docker version >/dev/null 2>&1; then
    say "using the Docker engine that runs"
    return 0
  fi
  if ((EUID != 0)); then
    say "no Docker engine runs, and starting one needs root"
    return 1
  fi
  engine_rules=$(firewall_rules)
  engine_forward=$(cat /proc/sys/net/ipv4/ip_forward)
  # Some sandboxes lack overlay mounts, some the right to change the firewall. Without the latter,
  # containers still reach one another, and published ports work from this machine.
  for options in '--storage-driver overlay2' '--storage-driver overlay2 --iptables=false' \
    '--storage-driver vfs' '--storage-driver vfs --iptables=false'; do
    # shellcheck disable=SC2086  # several words
    if launch_engine $options; then
      say "started a Docker engine ($options)"
      return 0
    fi
    stop_engine
  done
  say "no Docker engine can be started here; the end of build/docker/dockerd.log:"
  tail -n 5 "$engine_folder/dockerd.log" >&2
  return 1
}

launch_engine() { # OPTION...
  engine_run=$(mktemp -d /tmp/millrace-engine.XXXXXX)
  # Images are built on the host's network, and docker compose makes networks of its own: no bridge.
  setsid dockerd --data-root "$engine_folder/engine" --exec-root "$engine_run/exec" \
    --pidfile "$engine_run/pid" --host "unix://$engine_run/socket" --bridge none "$@" \
    </dev/null >"$engine_folder/dockerd.log" 2>&1 9>&- &
  engine_pid=$!
  export DOCKER_HOST=unix://$engine_run/socket
  local limit=$(($(now_ms) + 60000))
  until docker version >/dev/null 2>&1; do
    [[ -d /proc/$engine_pid ]] && (($(now_ms) < limit)) || return 1
    sleep 0.1
  done
}

# stop_engine: ends an engine of ours, and takes back what it changed on this machine.
stop_engine() {
  [[ -n $engine_pid ]] || return 0
  local limit=$(($(now_ms) + 30000)) mounted
  kill -TERM "$engine_pid" 2>/dev/null || true
  while [[ -d /proc/$engine_pid ]] && (($(now_ms) < limit)); do sleep 0.1; done
  if [[ -d /proc/$engine_pid ]]; then
    say "the Docker engine does not stop: SIGKILL"
    kill -KILL "$engine_pid" 2>/dev/null || true
    kill -KILL "$(cat "$engine_run/exec/containerd/containerd.pid" 2>/dev/null)" 2>/dev/null || true
  fi
  wait "$engine_pid" 2>/dev/null || true
  engine_pid=''
  unset DOCKER_HOST
  # Deepest first.
  while read -r mounted; do umount "$mounted" || true; done < <(
    awk -v a="$engine_folder/" -v b="$engine_run/" 'index($2, a) == 1 || index($2, b) == 1 {print $2}' \
      /proc/mounts | sort -r)
  rm -rf "$engine_run"
  restore_firewall
  [[ $(cat /proc/sys/net/ipv4/ip_forward) == "$engine_forward" ]] ||
    printf '%s\n' "$engine_forward" >/proc/sys/net/ipv4/ip_forward
}

firewall_rules() {
  local table
  for table in filter nat; do iptables -t "$table" -S 2>/dev/null | sed "s/^/$table /"; done
}

# The engine leaves its chains behind, and drops what is forwarded: what was not there before goes.
restore_firewall() {
  local table rule now
  now=$(firewall_rules)
  [[ $now != "$engine_rules" ]] || return 0
  # Rules first: a chain that something refers to cannot be deleted.
  { grep -- ' -A ' <<<"$now" || true; grep -- ' -N ' <<<"$now" || true; } |
    while read -r table rule; do
      ! grep -qxF -- "$table $rule" <<<"$engine_rules" || continue
      rule=${rule/#-A /-D } rule=${rule/#-N /-X }
      xargs iptables -t "$table" <<<"$rule" || true
    done
  { grep -- ' -P ' <<<"$engine_rules" || true; } |
    while read -r table rule; do xargs iptables -t "$table" <<<"$rule" || true; done
}

# pull IMAGE: 0 when it is there, or could be fetched.
pull() {
  docker image inspect "$1" >/dev/null 2>&1 || timeout 300 docker pull -q "$1" >/dev/null 2>&1
}

# make_base IMAGE: a Debian 12 of this machine's own package sources, by debootstrap.
make_base() {
  ! docker image inspect "$1" >/dev/null 2>&1 || return 0
  local folder=$engine_folder/base began key value sources mirror
  began=$(now_ms)
  rm -rf "$folder"
  mkdir -p "$folder"
  # In memory, where nothing waits for a disk.
  mount -t tmpfs -o size=2g,mode=755 millrace-base "$folder"
  # shellcheck disable=SC2016  # apt-get fills these in
  sources=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    grep -E ' bookworm(-updates|-security)? ' | sort -u) || true
  mirror=$(awk '$2 == "bookworm" && $3 == "main" {print $1; exit}' <<<"$sources")
  # Without a mirror debootstrap takes Debian's own.
  debootstrap --variant=minbase bookworm "$folder" ${mirror:+"$mirror"} >"$engine_folder/debootstrap.log" 2>&1 || {
    tail -n 5 "$engine_folder/debootstrap.log" >&2
    die "debootstrap failed; see build/docker/debootstrap.log"
  }
  # What this machine needs to reach the registries of packages, the images need as well.
  [[ -z $mirror ]] || awk '{print "deb", $0}' <<<"$sources" >"$folder/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-|Retries)' \
    >"$folder/etc/apt/apt.conf.d/90-as-outside" || true
  if [[ -d /usr/local/share/ca-certificates ]]; then
    mkdir -p "$folder/usr/local/share"
    cp -r /usr/local/share/ca-certificates "$folder/usr/local/share/"
  fi
  echo '[global]' >"$folder/etc/pip.conf"
  for key in index-url extra-index-url proxy trusted-host cert; do
    value=$(/usr/bin/python3 -m pip config get "global.$key" 2>/dev/null) ||
      value=$(/usr/bin/python3 -m pip config get ":env:.$key" 2>/dev/null) || continue
    printf '%s = %s\n' "$key" "${value//$'\n'/ }" >>"$folder/etc/pip.conf"
  done
  # As in Debian's own images: a layer that is half written is thrown away anyway.
  echo force-unsafe-io >"$folder/etc/dpkg/dpkg.cfg.d/unsafe-io"
  rm -rf "$folder"/var/cache/apt/archives/*.deb "$folder"/var/lib/apt/lists/*
  tar -C "$folder" -c . | docker import - "$1" >/dev/null
  umount "$folder"
  rmdir "$folder"
  say "made a base image by debootstrap in $((($(now_ms) - began + 500) / 1000)) s"
}

# make_kafka_standin IMAGE BASE: what stands in for apache/kafka, of the jars of scripts/kafka.
make_kafka_standin() {
  local folder=$engine_folder/kafka jars
  jars=$("$root/scripts/kafka" jars)
  rm -rf "$folder"
  mkdir -p "$folder/jars"
  cp "$root/docker/kafka-standin/run" "$folder/"
  cp "$jars"/*.jar "$folder/jars/"
  docker build -q --network host --build-arg "BASE=$2" -t "$1" \
    -f "$root/docker/kafka-standin/Dockerfile" "$folder" >"$engine_folder/kafka-standin.log" 2>&1 || {
    tail -n 20 "$engine_folder/kafka-standin.log" >&2
    die "the image that stands in for Kafka's could not be built; see build/docker/kafka-standin.log"
  }
}
