#!/usr/bin/env bash
# Decode, prompt and load of a model on the local GPU and on the same GPU through hip-worker: over a Unix socket, over TCP, over TCP with a
# key (encrypted), and over a link that delays, in turn; medians of ROUNDS. Then the requests of a decode step, counted on the wire; then
# uploads: a bare socket, the local runtime, and the same through the worker, the first time and again to a worker that keeps them.
#
#   tests/bench/bench_remote.sh BUILD_DIR MODEL.gguf RUNTIME
# RUNTIME: the libamdhip64 of the GPU (the emulated one: BUILD_DIR/tests/hip-emu/libamdhip64.so). HALO_KERNEL_DIR: its kernels.
# Environment: ROUNDS (5), DECODE (128 tokens), PROMPT (512 tokens), DELAYS_US (round trips: "500 5000"), UPLOAD (MiB: 2048),
# WORKER (addresses of workers to measure too, which run already: "tcp:HOST:PORT ...").
#
# `formula`: the decode that is left of the local one when each step waits for one round trip more, as a share.
set -euo pipefail
usage="usage: bench_remote.sh BUILD_DIR MODEL.gguf RUNTIME"
build=$(cd "${1:?$usage}" && pwd) model=$(realpath "${2:?$usage}") runtime=$(realpath "${3:?$usage}")
client=$build/client/hip-remote/libamdhip64.so.6
delays=${DELAYS_US-500 5000} tokens=${DECODE:-128} upload=${UPLOAD:-2048}
dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX")
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$dir"' EXIT

