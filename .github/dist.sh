#!/usr/bin/env bash
# Builds what a release has in dist/: for each system an archive with the static binary, and its SBOM; and their checksums.
#   .github/dist.sh 1.2.3 [linux/amd64 …]
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
shift
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

rm -rf dist
mkdir dist
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
GOBIN=$stage go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
for target; do
  os=${target%/*} arch=${target#*/}
  name=forewarm_${version}_${os}_$arch
  GOOS=$os GOARCH=$arch make build VERSION="v$version"
  mkdir "$stage/$name"
  cp bin/forewarm LICENSE README.md deploy/forewarm.example.yaml deploy/systemd/forewarm.service "$stage/$name/"
  # The same files give the same archive.
  tar --create --directory "$stage" --sort=name --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX "$name" |
    gzip -9 -n >"dist/$name.tar.gz"
  "$stage/cyclonedx-gomod" bin -json -version "v$version" -output "dist/$name.cdx.json" bin/forewarm
done
cd dist
sha256sum -- * >SHA256SUMS
