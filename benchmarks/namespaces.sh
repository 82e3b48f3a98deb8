#!/usr/bin/env bash
# Two "hosts" on this machine, joined in one Ray cluster: network namespaces with nothing between them but a cable.
#
#   sudo benchmarks/namespaces.sh [--apart DIR] [COMMAND...]
#
# COMMAND runs on the first host, 10.99.0.1, which has one CPU, as has the second, 10.99.0.2; there is no way out of
# either. RAY_ADDRESS is set for it, and with grpcio installed Ray's client server listens at ray://10.99.0.1:10001.
# By default COMMAND is: cts run --ray auto --workers 2
# --apart DIR hides DIR from the second host (a tmpfs is mounted over it), so that the hosts share no storage there.
# Its exit code is COMMAND's. All is torn down at the end, however it ends.
set -euo pipefail

apart=""
if [[ "${1:-}" == --apart ]]; then
    mkdir -p "${2:?--apart takes a directory}"
    apart=$(realpath "$2")
    shift 2
fi
bin=$(cd "$(dirname "$0")/../.venv/bin" && pwd)
(($#)) || set -- "$bin/cts" run --ray auto --workers 2

one=cts-one-$$ two=cts-two-$$
head=10.99.0.1 second=10.99.0.2 port=6379
temp=$(mktemp -d /tmp/ctsns.XXXX)
# Ray takes code from whoever has its token, and from anybody where there is none.
# And its client server forks, which newer versions of grpcio cannot bear unless told so.
export GRPC_ENABLE_FORK_SUPPORT=0
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

on() { ip netns exec "$@"; }

tear_down() {
    trap - EXIT
    for host in "$one" "$two"; do
        for signal in TERM KILL; do
            pids=$(ip netns pids "$host" 2>/dev/null) || continue
            [[ -z "$pids" ]] || kill "-$signal" $pids 2>/dev/null || true
            for _ in 1 2 3 4 5 6 7 8 9 10; do
                [[ -n "$(ip netns pids "$host")" ]] || break
                sleep 0.2
            done
        done
        ip netns delete "$host" 2>/dev/null || true
    done
    rm -rf "$temp"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

ip netns add "$one"
ip netns add "$two"
ip -netns "$one" link add cable type veth peer name cable netns "$two"
ip -netns "$one" address add "$head/24" dev cable
ip -netns "$two" address add "$second/24" dev cable
for host in "$one" "$two"; do
    ip -netns "$host" link set lo up
    ip -netns "$host" link set cable up
done

mkdir "$temp/1" "$temp/2"
start="$bin/ray start --num-cpus=1 --object-store-memory=80000000 --disable-usage-stats"
# A host name and a /tmp of its own are what makes another machine of it.
host_two='set -e
    hostname cts-two
    [[ -z "$1" ]] || mount -t tmpfs tmpfs "$1"
    shift
    exec "$@"'
client=""
! "$bin/python" -c "import grpc" 2>/dev/null || client=--ray-client-server-port=10001
on "$one" $start --head --node-ip-address="$head" --port="$port" $client --include-dashboard=false \
    --temp-dir="$temp/1" >"$temp/one.log" 2>&1 || { cat "$temp/one.log" >&2; exit 1; }
on "$two" unshare --uts --mount bash -c "$host_two" two "$apart" $start --address="$head:$port" \
    --node-ip-address="$second" --temp-dir="$temp/2" >"$temp/two.log" 2>&1 || { cat "$temp/two.log" >&2; exit 1; }

status=0
RAY_ADDRESS="$head:$port" on "$one" "$@" || status=$?
exit "$status"