(umask 077; head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >"$dir/key")
worker() { # NAME OPTION...: starts one; its socket is DIR/NAME.sock
    local name=$1
    shift
    "$build/daemon/worker/hip-worker" --socket "$dir/$name.sock" --hip-lib "$runtime" "$@" 2>"$dir/$name.log" &
    pids+=($!)
    for _ in $(seq 100); do
        grep -q 'listening on .*sock' "$dir/$name.log" && break
        sleep 0.1
    done
}
port() { # NAME: its port
    for _ in $(seq 100); do
        grep -q 'listening on 127' "$dir/$1.log" && break
        sleep 0.1
    done
    grep -o '127\.0\.0\.1:[0-9]*' "$dir/$1.log" | head -n 1 | cut -d: -f2
}
link() { # NAME DELAY_US: a link DIR/NAME.sock to the plain worker
    "$build/tests/bench/delayed_link" "$dir/$1.sock" "$dir/plain.sock" "$2" >"$dir/$1.counts" &
    pids+=($!)
    while [ ! -S "$dir/$1.sock" ]; do sleep 0.1; done
}
worker plain --listen 127.0.0.1:0
worker key --listen 127.0.0.1:0 --key-file "$dir/key"
plain_port=$(port plain) key_port=$(port key)
[ -n "$plain_port" ] && [ -n "$key_port" ] || { echo "bench_remote: hip-worker does not listen" >&2; cat "$dir"/*.log >&2; exit 1; }
link counted 0
for delay in $delays; do link "delay-$delay" "$delay"; done

once() { # NAME LIBRARY [ADDRESS [DECODE]]: appends to NAME.decode, NAME.prompt, NAME.load
    local decode=${4:-$tokens} prompt=${PROMPT:-512} line began ended
    : >"$dir/out"
    began=$(date +%s%N)
    { echo "{\"type\":\"load\",\"id\":1,\"model\":\"$model\",\"params\":{\"context\":$((prompt + 2 * tokens + 32)),\"kv_tokens\":$((prompt + 2 * tokens + 32))}}"
      while ! grep -q '"type":"\(loaded\|error\)"' "$dir/out"; do sleep 0.02; done
      date +%s%N >"$dir/loaded"
      echo "{\"type\":\"bench\",\"id\":2,\"model\":\"$model\",\"prefill\":$prompt,\"decode\":$decode,\"repeat\":3}"
      while ! grep -q '"type":"\(bench\|error\)"' "$dir/out"; do sleep 0.1; done; } |
        HIP_REMOTE_WORKER=${3:-} "$build/daemon/engine/halod-engine" --stdio --no-sandbox --device hip --hip-lib "$2" >>"$dir/out" 2>"$dir/err"
    line=$(grep '"type":"bench"' "$dir/out") || { echo "bench_remote: $1: $(grep '"type":"error"' "$dir/out") $(tail -n 3 "$dir/err")" >&2; exit 1; }
    ended=$(cat "$dir/loaded")
    grep -o '"decode_tok_s":[0-9.]*' <<<"$line" | cut -d: -f2 >>"$dir/$1.decode"
    grep -o '"prefill_tok_s":[0-9.]*' <<<"$line" | cut -d: -f2 >>"$dir/$1.prompt"
    awk -v b="$(stat -c %s "$model")" -v ns=$((ended - began)) 'BEGIN { print b / ns }' >>"$dir/$1.load"
}
median() { sort -n "$dir/$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

names=(local unix tcp tcp-key)
for delay in $delays; do names+=("delay-$delay"); done
for address in ${WORKER:-}; do names+=("${address//\//_}"); done
for _ in $(seq "${ROUNDS:-5}"); do
    once local "$runtime"
    once unix "$client" "unix:$dir/plain.sock"
    once tcp "$client" "tcp:127.0.0.1:$plain_port"
    HIP_REMOTE_KEY_FILE=$dir/key once tcp-key "$client" "tcp:127.0.0.1:$key_port"
    for delay in $delays; do once "delay-$delay" "$client" "unix:$dir/delay-$delay.sock"; done
    for address in ${WORKER:-}; do once "${address//\//_}" "$client" "$address"; done
done
printf '%-28s %12s %8s %8s %12s %8s %12s\n' way decode,tok/s share formula prompt,tok/s share load,GB/s
for name in "${names[@]}"; do
    awk -v n="$name" -v d="$(median "$name.decode")" -v dl="$(median local.decode)" -v p="$(median "$name.prompt")" \
        -v pl="$(median local.prompt)" -v l="$(median "$name.load")" -v us="$([[ $name != delay-* ]] || echo "${name#delay-}")" \
        'BEGIN { printf "%-28s %12.1f %8.3f %8s %12.1f %8.3f %12.2f\n", n, d, d / dl, us == "" ? "" : sprintf("%.3f", 1 / (1 + dl * us * 1e-6)), p, p / pl, l }'
done

# Two benches that differ in their steps alone.
once counted "$client" "unix:$dir/counted.sock" "$tokens"
once counted "$client" "unix:$dir/counted.sock" $((2 * tokens))
while [ "$(wc -l <"$dir/counted.counts")" -lt 2 ]; do sleep 0.1; done
awk -v n="$tokens" '{ up[NR] = $1; down[NR] = $2; frames[NR] = $3; answered[NR] = $4 }
    END { n *= 3; printf "a decode step: %.2f requests, %.2f of them answered; %.0f bytes up, %.0f down\n", (frames[2] - frames[1]) / n,
          (answered[2] - answered[1]) / n, (up[2] - up[1]) / n, (down[2] - down[1]) / n }' "$dir/counted.counts"

worker keeps --blobs "$dir/blobs"
rate() { # NAME LIBRARY [ADDRESS]: of three runs, but of the first alone with FRESH
    local n=3
    [ -z "${FRESH:-}" ] || n=1
    for _ in $(seq $n); do
        HIP_REMOTE_WORKER=${3:-} "$build/tests/bench/bench_upload" "$2" "$upload" ${FRESH:-}
    done | sort -n | awk -v n="$1" '{ x[NR] = $0 } END { printf "%-28s %s\n", n, x[int((NR + 1) / 2)] }'
}
echo "uploads of $upload MiB"
rate "bare Unix socket" --socket
rate local "$runtime"
rate unix "$client" "unix:$dir/plain.sock"
rate tcp "$client" "tcp:127.0.0.1:$plain_port"
HIP_REMOTE_KEY_FILE=$dir/key rate tcp-key "$client" "tcp:127.0.0.1:$key_port"
for delay in $delays; do rate "delay-$delay" "$client" "unix:$dir/delay-$delay.sock"; done
FRESH=fresh rate "kept, first time" "$client" "unix:$dir/keeps.sock"
FRESH=fresh rate "kept, again" "$client" "unix:$dir/keeps.sock"
