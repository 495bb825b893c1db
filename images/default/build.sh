#!/usr/bin/env bash
# Builds the default sandbox image of mcp-sandbox: Debian 12 with what agents reach for, and the user `sandbox`
# (uid and gid 1000, home /home/sandbox).
#
# One file on purpose: the mcp-sandbox binary carries it and runs it as `mcp-sandbox image build`.
# The image comes from a registry's base image where one can be pulled, else straight from Debian's packages.
# Progress goes to stderr; stdout gets the reference of the image. Needs bash 3.2 or newer and the docker command.

set -euo pipefail

readonly default_ref=mcp-sandbox/default:latest
readonly base_image=debian:bookworm-slim
readonly suite=bookworm
readonly base_packages=bash,ca-certificates,coreutils,curl,git,jq,patch,procps,python-is-python3,python3,python3-venv,ripgrep,unzip,xz-utils

usage() {
	cat >&2 <<USAGE
usage: build.sh [--packages a,b,c] [--tag REF] [--check] [--force]

  --packages LIST   Debian packages to add, separated by commas (may be repeated)
  --tag REF         name of the image (default $default_ref; needed with --packages)
  --check           build nothing: exit 0 when the image of this very recipe is there, else 1
  --force           build even when it is there (newer packages)
  --recipe          print the digest of the recipe

environment:
  MCP_SANDBOX_IMAGE_SOURCE   registry: only from $base_image; debian: only from Debian's packages (Linux, root,
                             Debian or Ubuntu); without it, the registry is tried first

Remove images of older recipes with: docker image prune --all --filter label=mcp-sandbox.recipe
USAGE
}

say() { printf 'image: %s\n' "$*" >&2; }

fail() {
	say "$@"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# --- arguments -----------------------------------------------------------------------------------------------------

tag=''
extra=''
mode=build
force=no
while [ $# -gt 0 ]; do
	case $1 in
	--packages | --tag)
		[ $# -ge 2 ] || fail "$1 needs a value"
		if [ "$1" = --tag ]; then tag=$2; else extra=$extra,$2; fi
		shift
		;;
	--packages=*) extra=$extra,${1#*=} ;;
	--tag=*) tag=${1#*=} ;;
	--check) mode=check ;;
	--force) force=yes ;;
	--recipe) mode=recipe ;;
	-h | --help) usage && exit 0 ;;
	*) usage && exit 2 ;;
	esac
	shift
done

# The names end up in a Dockerfile and on command lines: nothing but a package name may pass.
extra=$(printf '%s' "$extra" | tr -s ',[:space:]' '\n' | sed '/^$/d' | LC_ALL=C sort -u)
while IFS= read -r name; do
	[ -z "$name" ] || [[ $name =~ ^[a-z0-9][a-z0-9+.-]+$ ]] || fail "not a Debian package name: $name"
done <<<"$extra"
extra=$(printf '%s' "$extra" | tr '\n' ',')

