#!/usr/bin/env bash
# Brings what mcp-sandbox stands on: a Docker Engine that answers, and the default sandbox image.
# Run it as often as you like: when both are there it changes nothing and is done in well under a second.
# Only stderr is written to. Needs bash 3.2 or newer.

set -euo pipefail

usage() {
	cat >&2 <<'USAGE'
usage: scripts/setup.sh [engine] [image]

  engine        make sure a Docker Engine answers (DOCKER_HOST and docker contexts are honoured)
  image         make sure the default sandbox image is there, in the version of this checkout
                without an argument: both

  answers       exit 0 when an engine answers, 1 when none does; changes nothing
  stop-engine   stop the engine that an earlier `setup.sh` started by hand; any other is left alone

An engine is installed only as root on Debian or Ubuntu, and only where no dockerd, containerd or podman is.

environment:
  MCP_SANDBOX_SETUP_TIMEOUT   seconds to wait for the engine to answer (default 60)
  MCP_SANDBOX_IMAGE_SOURCE    registry or debian: where the default image comes from (default: registry, then debian)
USAGE
}

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root_dir
readonly engine_timeout=${MCP_SANDBOX_SETUP_TIMEOUT:-60}
readonly run_dir=/var/run
readonly socket=$run_dir/docker.sock
readonly docker_pidfile=$run_dir/docker.pid
readonly containerd_pidfile=$run_dir/docker/containerd/containerd.pid
readonly started_file=$run_dir/mcp-sandbox-dockerd.started # "pid start-time" of the dockerd started by hand
readonly log_file=/var/log/mcp-sandbox-dockerd.log

# dockerd lives in sbin, which is not on everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*" >&2; }

fail() {
	say "$1"
	shift
	local line
	for line in "$@"; do printf '       %s\n' "$line" >&2; done
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }
is_root() { [ "$(id -u)" -eq 0 ]; }
is_debian() { [ -r /etc/debian_version ] && have apt-get && have dpkg-query; }
systemd_runs() { [ -d /run/systemd/system ] && have systemctl; }

# bounded runs a command for at most 10 s; without timeout(1), as on macOS, it just runs it.
bounded() { if have timeout; then timeout 10 "$@"; else "$@"; fi; }

# --- is there an engine? -------------------------------------------------------------------------------------------

# engine_answers is true when the engine that the docker command would talk to answers.
engine_answers() {
	if have docker; then
		bounded docker version --format '{{.Server.Version}}' >/dev/null 2>&1
		return
	fi
	local address=${DOCKER_HOST:-unix://$socket}
	have curl || return 1
	case $address in
	unix://*) curl --silent --fail --max-time 5 --unix-socket "${address#unix://}" http://localhost/_ping >/dev/null 2>&1 ;;
	tcp://*) curl --silent --fail --max-time 5 "http://${address#tcp://}/_ping" >/dev/null 2>&1 ;;
	*) return 1 ;;
	esac
}

# chosen_elsewhere prints the engine that DOCKER_HOST or a docker context points to, if that is not the local default one.
chosen_elsewhere() {
	if [ -n "${DOCKER_HOST:-}" ]; then
		case $DOCKER_HOST in
		unix:///var/run/docker.sock | unix:///run/docker.sock) ;;
		*) printf 'DOCKER_HOST=%s' "$DOCKER_HOST" ;;
		esac
		return
	fi
	have docker || return 0
	local context
	context=$(docker context show 2>/dev/null || true)
	case $context in
	'' | default) ;;
	*) printf 'docker context %s' "$context" ;;
	esac
}

# --- processes and their pid files ---------------------------------------------------------------------------------

# pid_in prints the number a pid file holds, or nothing.
pid_in() {
	local pid=''
	[ -r "$1" ] && pid=$(tr -cd '0-9' <"$1" 2>/dev/null | head -c 10)
	printf '%s' "$pid"
}

# lives PID NAME is true when PID is a running process (no zombie) whose program is NAME.
lives() {
	local pid=$1 name=$2 state program
	[ -n "$pid" ] && [ -r "/proc/$pid/stat" ] || return 1
	# The second field is the program in parentheses and may hold blanks, so read behind the last parenthesis.
	state=$(sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1) || return 1
	[ "$state" != Z ] && [ "$state" != X ] || return 1
	program=$(basename "$(readlink "/proc/$pid/exe" 2>/dev/null)" 2>/dev/null) || return 1
	[ "${program%% *}" = "$name" ] # " (deleted)" follows the name after an upgrade
}

