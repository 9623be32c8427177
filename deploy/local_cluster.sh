#!/usr/bin/env bash
# A Ray cluster of two nodes on this machine, to see raygraph work on more than one.
#
#   deploy/local_cluster.sh [ARGUMENTS OF raygraph demo]     such as --limit 40
#
# Starts a head and a second node with one CPU each, reachable on the loopback interface only and only with a
# token made for this run. Runs `raygraph demo` on them, checks that both nodes worked and that the digest is the
# one of `--executor inline`, and stops what it started, also after a failure or Ctrl-C.
#
# PYTHON: an interpreter that has raygraph (default: python3). Linux; takes a minute or two, at most ten.
set -euo pipefail

PYTHON=${PYTHON:-python3}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PYTHONPATH="$HERE${PYTHONPATH:+:$PYTHONPATH}"
START_SECONDS=60
DEMO_SECONDS=240

work=$(mktemp -d /tmp/raygraph.XXXXXX)   # short: the paths of sockets have a limit of 107 characters
nodes=()                                 # the session id of each node, which is the pid of its `ray start`
running=""                               # the pid of the demo while it runs

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "FAILED: $*"
    exit 1
}

# Every process of a node belongs to the session that its `ray start` opened, the workers included. No other
# process does, so nothing else is touched (`ray stop` would end every Ray on the machine).
members() { ps -o pid= --sid "$1" || true; }

stop_node() {
    kill -TERM "$1" 2>/dev/null || true
    for _ in $(seq 150); do
        [ -z "$(members "$1")" ] && return 0 # in a trap, a bare `return` repeats the status of before
        sleep 0.1
    done
    # shellcheck disable=SC2046  # a list of pids
    kill -KILL $(members "$1") 2>/dev/null || true
}

stop_all() {
    set +e
    trap '' INT TERM HUP
    [ -n "$running" ] && kill -TERM "$running" 2>/dev/null && wait "$running" 2>/dev/null
    local i
    for ((i = ${#nodes[@]} - 1; i >= 0; i--)); do stop_node "${nodes[i]}"; done
    rm -rf "$work"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

start_node() { # NAME, ARGUMENTS OF ray start
    local name=$1
    shift
    setsid "$PYTHON" -m ray.scripts.scripts start --block --num-cpus=1 --object-store-memory=100000000 \
        --disable-usage-stats --min-worker-port=0 --max-worker-port=0 --temp-dir="$work/$name" "$@" \
        >"$work/$name.log" 2>&1 </dev/null &
    nodes+=($!)
}

# Without the token nobody can use the cluster; on another machine it would have to be copied there.
(umask 077 && "$PYTHON" -c 'import secrets; print(secrets.token_hex(32), end="")' >"$work/token")
unset RAY_AUTH_TOKEN RAY_ADDRESS
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$work/token" RAY_USAGE_STATS_ENABLED=0

port=$("$PYTHON" -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')

# Ray listens on loopback alone only for the address 127.0.0.1, which it replaces by the machine's own on Linux.
# This setting, meant for other systems, stops that, but it also forbids a second node. For that one it has to
# be off, and `localhost` has to be spelled in a way that Ray passes on as it is.
export RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0
say "starting the head on 127.0.0.1:$port"
start_node head --head --node-ip-address=127.0.0.1 --port="$port" --include-dashboard=false
say "starting the second node"
for _ in $(seq "$((START_SECONDS * 10))"); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
    kill -0 "${nodes[0]}" 2>/dev/null || fail "the head did not start: $(tail -n 20 "$work/head.log")"
    sleep 0.1
done
RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=1 start_node second --address="LOCALHOST:$port"

export RAY_ADDRESS=127.0.0.1:$port
timeout "$START_SECONDS" "$PYTHON" - <<'PY' || fail "no two nodes: $(tail -n 20 "$work"/*.log)"
import time, ray
ray.init(logging_level="error", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < 2:
    time.sleep(0.2)
PY

say "running the demo on both"
timeout "$DEMO_SECONDS" "$PYTHON" -m raygraph demo --executor ray "$@" >"$work/ray.out" 2>"$work/ray.err" &
running=$!
declare -A worked=()
while kill -0 "$running" 2>/dev/null; do
    # A Ray worker carries the name of its task as its title while it runs one.
    for node in "${nodes[@]}"; do
        if ps -o args= --sid "$node" | grep '^ray::' | grep -qvE '^ray::(IDLE|[A-Za-z]*Agent)'; then
            worked[$node]=1
        fi
    done
    sleep 0.1
done
wait "$running" || fail "the demo ended with status $?: $(tail -n 30 "$work/ray.err")"
running=""
cat "$work/ray.out"

say "running it again in one process, to compare"
env -u RAY_ADDRESS timeout "$DEMO_SECONDS" "$PYTHON" -m raygraph demo --executor inline "$@" \
    >"$work/inline.out" 2>"$work/inline.err" &
running=$!
wait "$running" || fail "the comparison ended with status $?: $(tail -n 30 "$work/inline.err")"
running=""

on_ray=$(tail -n 1 "$work/ray.out")
inline=$(tail -n 1 "$work/inline.out")
[[ $on_ray == digest:* ]] || fail "the demo's last line is no digest: $on_ray"
[ "$on_ray" = "$inline" ] || fail "the digests differ: $on_ray on Ray, $inline in one process"
[ "${#worked[@]}" = 2 ] || fail "only ${#worked[@]} of 2 nodes worked"
say "OK: both nodes worked, and the digest is that of a run in one process"