if [ -n "$extra" ] && [ -z "$tag" ] && [ "$mode" != recipe ]; then fail "--packages needs --tag: $default_ref is the one without additions"; fi
tag=${tag:-$default_ref}
[[ $tag =~ ^[a-z0-9][A-Za-z0-9._:/-]*$ ]] || fail "not an image reference: $tag"
[[ ${tag##*/} == *:* ]] || tag=$tag:latest

case ${MCP_SANDBOX_IMAGE_SOURCE:-} in '' | registry | debian) ;; *) fail "MCP_SANDBOX_IMAGE_SOURCE must be registry or debian" ;; esac

# --- what is there -------------------------------------------------------------------------------------------------

sha256() { if have sha256sum; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1; }

# The recipe is this file and the added packages; Recipe in embed.go computes the same.
recipe=$({ cat "${BASH_SOURCE[0]}" && printf '\npackages=%s\n' "$extra"; } | sha256)
readonly recipe_label=mcp-sandbox.recipe
readonly recipe_ref=${tag%:*}:recipe-${recipe:0:12}

has_recipe() { [ "$(docker image inspect --format "{{index .Config.Labels \"$recipe_label\"}}" "$1" 2>/dev/null)" = "$recipe" ]; }

if [ "$mode" = recipe ]; then
	printf '%s\n' "$recipe"
	exit
fi
have docker || fail "the docker command is missing; install it (Debian 12: docker.io, Debian 13 and newer: docker-cli)"
if [ "$mode" = check ]; then
	has_recipe "$tag"
	exit
fi
docker version --format '{{.Server.Version}}' >/dev/null 2>&1 || fail "no Docker Engine answers"
if [ "$force" = no ]; then
	if ! has_recipe "$tag" && has_recipe "$recipe_ref"; then docker tag "$recipe_ref" "$tag"; fi
	if has_recipe "$tag"; then
		say "$tag is up to date"
		printf '%s\n' "$tag"
		exit
	fi
fi

# --- working folder ------------------------------------------------------------------------------------------------

work=$(mktemp -d "${TMPDIR:-/var/tmp}/mcp-sandbox-image.XXXXXX")
child=''
cleanup() {
	local status=$?
	trap - EXIT INT TERM HUP
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	# Another file system below it would be a mount that a killed mmdebstrap left: never descend into that.
	rm -rf --one-file-system "$work" 2>/dev/null || rm -rf "$work"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# in_background runs a command so that a signal to this script is handled at once: bash waits for foreground commands.
in_background() {
	local status=0
	"$@" </dev/null &
	child=$!
	wait "$child" || status=$?
	child=''
	return "$status"
}

# --- the two ways --------------------------------------------------------------------------------------------------

# finish is what both ways run as root inside the new system. No double quotes or dollar signs without a reason: it is
# pasted into a Dockerfile and a hook.
finish=$(
	cat <<'FINISH'
set -eu
groupadd --gid 1000 sandbox
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash sandbox
git config --system init.defaultBranch main
git config --system user.name sandbox
git config --system user.email sandbox@localhost
git config --system advice.detachedHead false
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*.log /var/log/apt /var/cache/ldconfig/aux-cache
rm -rf /usr/share/doc /usr/share/man /usr/share/info /usr/share/lintian /usr/share/bash-completion
find /usr/share/locale -mindepth 1 -maxdepth 1 -exec rm -rf {} +
FINISH
)

# pull_base pulls the base image. A registry out of reach must not cost minutes: ten seconds to show life, then five minutes.
pull_base() {
	docker image inspect "$base_image" >/dev/null 2>&1 && return
	say "pulling $base_image"
	docker pull "$base_image" </dev/null >"$work/pull.log" 2>&1 &
	child=$!
	local waited=0 limit=50 status=0
	while kill -0 "$child" 2>/dev/null; do
		if grep -q 'fs layer' "$work/pull.log"; then limit=1500; fi
		if [ "$waited" -ge "$limit" ]; then
			kill "$child" 2>/dev/null || true
			break
		fi
		sleep 0.2
		waited=$((waited + 1))
	done
	wait "$child" || status=$?
	child=''
	[ "$status" -eq 0 ] || say "cannot pull $base_image: $(tail -n 1 "$work/pull.log" | cut -c1-200)"
	return "$status"
}

from_registry() {
	pull_base || return 1
	say "building $tag from $base_image"
	mkdir "$work/context"
	printf '%s\n' "$finish" >"$work/context/finish.sh"
	cat >"$work/context/Dockerfile" <<DOCKERFILE
FROM $base_image
COPY finish.sh /tmp/finish.sh
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(printf '%s' "$base_packages,$extra" | tr ',' ' ') \\
 && sh /tmp/finish.sh && rm -f /tmp/finish.sh
ENV LANG=C.UTF-8
LABEL $recipe_label=$recipe
USER sandbox
WORKDIR /home/sandbox
CMD ["/bin/bash"]
DOCKERFILE
	in_background docker build --force-rm --tag "$recipe_ref" "$work/context" >&2
}

# can_bootstrap is true where Debian's packages can be unpacked for the engine: as root on Debian or Ubuntu, same processor.
can_bootstrap() {
	[ "$(id -u)" -eq 0 ] && have dpkg && have apt-get || return 1
	[ "$(docker version --format '{{.Server.Os}}/{{.Server.Arch}}')" = "linux/$(dpkg --print-architecture)" ]
}

apt_get() { DEBIAN_FRONTEND=noninteractive in_background apt-get -q -o DPkg::Lock::Timeout=300 "$@" >&2; }

from_debian() {
	if ! have mmdebstrap || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
		say "installing mmdebstrap"
		apt_get update || say "apt-get update failed; trying with the lists that are there"
		apt_get install -y --no-install-recommends mmdebstrap debian-archive-keyring || return 1
	fi
	say "building $tag from Debian packages"
	chmod 0755 "$work" # apt drops to its own user, who must get in
	local options=(--variant=minbase "--include=$base_packages${extra:+,$extra}")
	local path proxy
	# The finishing script removes these anyway; not unpacking them at all is faster.
	for path in doc man info lintian locale; do options+=("--dpkgopt=path-exclude=/usr/share/$path/*"); done
	# mmdebstrap does not read the machine's apt configuration; behind a proxy nothing would be found.
	proxy=$(apt-config shell proxy Acquire::http::Proxy 2>/dev/null | cut -d"'" -f2)
	if [ -n "$proxy" ]; then options+=("--aptopt=Acquire::http::Proxy \"$proxy\""); fi
	printf '%s\n' "$finish" >"$work/finish.sh"
	# shellcheck disable=SC2016 # mmdebstrap sets $1, the new root
	options+=("--customize-hook=copy-in '$work/finish.sh' /tmp"
		'--customize-hook=chroot "$1" sh /tmp/finish.sh'
		'--customize-hook=rm -f "$1/tmp/finish.sh" "$1/etc/resolv.conf" "$1/etc/hostname"; : >"$1/etc/machine-id"')
	TMPDIR=$work in_background mmdebstrap "${options[@]}" "$suite" "$work/root.tar" >"$work/mmdebstrap.log" 2>&1 || {
		tail -n 20 "$work/mmdebstrap.log" >&2
		return 1
	}
	say "importing $(($(wc -c <"$work/root.tar") / 1000000)) MB"
	in_background docker import \
		--change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
		--change 'ENV LANG=C.UTF-8' \
		--change "LABEL $recipe_label=$recipe" \
		--change 'USER sandbox' \
		--change 'WORKDIR /home/sandbox' \
		--change 'CMD ["/bin/bash"]' \
		"$work/root.tar" "$recipe_ref" >/dev/null
}

built=no
if [ "${MCP_SANDBOX_IMAGE_SOURCE:-}" != debian ] && from_registry; then built=yes; fi
if [ "$built" = no ] && [ "${MCP_SANDBOX_IMAGE_SOURCE:-}" != registry ]; then
	can_bootstrap || fail "no base image, and Debian's packages can be used only as root on Debian or Ubuntu with an engine of the same processor"
	if from_debian; then built=yes; fi
fi
[ "$built" = yes ] || fail "could not build $tag"

docker tag "$recipe_ref" "$tag"
say "$tag is ready ($(docker image inspect --format '{{.Size}}' "$tag" | awk '{printf "%d MB", $1 / 1000000}'))"
printf '%s\n' "$tag"
