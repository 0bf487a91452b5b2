#!/bin/sh
# Installs the programs that some tests need beside Python, where that is allowed: as root, with apt.
# Elsewhere nothing happens, and the last line of `make test` says what was left out.
PATH="$PATH:/usr/sbin:/usr/local/sbin"

missing=""
command -v mosquitto >/dev/null || missing="$missing mosquitto"
command -v mosquitto_pub >/dev/null || missing="$missing mosquitto-clients"
command -v java >/dev/null || [ -x "$JAVA_HOME/bin/java" ] || missing="$missing openjdk-17-jre-headless"

[ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
timeout 120 apt-get update -qq >/dev/null 2>&1
for package in $missing; do
    timeout 300 apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 \
        || echo "$package could not be installed"
done
exit 0