# start_time prints when a process started, in clock ticks since boot: with the pid it names one process for good.
start_time() { sed 's/^.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# remove_stale FILE NAME removes a pid file that names no running NAME. dockerd refuses to start on the one ("pid file
# found") and waits for nobody on the other ("timeout waiting for containerd").
remove_stale() {
	[ -e "$1" ] || return 0
	lives "$(pid_in "$1")" "$2" && return 0
	say "removing stale $1"
	rm -f "$1"
}

# --- starting ------------------------------------------------------------------------------------------------------

# engine_pid prints the pid of the local dockerd, if one runs.
engine_pid() {
	local pid
	pid=$(pid_in "$docker_pidfile")
	if lives "$pid" dockerd; then printf '%s' "$pid"; fi
}

# wait_for_engine polls until the engine answers, its process is gone (status 2), or the time is up (status 1).
wait_for_engine() {
	local pid=$1 deadline=$((SECONDS + engine_timeout))
	until engine_answers; do
		if [ -n "$pid" ] && ! lives "$pid" dockerd; then return 2; fi
		if [ "$SECONDS" -ge "$deadline" ]; then return 1; fi
		sleep 0.2
	done
}

# end_process PID NAME ends one process: TERM, and KILL after ten seconds.
end_process() {
	local pid=$1 name=$2 tries=0
	lives "$pid" "$name" || return 0
	kill -TERM "$pid" 2>/dev/null || return 0
	while lives "$pid" "$name"; do
		tries=$((tries + 1))
		if [ "$tries" -ge 50 ]; then
			kill -KILL "$pid" 2>/dev/null || true
			sleep 0.2
			return 0
		fi
		sleep 0.2
	done
}

# start_by_hand starts dockerd where no service manager does: detached, without stdin, logging to a file, and without the
# descriptors of whoever called us (a lock, make's job server), which it would hold as long as it runs.
start_by_hand() {
	remove_stale "$docker_pidfile" dockerd
	remove_stale "$containerd_pidfile" containerd
	(
		cd /
		exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
		if have setsid; then
			setsid nohup env -u TMPDIR dockerd </dev/null >>"$log_file" 2>&1 &
		else
			nohup env -u TMPDIR dockerd </dev/null >>"$log_file" 2>&1 &
		fi
		# setsid, nohup and env exec in place when started in the background, so this is dockerd's own pid. It outlives the
		# caller, whose TMPDIR may not.
		printf '%s\n' "$!" >"$started_file"
	)
	local pid
	pid=$(pid_in "$started_file")
	sleep 0.3
	printf '%s %s\n' "$pid" "$(start_time "$pid")" >"$started_file"
	wait_for_engine "$pid"
}

# end_orphaned_containerd ends the containerd of a dockerd that is no more: it holds the lock that a new one waits for.
# Neither another engine's containerd (its parent lives) nor a containerd service (other arguments) is meant.
end_orphaned_containerd() {
	local proc pid arguments parent
	for proc in /proc/[0-9]*; do
		pid=${proc#/proc/}
		lives "$pid" containerd || continue
		arguments=$(tr '\0' ' ' <"$proc/cmdline" 2>/dev/null) || continue
		[[ $arguments == *"$run_dir/docker/containerd/containerd.toml"* ]] || continue
		parent=$(sed 's/^.*) //' "$proc/stat" 2>/dev/null | cut -d' ' -f2) || continue
		lives "$parent" dockerd && continue
		say "ending containerd $pid, left by an earlier engine"
		end_process "$pid" containerd
	done
}

start_installed() {
	if systemd_runs; then
		say "starting the docker service"
		systemctl start docker || true
		wait_for_engine '' && return
		fail "the docker service does not answer after ${engine_timeout} s" "See: journalctl -u docker"
	fi

	local pid attempt log_start
	pid=$(engine_pid)
	if [ -n "$pid" ]; then
		say "an engine (pid $pid) is starting; waiting for it"
		wait_for_engine "$pid" && return
		lives "$pid" dockerd && fail "dockerd (pid $pid) runs but does not answer" "Look at its log, end it, and run this again."
	fi
	for attempt in 1 2 3; do
		say "starting dockerd (log: $log_file)"
		log_start=1
		if [ -e "$log_file" ]; then log_start=$(($(wc -c <"$log_file") + 1)); fi
		if start_by_hand; then return; fi
		end_process "$(cut -d' ' -f1 "$started_file")" dockerd
		say "attempt $attempt failed: $(tail -c "+$log_start" "$log_file" | tail -n 1)"
		end_orphaned_containerd
	done
	rm -f "$started_file"
	tail -c "+$log_start" "$log_file" | tail -n 15 >&2 || true
	fail "dockerd does not start" "The last lines of $log_file are above."
}

# --- installing ----------------------------------------------------------------------------------------------------

# What a package starts must not hold the lock (9) as long as it runs.
apt_get() {
	DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null >&2 9>&-
}

install_engine() {
	local packages=(docker.io iptables)
	say "installing ${packages[*]}"
	apt_get update || say "apt-get update failed; trying with the lists that are there"
	# From Debian 13 on the docker command is a package of its own, which docker.io only recommends.
	if ! have docker && [ -n "$(apt-cache --names-only search '^docker-cli$' 2>/dev/null)" ]; then packages+=(docker-cli); fi
	apt_get install -y --no-install-recommends "${packages[@]}"
	hash -r
}

# from_debian is true when the installed dockerd is the distribution's own package.
from_debian() {
	local path owner
	path=$(command -v dockerd) || return 1
	is_debian || return 1
	# It fails when it knows only one of the two names, as where /sbin is a link.
	owner=$(dpkg-query -S "$path" "$(readlink -f "$path")" 2>/dev/null) || true
	[[ $owner == docker.io:* ]]
}

refuse() {
	local other
	case $(uname -s) in
	Darwin) fail "no Docker Engine answers" "Install and start Docker Desktop, OrbStack or Colima, then run this again." ;;
	Linux) ;;
	*) fail "no Docker Engine answers" "Install and start Docker for this system, then run this again." ;;
	esac
	if have dockerd; then
		if is_root; then
			fail "a Docker Engine is installed but does not answer" "Start it ('systemctl start docker', or 'dockerd'), then run this again."
		fi
		fail "no Docker Engine answers this user" \
			"Start it as root ('sudo systemctl start docker', or 'sudo $0 engine'), and be in the group 'docker'" \
			"('sudo usermod -aG docker \$USER', then log in again). A rootless engine works too: set DOCKER_HOST."
	fi
	for other in containerd podman; do
		have "$other" || continue
		fail "no Docker Engine answers, and $other is installed, which installing one might displace" \
			"Install a Docker Engine that goes with it, or set DOCKER_HOST to an engine that answers" \
			"(podman: 'systemctl enable --now podman.socket', DOCKER_HOST=unix:///run/podman/podman.sock)."
	done
	if is_debian; then fail "no Docker Engine is installed" "Run as root: $0 engine, or: apt-get install docker.io iptables"; fi
	fail "no Docker Engine is installed" "Install Docker Engine as its documentation says for this distribution, start it, and run this again."
}

