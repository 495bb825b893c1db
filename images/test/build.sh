#!/usr/bin/env bash
# Builds two tiny images for tests, from Debian's static busybox; no-op when they are there:
#
#   mcp-sandbox/test-busybox:latest  a shell with all applets, user sandbox (uid 1000), /home/sandbox, /tmp
#   mcp-sandbox/test-bare:latest     /bin/sh and nothing else: no /etc/passwd, no uid 1000, no home, no /tmp
#
# Progress goes to stderr. Needs GNU tar, and a static busybox or apt-get.

set -euo pipefail

readonly busybox_ref=mcp-sandbox/test-busybox:latest
readonly bare_ref=mcp-sandbox/test-bare:latest

say() { printf 'test images: %s\n' "$*" >&2; }

fail() {
	say "$@"
	exit 1
}

recipe=$({ if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; } <"${BASH_SOURCE[0]}" | cut -d' ' -f1)

recipes=$(docker image inspect --format '{{index .Config.Labels "mcp-sandbox.recipe"}}' "$busybox_ref" "$bare_ref" 2>/dev/null) || true
if [ "$recipes" = "$recipe"$'\n'"$recipe" ]; then exit; fi

work=$(mktemp -d "${TMPDIR:-/tmp}/mcp-sandbox-test-image.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# static_busybox prints the path of a static busybox. Debian's package is unpacked, not installed: installing it would
# displace the other busybox package.
static_busybox() {
	local candidate
	for candidate in "$(command -v busybox || true)" /usr/bin/busybox /bin/busybox; do
		if [ -x "$candidate" ] && ! ldd "$candidate" >/dev/null 2>&1; then
			printf '%s' "$candidate"
			return
		fi
	done
	command -v apt-get >/dev/null || fail "no static busybox here, and no apt-get to fetch one"
	say "fetching busybox-static"
	(
		chmod 0755 "$work" && mkdir "$work/package" && cd "$work/package"
		apt-get -q download busybox-static >&2 || { apt-get -q update >&2 && apt-get -q download busybox-static >&2; }
		dpkg-deb -x busybox-static_*.deb . >&2
	)
	find "$work/package" -type f -name busybox -perm -u+x
}

# import_root DIR REF CHANGE... makes an image of a folder. Everything is root's, but home/sandbox.
import_root() {
	local root=$1 ref=$2 change
	shift 2
	local changes=(--change "LABEL mcp-sandbox.recipe=$recipe" --change 'ENV PATH=/bin')
	for change in "$@"; do changes+=(--change "$change"); done
	tar -C "$root" -cf "$work/root.tar" --owner=0 --group=0 --exclude=./home/sandbox .
	if [ -d "$root/home/sandbox" ]; then tar -C "$root" -rf "$work/root.tar" --owner=1000 --group=1000 ./home/sandbox; fi
	docker import "${changes[@]}" "$work/root.tar" "$ref" >/dev/null
	say "$ref is ready"
}

busybox=$(static_busybox)
[ -n "$busybox" ] || fail "the busybox-static package holds no busybox"

umask 022
root=$work/busybox
mkdir -p "$root"/bin "$root"/etc "$root"/home/sandbox "$root"/root "$root"/tmp
chmod 1777 "$root/tmp"
cp "$busybox" "$root/bin/busybox"
"$busybox" --list | while IFS= read -r applet; do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nsandbox:x:1000:\n' >"$root/etc/group"
import_root "$root" "$busybox_ref" 'USER sandbox' 'WORKDIR /home/sandbox' 'CMD ["/bin/sh"]'

root=$work/bare
mkdir -p "$root/bin"
cp "$busybox" "$root/bin/busybox"
ln -s busybox "$root/bin/sh"
import_root "$root" "$bare_ref" 'CMD ["/bin/sh"]'
