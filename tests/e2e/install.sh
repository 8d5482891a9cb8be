#!/usr/bin/env bash
# What the live tests need: PostgreSQL and MariaDB from Debian; the Debezium engine, a Kafka broker and a schema registry
# from Maven Central; Airflow from PyPI. Installs what is missing and nothing else; the pom.xml of each part pins its version.
# LAKEHOUSE_LIVE=short leaves out the registry and Airflow, which only slow tests need.
set -euo pipefail
cd "$(dirname "$0")"
length="${LAKEHOUSE_LIVE:-}"
parts="$(cd ../.. && pwd)/build/live"
mkdir -p "$parts"
exec 9>"$parts/lock" && flock 9  # one at a time: the second finds what the first has brought

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
missing=()
if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then
  # Without this line Debian would make and start a cluster of its own.
  "${as_root[@]}" mkdir -p /etc/postgresql-common
  grep -qs '^create_main_cluster = false' /etc/postgresql-common/createcluster.conf ||
    echo 'create_main_cluster = false' | "${as_root[@]}" tee -a /etc/postgresql-common/createcluster.conf >/dev/null
  missing+=(postgresql)
fi
# The server alone: the package mariadb-server would start a server of its own.
[ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server-core)
command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
if ((${#missing[@]})); then
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

wanted=(engine engine-mariadb broker)
[ "$length" = short ] || wanted+=(registry)
for part in "${wanted[@]}"; do
  # The registry comes as an archive with all that it needs.
  [ "$part" = registry ] && goal=unpack-dependencies || goal=copy-dependencies
  if ! cmp -s "$part/pom.xml" "$parts/$part.pom.xml"; then
    rm -rf "${parts:?}/$part" "$parts/$part.markers"
    (cd "$part" && mvn -q -B "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:$goal" \
      -DoutputDirectory="$parts/$part" \
      -DmarkersDirectory="$parts/$part.markers" -DincludeScope=runtime)
    cp "$part/pom.xml" "$parts/$part.pom.xml"
  fi
done
# Airflow, in an environment of its own: it parses the DAG of a page. Without it that test is skipped, and says so.
if [ "$length" != short ] && [ ! -x "$parts/airflow/bin/airflow" ]; then
  { "${PYTHON:-python3}" -m venv "$parts/airflow" && "$parts/airflow/bin/python" -m pip install --quiet --no-compile \
    apache-airflow-core==3.3.2 apache-airflow-providers-standard==1.21.0; } || rm -rf "$parts/airflow"
fi
for source in engine/*.java; do
  if [ "$source" -nt "$parts/classes/$(basename "$source" .java).class" ]; then
    javac -cp "$parts/engine/*" -d "$parts/classes" engine/*.java
  fi
done
