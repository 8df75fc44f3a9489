#!/usr/bin/env bash
# Uploads through hip-worker over links of a given rate and round trip (tests/bench/delayed_link, TCP on this machine), without a key and with
# one, beside a bare transfer over the same link; medians of ROUNDS. Then the same uploads to a worker that keeps them, the first time and
# again.
#
#   tests/bench/bench_link.sh BUILD_DIR RUNTIME
# RUNTIME: the libamdhip64 of the GPU (the emulated one: BUILD_DIR/tests/hip-emu/libamdhip64.so).
# Environment: ROUNDS (3), UPLOAD (MiB: 256), RATES (Mbit/s: "1000 2500"), DELAYS_US (round trips: "0 500 5000"), CLIENT (another client library).
set -euo pipefail
usage="usage: bench_link.sh BUILD_DIR RUNTIME"
build=$(cd "${1:?$usage}" && pwd) runtime=$(realpath "${2:?$usage}")
client=${CLIENT:-$build/client/hip-remote/libamdhip64.so.6}
upload=${UPLOAD:-256} rounds=${ROUNDS:-3}
dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX")
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$dir"' EXIT

(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$dir/key")
worker() { # NAME OPTION...: starts one; its port is in $port
    local name=$1
    shift
    "$build/daemon/worker/hip-worker" --socket "$dir/$name.sock" --hip-lib "$runtime" --listen 127.0.0.1:0 "$@" 2>"$dir/$name.log" &
    pids+=($!)
    for _ in $(seq 100); do
        grep -q 'listening on 127' "$dir/$name.log" && break
        sleep 0.1
    done
    port=$(grep -o '127\.0\.0\.1:[0-9]*' "$dir/$name.log" | head -n 1 | cut -d: -f2)
    [ -n "$port" ] || { echo "bench_link: hip-worker does not listen" >&2; cat "$dir/$name.log" >&2; exit 1; }
}
next_port=$((20000 + RANDOM % 8000))
link() { # TARGET DELAY_US MBIT_S: a link to a port; its own port is in $near
    near=$((next_port++))
    "$build/tests/bench/delayed_link" "$near" "$1" "$2" "$3" >>"$dir/counts" &
    pids+=($!)
    for _ in $(seq 100); do
        # Listening, seen without a connection that would be passed on.
        grep -q "$(printf ':%04X 00000000:0000 0A' "$near")" /proc/net/tcp && break
        sleep 0.05
    done
}
worker plain
plain_port=$port
worker key --key-file "$dir/key"
key_port=$port
worker keeps --key-file "$dir/key" --blobs "$dir/blobs"
keeps_port=$port

median() { sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }
through() { # PORT [FRESH]: GB/s to the worker behind this port
    HIP_REMOTE_WORKER=tcp:127.0.0.1:$1 "$build/tests/bench/bench_upload" "$client" "$upload" ${2:-}
}
printf '%8s %8s %10s %10s %7s %10s %7s %10s %10s\n' Mbit/s us bare,GB/s plain share key share kept-new kept-again
for rate in ${RATES:-1000 2500}; do
    for delay in ${DELAYS_US:-0 500 5000}; do
        rm -rf "$dir/blobs"/*
        link "$plain_port" "$delay" "$rate"; to_plain=$near
        link "$key_port" "$delay" "$rate"; to_key=$near
        link "$keeps_port" "$delay" "$rate"; to_keeps=$near
        for _ in $(seq "$rounds"); do
            sink=$((next_port++))
            link "$sink" "$delay" "$rate"
            "$build/tests/bench/bench_upload" --link "$upload" "$sink" "$near" >>"$dir/bare"
            through "$to_plain" >>"$dir/plain"
            HIP_REMOTE_KEY_FILE=$dir/key through "$to_key" >>"$dir/key.rates"
        done
        bare=$(median <"$dir/bare") plain=$(median <"$dir/plain") key=$(median <"$dir/key.rates")
        new=$(HIP_REMOTE_KEY_FILE=$dir/key through "$to_keeps" fresh) again=$(HIP_REMOTE_KEY_FILE=$dir/key through "$to_keeps" fresh)
        awk -v r="$rate" -v d="$delay" -v b="$bare" -v p="$plain" -v k="$key" -v n="$new" -v a="$again" 'BEGIN {
            printf "%8d %8d %10.4f %10.4f %7.3f %10.4f %7.3f %10.4f %10.4f\n", r, d, b, p, p / b, k, k / b, n, a }'
        rm "$dir/bare" "$dir/plain" "$dir/key.rates"
    done
done
