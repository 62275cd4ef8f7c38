#!/bin/sh
# Base images made on this machine, for machines that reach no registry: Debian by debootstrap, under the names that
# the Dockerfiles ask for. Where a registry is reached, the same Dockerfiles use the public images.
#
#     docker/base.sh [DOCKER]
#
# Debian comes from where this machine's apt has it, or from $MIRROR. It needs root, and debootstrap or apt-get.
set -eu

DOCKER=${1:-docker}
SUITE=bookworm
DEBIAN=debian:$SUITE-slim
PYTHON=python:3.11-slim-$SUITE

there() { "$DOCKER" image inspect "$1" >/dev/null 2>&1; }

there "$DEBIAN" && there "$PYTHON" && exit

command -v debootstrap >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap >/dev/null; }
# All suites of Debian that this machine has: "mirror release", that of the release itself first.
known=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
  sed -n 's/^Debian Debian[^ ]* //p' | sort -u -k 2)
MIRROR=${MIRROR:-$(echo "$known" | grep -v -- - | head -n 1 | cut -d ' ' -f 1)}
test -n "$MIRROR" || { echo "no mirror of Debian in this machine's apt: name one as MIRROR=URL" >&2; exit 2; }

root=$(mktemp -d)
trap 'rm -rf "$root" "$root.log"' EXIT

debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$root" "$MIRROR" >"$root.log" 2>&1 ||
  { tail "$root.log" >&2; exit 1; }
# Neither lists and archives of apt, nor documentation: as the public slim images.
cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
END
# What has changed since the release, where this machine knows it.
echo "$known" | sed -n "s/^\([^ ]*\) \($SUITE-.*\)/deb \1 \2 main/p" >>"$root/etc/apt/sources.list"
chroot "$root" sh -c 'apt-get update -qq && apt-get upgrade -y -qq' >"$root.log" 2>&1 ||
  { tail "$root.log" >&2; exit 1; }
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/* "$root"/usr/share/man/* \
  "$root"/usr/share/info/* "$root"/usr/share/locale/* "$root/etc/resolv.conf"
find "$root/usr/share/doc" -mindepth 1 -not -name copyright -not -type d -delete
tar -C "$root" -c . | "$DOCKER" import --change 'CMD ["bash"]' - "$DEBIAN" >/dev/null

DOCKER_BUILDKIT=1 "$DOCKER" build --quiet --tag "$PYTHON" - >/dev/null <<END
FROM $DEBIAN
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null && \
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
CMD ["python3"]
END
echo "made here: $DEBIAN, $PYTHON"
