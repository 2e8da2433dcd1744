# shellcheck shell=bash
# Sourced by scripts/kafka: brokers with TLS, SASL (SCRAM-SHA-256 and PLAIN) and the authorizer, below
# $dir/secure.
# shellcheck disable=SC2154  # dir, jars, root and die are those of who sources this

is_secure() { [[ -f $dir/secure/client.properties ]]; }

# Makes a CA, a certificate of 127.0.0.1 and the password of `admin`, a super user: once in a folder's
# life. Clients need ca.pem; Kafka's tools read client.properties.
make_secrets() { # NAME=PASSWORD of other users...
  local new=$dir/secure.new password
  is_secure && return
  rm -rf "$new" "$dir/secure"
  (umask 077 && mkdir -p "$new") || die "cannot write below $dir"
  password=$(head -c 18 /dev/urandom | base64 | tr '+/' 'AB')
  {
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=millrace-test" \
      -keyout "$new/ca.key" -out "$new/ca.pem" &&
      openssl req -newkey rsa:2048 -nodes -subj "/CN=127.0.0.1" \
        -keyout "$new/broker.key" -out "$new/broker.csr" &&
      openssl x509 -req -in "$new/broker.csr" -CA "$new/ca.pem" -CAkey "$new/ca.key" -CAcreateserial \
        -days 3650 -extfile <(printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\n') \
        -out "$new/broker.crt"
  } >"$new/openssl.log" 2>&1 || die "openssl could not make certificates; see $new/openssl.log"
  cat "$new/broker.key" "$new/broker.crt" "$new/ca.pem" >"$new/broker.pem"
  printf '%s\n' "$password" >"$new/admin.password"
  printf '%s\n' "admin=$password" "$@" >"$new/users"
  printf '%s\n' security.protocol=SASL_SSL sasl.mechanism=SCRAM-SHA-256 ssl.truststore.type=PEM \
    "ssl.truststore.location=$dir/secure/ca.pem" "sasl.jaas.config=$(jaas "$password")" \
    >"$new/client.properties"
  mv "$new" "$dir/secure"
}

jaas() { # password of admin
  printf 'org.apache.kafka.common.security.scram.ScramLoginModule required %s;' \
    "username=\"admin\" password=\"$1\""
}

# The same users by PLAIN, which older clients need: see docs/security.md.
plain_jaas() {
  local user
  printf 'org.apache.kafka.common.security.plain.PlainLoginModule required'
  while read -r user; do printf ' user_%s="%s"' "${user%%=*}" "${user#*=}"; done <"$dir/secure/users"
  printf ';'
}

# What a broker has over its other settings.
secure_properties() { # ports of its listeners
  cat <<PROPERTIES

# --secure
listeners=SASL_SSL://127.0.0.1:$1,CONTROLLER://127.0.0.1:$2
advertised.listeners=SASL_SSL://127.0.0.1:$1
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-256,PLAIN
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=$(jaas "$(<"$dir/secure/admin.password")")
listener.name.sasl_ssl.plain.sasl.jaas.config=$(plain_jaas)
ssl.keystore.type=PEM
ssl.keystore.location=$dir/secure/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/secure/ca.pem
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
# Brokers, which reach each other's controllers without a name; and the administrator.
super.users=User:ANONYMOUS;User:admin
PROPERTIES
}

# A data folder in which users have their passwords: SCRAM's are in the cluster's metadata.
secure_format() { # properties cluster java
  local user scram=()
  while read -r user; do
    scram+=(--add-scram "SCRAM-SHA-256=[name=${user%%=*},password=${user#*=}]")
  done <"$dir/secure/users"
  "$3" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$jars/*" kafka.tools.StorageTool format -t "$2" \
    -c "$1" "${scram[@]}" >"$dir/secure/format.log" 2>&1 || die "could not format a data folder; see $dir/secure/format.log"
}
