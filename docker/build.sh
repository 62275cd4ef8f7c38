#!/bin/sh
# The images of distced and of its MQTT server, built with this machine's settings of the package index.
#
#     [TAG=latest] docker/build.sh
#
# pip's settings (index, certificate) come as secrets that BuildKit mounts for the one step that installs: no layer has
# them. Without a registry the base images are made first, by base.sh; the exit code is 3 where there are none.
set -eu

cd "$(dirname "$0")/.."
TAG=${TAG:-latest}

DOCKER=$(docker/client.sh)
export DOCKER_BUILDKIT=1

secrets=$(mktemp -d)
trap 'rm -rf "$secrets"' EXIT
settings=$(python3 -m pip config list 2>/dev/null || true)
value() { printf '%s\n' "$settings" | sed -n "s/^[^=]*\.$1='\(.*\)'\$/\1/p" | tail -n 1; }
{
  echo '[global]'
  for key in index-url extra-index-url trusted-host proxy default-timeout; do
    found=$(value "$key" | sed 's/\\n/ /g')
    test -z "$found" || echo "$key = $found"
  done
  test -z "$(value cert)" || echo 'cert = /run/secrets/ca.pem'
} >"$secrets/pip.conf"
cat "$(value cert)" >"$secrets/ca.pem" 2>/dev/null || : >"$secrets/ca.pem"

for image in python:3.11-slim-bookworm debian:bookworm-slim; do
  "$DOCKER" image inspect "$image" >/dev/null 2>&1 || "$DOCKER" pull --quiet "$image" 2>/dev/null ||
    docker/base.sh "$DOCKER" || exit 3
done

"$DOCKER" build --quiet --tag "distced-mosquitto:$TAG" docker/mosquitto
"$DOCKER" build --quiet --tag "distced:$TAG" --file docker/Dockerfile \
  --secret "id=pip.conf,src=$secrets/pip.conf" --secret "id=ca.pem,src=$secrets/ca.pem" .
