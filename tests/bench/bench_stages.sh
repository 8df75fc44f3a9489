#!/usr/bin/env bash
# A model on one GPU, divided over two GPUs of this machine, and divided over two workers with one of them each (Unix sockets), in turn:
# decode and prompt by `bench`, medians of ROUNDS; the ids of a greedy reply; what each GPU holds, if nvidia-smi says so.
#
#   tests/bench/bench_stages.sh BUILD_DIR MODEL.gguf RUNTIME
# RUNTIME: the libamdhip64 of the GPUs (the emulated one, with HALO_HIP_EMU_GPUS=2: BUILD_DIR/tests/hip-emu/libamdhip64.so; its workers have two
# GPUs each). HALO_KERNEL_DIR: its kernels. Environment: ROUNDS (3), DECODE (64 tokens), PROMPT (128 tokens).
set -euo pipefail
usage="usage: bench_stages.sh BUILD_DIR MODEL.gguf RUNTIME"
build=$(cd "${1:?$usage}" && pwd) model=$(realpath "${2:?$usage}") runtime=$(realpath "${3:?$usage}")
client=$build/client/hip-remote/libamdhip64.so.6 decode=${DECODE:-64} prompt=${PROMPT:-128}
dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX")
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done; rm -rf "$dir"' EXIT

for gpu in 0 1; do
    HIP_VISIBLE_DEVICES=$gpu CUDA_VISIBLE_DEVICES=$gpu "$build/daemon/worker/hip-worker" --socket "$dir/$gpu.sock" --hip-lib "$runtime" 2>"$dir/$gpu.log" &
    pids+=($!)
done
for gpu in 0 1; do
    for _ in $(seq 100); do
        [ ! -S "$dir/$gpu.sock" ] || break
        sleep 0.1
    done
done

context=$((prompt + 2 * decode + 64))
tokens=$(seq -s , 1000 "$((1000 + 31))")
await() { # TYPE: of an answer
    until grep -q "\"type\":\"\($1\|error\)\"" "$dir/out"; do sleep 0.05; done
}
once() { # NAME ENGINE_OPTION...: appends to NAME.decode and NAME.prompt; NAME.ids, NAME.memory
    local name=$1 line
    shift
    : >"$dir/out"
    { echo "{\"type\":\"load\",\"id\":1,\"model\":\"$model\",\"params\":{\"context\":$context,\"kv_tokens\":$((2 * context))}}"
      await loaded
      echo "{\"type\":\"bench\",\"id\":2,\"model\":\"$model\",\"prefill\":$prompt,\"decode\":$decode,\"repeat\":3}"
      await bench
      { nvidia-smi --query-gpu=memory.used --format=csv,noheader 2>/dev/null || true; } | tr '\n' ' ' >"$dir/$name.memory"
      echo "{\"type\":\"generate\",\"id\":3,\"model\":\"$model\",\"tokens\":[${TOKENS:-$tokens}],\"max_tokens\":$decode,\"temperature\":0,\"ignore_eos\":true,\"emit_token_ids\":true,\"stream\":false}"
      await done
      echo '{"type":"stats","id":4}'
      echo '{"type":"status","id":5}'
      await status; } |
        "$build/daemon/engine/halod-engine" --stdio --no-sandbox --device hip "$@" >>"$dir/out" 2>"$dir/err"
    if grep '"type":"error"' "$dir/out" >&2; then
        tail -n 3 "$dir/err" >&2
        exit 1
    fi
    line=$(grep '"type":"bench"' "$dir/out")
    grep -o '"decode_tok_s":[0-9.]*' <<<"$line" | cut -d: -f2 >>"$dir/$name.decode"
    grep -o '"prefill_tok_s":[0-9.]*' <<<"$line" | cut -d: -f2 >>"$dir/$name.prompt"
    grep -o '"tok_id":[0-9]*' "$dir/out" | cut -d: -f2 | tr '\n' ' ' >"$dir/$name.ids"
    [ -z "${KEEP:-}" ] || cp "$dir/out" "$KEEP/$name.out"
}
median() { sort -n "$dir/$1" | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

for _ in $(seq "${ROUNDS:-3}"); do
    once "one GPU" --hip-lib "$runtime"
    once "two GPUs" --hip-lib "$runtime" --gpus 2
    once "two workers" --hip-lib "$client" --remote "unix:$dir/0.sock,unix:$dir/1.sock"
done
printf '%-12s %14s %14s  %s\n' way decode,tok/s prompt,tok/s 'memory in use'
for name in "one GPU" "two GPUs" "two workers"; do
    printf '%-12s %14.1f %14.1f  %s\n' "$name" "$(median "$name.decode")" "$(median "$name.prompt")" "$(cat "$dir/$name.memory")"
done
for name in "two GPUs" "two workers"; do
    awk -v name="$name" 'NR == FNR { for (i = 1; i <= NF; i++) one[i] = $i; next }
        { for (i = 1; i <= NF && $i == one[i]; i++) n++; print name ": the first " n + 0 " of " NF " ids are those of one GPU" }' "$dir/one GPU.ids" "$dir/$name.ids"
done
cmp -s "$dir/two GPUs.ids" "$dir/two workers.ids" && echo "two workers: the ids of two GPUs" || echo "two workers: OTHER ids than two GPUs"
