#!/bin/bash
# Unpacks HTCondor into a folder: `unpack_condor.sh FOLDER`. Nothing on the machine itself changes.
#
# The release of Debian that this is written for has no HTCondor; the one named below has. Its
# archives are fetched by apt as it is configured here, from the same mirror and with the same keys,
# but with lists, a cache and a status of its own, and are unpacked and not installed. They need a
# newer C library than the machine's, which comes along; tests/services/condor.py runs all with it.
set -euo pipefail

SUITE=trixie
# What the daemons and tools are linked against, and no more: what else the package asks for is
# scripts in Perl and Python, and ways to authenticate between machines.
PACKAGES=(condor libc6 libgcc-s1 libgomp1 libpcre2-8-0 libssl3t64 libstdc++6 libuuid1 libzstd1 zlib1g)
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

target=$(realpath -m "$1")
mkdir -p "$(dirname "$target")"
# Beside the target, so that a rename puts all in its place at once.
work=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$work"' EXIT

mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' \
		'Label: Debian' 'Component: main' | head -n 1
}
uri=$(mirror)
if [ -z "$uri" ]; then
	# A bare machine has no lists yet, without which apt does not tell.
	apt-get -q update
	uri=$(mirror)
fi
if [ -z "$uri" ]; then echo 'apt knows no mirror of Debian here.' >&2; exit 1; fi

mkdir -p "$work"/{lists/partial,cache/archives/partial,archives,root}
: >"$work/status"
echo "deb [signed-by=$KEYRING] $uri $SUITE main" >"$work/sources.list"
own=(-q -o Dir::State="$work" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache"
	-o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
	-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3)
apt-get "${own[@]}" update
(cd "$work/archives" && apt-get "${own[@]}" download "${PACKAGES[@]}")
for archive in "$work"/archives/*.deb; do dpkg-deb -x "$archive" "$work/root"; done
rm -rf "$work/root/usr/share" "$work/root/usr/lib/python3"
chmod 755 "$work/root"
touch "$work/root"
rm -rf "$target"
mv -T "$work/root" "$target"
