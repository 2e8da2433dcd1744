# shellcheck shell=bash
# Sourced after common.sh: a schema registry that others wrote, for the tests.
# shellcheck disable=SC2154  # root, say, die and now_ms are common.sh's

# Prints the folder of Apicurio Registry; fetches it (140 MB) when it is not there. Nothing is started.
apicurio_registry() {
  local version=2.6.13.Final folder=$root/build/apicurio began name
  name=apicurio-registry-app-$version
  mkdir -p "$root/build"
  exec 6>"$root/build/.apicurio.lock"
  flock 6
  if [[ $(cat "$folder/version" 2>/dev/null) != "$version" ]]; then
    began=$(now_ms)
    rm -rf "$folder"
    mkdir -p "$folder"
    mvn -q -B -f "$root/scripts/kafka.pom.xml" dependency:copy \
      "-Dartifact=io.apicurio:apicurio-registry-app:$version:tar.gz:all" \
      "-DoutputDirectory=$folder" >"$folder/log" 2>&1 ||
      die "Maven could not fetch Apicurio Registry $version; see $folder/log"
    tar -xzf "$folder/$name-all.tar.gz" -C "$folder"
    rm "$folder/$name-all.tar.gz"
    mv "$folder/$name-runner.jar" "$folder/registry.jar"
    printf '%s\n' "$version" >"$folder/version"
    say "fetched Apicurio Registry $version in $((($(now_ms) - began + 500) / 1000)) s"
  fi
  exec 6>&-
  printf '%s\n' "$folder"
}
