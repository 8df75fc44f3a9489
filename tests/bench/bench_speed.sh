#!/usr/bin/env bash
# Decode and prompt speed of a random model in the shape of Qwen3-0.6B, beside the memory bandwidth measured in the same run.
#
#   tests/bench/bench_speed.sh BUILD_DIR [TYPE…]        (default types: Q8_0 Q4_0 Q4_K_M F16)
# Environment: THREADS (2), REPEAT (5), VARIANT (the best; avx2, reference), HALO_BENCH_DIR (where the files go; default: a temporary folder, removed at the end).
#
# The last columns compare with a known C++ engine measured on a 2-core Zen 1 machine that reads 22.5 GB/s with two threads: its
# figures are scaled by the bandwidth of this run, so a ratio of 1 means the same share of the memory's speed.
set -euo pipefail
build=$(cd "${1:?usage: bench_speed.sh BUILD_DIR [TYPE...]}" && pwd)
shift
types=("$@")
[ ${#types[@]} -gt 0 ] || types=(Q8_0 Q4_0 Q4_K_M F16)
threads=${THREADS:-2} repeat=${REPEAT:-5}
dir=${HALO_BENCH_DIR:-}
if [ -z "$dir" ]; then dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX"); trap 'rm -rf "$dir"' EXIT; fi

declare -A peer_prompt=([Q8_0]=43.8 [Q4_0]=53.0 [Q4_K_M]=56.9 [F16]=36.4) peer_decode=([Q8_0]=21.0 [Q4_0]=23.6 [Q4_K_M]=22.6 [F16]=8.8)
peer_bandwidth=22.5

printf '%-8s %8s %10s %10s %9s %7s %14s %14s\n' type MiB 'prompt/s' 'decode/s' 'GB/s' share 'prompt ratio' 'decode ratio'
for type in "${types[@]}"; do
    file=$dir/qwen3-0.6b-$type.gguf
    [ -f "$file" ] || "$build/tests/tools/mkgguf" --preset qwen3-0.6b --type "$type" --seed 1 -o "$file" >/dev/null
    result=$(printf '%s\n' \
        "{\"type\":\"load\",\"id\":1,\"model\":\"$file\",\"params\":{\"context\":2048,\"kv_tokens\":4096}}" \
        "{\"type\":\"bench\",\"id\":2,\"model\":\"$file\",\"prefill\":64,\"decode\":64,\"repeat\":$repeat}" |
        { cat; while ! grep -q '"type":"\(bench\|error\)"' "$dir/out" 2>/dev/null; do sleep 0.2; done; } |
        "$build/daemon/engine/halod-engine" --stdio --device cpu --threads "$threads" ${VARIANT:+--variant "$VARIANT"} | tee "$dir/out" | grep '"type":"\(bench\|error\)"' | tail -n 1)
    rm -f "$dir/out"
    field() { grep -o "\"$1\":[0-9.]*" <<<"$result" | head -n 1 | cut -d: -f2; }
    prompt=$(field prefill_tok_s) decode=$(field decode_tok_s) bandwidth=$(field bandwidth_gb_s) share=$(field bandwidth_share)
    [ -n "$decode" ] || { echo "bench_speed: $type: $result" >&2; exit 1; }
    mib=$(($(stat -c %s "$file") >> 20))
    awk -v type="$type" -v mib="$mib" -v p="$prompt" -v d="$decode" -v bw="$bandwidth" -v share="$share" -v pp="${peer_prompt[$type]:-0}" \
        -v pd="${peer_decode[$type]:-0}" -v pbw="$peer_bandwidth" 'BEGIN {
            prompt_ratio = (pp > 0) ? sprintf("%.2f", p / (pp * bw / pbw)) : "-"
            decode_ratio = (pd > 0) ? sprintf("%.2f", d / (pd * bw / pbw)) : "-"
            printf("%-8s %8d %10.1f %10.1f %9.1f %6.0f%% %14s %14s\n", type, mib, p, d, bw, share * 100, prompt_ratio, decode_ratio) }'
done