ensure_engine() {
	engine_answers && return
	local elsewhere
	elsewhere=$(chosen_elsewhere)
	[ -z "$elsewhere" ] || fail "the engine chosen by $elsewhere does not answer" "Start it, or unset the choice to use the local engine."

	is_root || refuse
	lock engine
	engine_answers && return # another setup was faster
	if ! have dockerd; then
		if have containerd || have podman || ! is_debian; then refuse; fi
		install_engine
		# Where a service manager runs, the package has started the service.
		engine_answers && return
	fi
	from_debian || refuse
	start_installed
	say "engine answers"
	unlock
}

# --- locking -------------------------------------------------------------------------------------------------------

# lock makes two setups on one machine take turns; without flock(1), as on macOS, it does nothing.
lock() {
	have flock || return 0
	local dir=$run_dir
	is_root || dir=${XDG_RUNTIME_DIR:-$HOME/.cache}
	mkdir -p "$dir"
	exec 9>"$dir/mcp-sandbox-setup-$1.lock"
	if ! flock -n 9; then
		say "waiting for another setup"
		flock -w 900 9 || fail "another setup has held $dir/mcp-sandbox-setup-$1.lock for 15 minutes"
	fi
}

unlock() { exec 9>&-; }

# --- image and the rest --------------------------------------------------------------------------------------------

ensure_image() {
	local build=$root_dir/images/default/build.sh
	if bash "$build" --check; then return; fi
	lock image
	# build.sh looks again, so whoever waited here builds nothing.
	bash "$build" >/dev/null 9>&-
	unlock
}

stop_engine() {
	[ -r "$started_file" ] || return 0
	local pid since
	read -r pid since <"$started_file" || true
	if lives "$pid" dockerd && [ "$(start_time "$pid")" = "$since" ]; then
		say "stopping dockerd (pid $pid)"
		end_process "$pid" dockerd
	fi
	rm -f "$started_file"
}

main() {
	[ $# -gt 0 ] || set -- engine image
	local step
	for step in "$@"; do
		case $step in
		engine) ensure_engine ;;
		image) ensure_image ;;
		answers) engine_answers ;;
		stop-engine) stop_engine ;;
		-h | --help | help) usage && return ;;
		*) usage && exit 2 ;;
		esac
	done
}

main "$@"
