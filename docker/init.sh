#!/bin/sh
# Deployment folder of compose.yaml: made by distced init after deployment.toml, and handed out. The folder of each
# server and participant is a volume of its own, so a container has what is its own.
#
#     init.sh [OPTION OF distced init]...
set -eu

cp /docker/deployment.toml /deployment/
distced init /deployment "$@"
for site in /deployment/servers/*; do
  # The health check connects every ten seconds.
  echo 'connection_messages false' >"$site/further/containers.conf"
done
for volume in /servers/* /participants/*; do
  if test -d "/deployment$volume"; then
    cp -a --remove-destination "/deployment$volume/." "$volume/"
  else
    find "$volume" -mindepth 1 -delete
  fi
done
# The users of the images.
chown -R 10001:10001 /participants
chown -R 10002:10002 /servers
chmod 700 /deployment /servers/* /participants/*
