#!/bin/sh
# Broker nodes of a site, as actors: this container joins the Ray cluster, and offers its site there.
#
#     SITE=attic nodes.sh [OPTION OF distced broker]...
set -eu

ray start --address ray-head:6379 --resources "{\"site:$SITE\": 1}" --num-cpus 2 --object-store-memory 80000000 \
  --disable-usage-stats >/dev/null
exec distced broker --ray-address auto --site "$SITE" --name "$SITE" --checkpoints /var/lib/distced "$@"
