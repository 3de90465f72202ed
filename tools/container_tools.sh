#!/usr/bin/env bash
# Installs on Debian what the container tests need: builders and runners of images, Docker among them, a registry, ssh; and a
# browser for the pages.
set -euo pipefail
tools=(podman buildah skopeo umoci runc dockerd mmdebstrap docker-registry ssh sshd chromium)
missing=()
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}; as root on Debian this script installs them" >&2
  exit 2
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  buildah podman skopeo umoci runc docker.io uidmap mmdebstrap docker-registry iptables openssh-client openssh-server \
  chromium >/dev/null
