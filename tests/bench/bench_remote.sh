#!/usr/bin/env bash
# Decode, prompt and load of a model on the local GPU and on the same GPU through hip-worker, over a Unix socket and over TCP, in turn;
# medians of ROUNDS.
#
#   tests/bench/bench_remote.sh BUILD_DIR MODEL.gguf RUNTIME
# RUNTIME: the libamdhip64 of the GPU (the emulated one: BUILD_DIR/tests/hip-emu/libamdhip64.so). HALO_KERNEL_DIR: its kernels.
# Environment: ROUNDS (5), DECODE (128 tokens), PROMPT (512 tokens), WORKER (addresses of workers to measure too, which run already:
# "tcp:HOST:PORT ...").
set -euo pipefail
usage="usage: bench_remote.sh BUILD_DIR MODEL.gguf RUNTIME"
build=$(cd "${1:?$usage}" && pwd) model=$(realpath "${2:?$usage}") runtime=$(realpath "${3:?$usage}")
client=$build/client/hip-remote/libamdhip64.so.6
dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX")
worker=
trap '[ -z "$worker" ] || kill "$worker"; rm -rf "$dir"' EXIT
: >"$dir/worker.log"
"$build/daemon/worker/hip-worker" --socket "$dir/worker.sock" --listen 127.0.0.1:0 --hip-lib "$runtime" 2>"$dir/worker.log" &
worker=$!
for _ in $(seq 100); do
    grep -q 'listens.*127.0.0.1' "$dir/worker.log" && break
    sleep 0.1
done
port=$(grep -o '127\.0\.0\.1:[0-9]*' "$dir/worker.log" | head -n 1 | cut -d: -f2)
[ -n "$port" ] || { echo "bench_remote: hip-worker does not listen" >&2; cat "$dir/worker.log" >&2; exit 1; }

once() { # NAME LIBRARY [ADDRESS]: appends to NAME.decode, NAME.prompt, NAME.load
    local decode=${DECODE:-128} prompt=${PROMPT:-512} line began ended
    : >"$dir/out"
    began=$(date +%s%N)
    { echo "{\"type\":\"load\",\"id\":1,\"model\":\"$model\",\"params\":{\"context\":$((prompt + decode + 32)),\"kv_tokens\":$((prompt + decode + 32))}}"
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

names=(local unix tcp)
for address in ${WORKER:-}; do names+=("${address//\//_}"); done
for _ in $(seq "${ROUNDS:-5}"); do
    once local "$runtime"
    once unix "$client" "unix:$dir/worker.sock"
    once tcp "$client" "tcp:127.0.0.1:$port"
    for address in ${WORKER:-}; do once "${address//\//_}" "$client" "$address"; done
done
printf '%-28s %12s %8s %12s %8s %12s\n' way decode,tok/s share prompt,tok/s share load,GB/s
for name in "${names[@]}"; do
    awk -v n="$name" -v d="$(median "$name.decode")" -v dl="$(median local.decode)" -v p="$(median "$name.prompt")" \
        -v pl="$(median local.prompt)" -v l="$(median "$name.load")" \
        'BEGIN { printf "%-28s %12.1f %8.3f %12.1f %8.3f %12.2f\n", n, d, d / dl, p, p / pl, l }'
done
