#!/bin/sh
# The docker command that can build with BuildKit: one with buildx, or one of before version 23, which has it built in.
# The first on the PATH is not always it.
set -eu

IFS=:
for folder in $PATH; do
  docker=$folder/docker
  test -x "$docker" || continue
  version=$("$docker" version --format '{{.Client.Version}}' 2>/dev/null) || continue
  if "$docker" buildx version >/dev/null 2>&1 || test "${version%%.*}" -lt 23; then
    echo "$docker"
    exit
  fi
done
echo "no docker command on the PATH reaches an engine and builds with BuildKit: start it, install docker-buildx" >&2
exit 2
