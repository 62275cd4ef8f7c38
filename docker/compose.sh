#!/bin/sh
# The Compose tool on the deployment of compose.yaml: the plugin of docker, or the older command of its own.
#
#     docker/compose.sh up --detach
set -eu

cd "$(dirname "$0")"
if docker compose version >/dev/null 2>&1; then
  exec docker compose --project-name "${PROJECT:-distced}" "$@"
fi
command -v docker-compose >/dev/null || { echo "neither docker compose nor docker-compose is installed" >&2; exit 2; }
exec docker-compose --project-name "${PROJECT:-distced}" "$@"
