#!/usr/bin/env bash
# Prompt speed of model files by the length of chunks: prompts of 512, 2,048 and 8,192 tokens in chunks of 256 and of 2,048, median of REPEAT.
#
#   tests/bench/bench_chunks.sh BUILD_DIR MODEL.gguf…
# Environment: DEVICE (hip), REPEAT (3), PROMPTS ("512 2048 8192"), CHUNKS ("256 2048").
# A model file with random weights: BUILD_DIR/tests/tools/mkgguf --preset qwen3-8b --type Q4_K_M --seed 1 -o FILE
set -euo pipefail
build=$(cd "${1:?usage: bench_chunks.sh BUILD_DIR MODEL.gguf...}" && pwd)
shift
[ $# -gt 0 ] || { echo "bench_chunks: name a model file" >&2; exit 1; }
read -ra prompts <<<"${PROMPTS:-512 2048 8192}"
read -ra chunks <<<"${CHUNKS:-256 2048}"
longest=0
for n in "${prompts[@]}"; do [ "$n" -le "$longest" ] || longest=$n; done
dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX")
trap 'rm -rf "$dir"' EXIT

requests() { # FILE: a load, and a bench for each prompt and chunk
    local id=1
    echo "{\"type\":\"load\",\"id\":1,\"model\":\"$1\",\"params\":{\"context\":$((longest + 32)),\"kv_tokens\":$((longest + 32))}}"
    for prompt in "${prompts[@]}"; do
        for chunk in "${chunks[@]}"; do
            id=$((id + 1))
            echo "{\"type\":\"bench\",\"id\":$id,\"model\":\"$1\",\"prefill\":$prompt,\"decode\":0,\"chunk\":$chunk,\"repeat\":${REPEAT:-3}}"
        done
    done
}

printf '%-32s %8s %8s %12s %10s\n' model prompt chunk tok/s spread
for file in "$@"; do
    file=$(realpath "$file")
    n=$((${#prompts[@]} * ${#chunks[@]}))
    : >"$dir/out"
    { requests "$file"; while [ "$(grep -c '"type":"\(bench\|error\)"' "$dir/out")" -lt "$n" ] && ! grep -q '"type":"error","id":1[,}]' "$dir/out"; do sleep 0.2; done; } |
        "$build/daemon/engine/halod-engine" --stdio --device "${DEVICE:-hip}" >>"$dir/out"
    grep '"type":"\(bench\|error\)"' "$dir/out" | while read -r line; do
        field() { grep -o "\"$1\":[0-9.]*" <<<"$line" | head -n 1 | cut -d: -f2; }
        case $line in
        *'"type":"error"'*) echo "bench_chunks: $(basename "$file"): $line" >&2 ;;
        *) printf '%-32s %8s %8s %12s %10s\n' "$(basename "$file" .gguf)" "$(field prefill)" "$(field chunk)" "$(field prefill_tok_s)" "$(field prefill_spread_tok_s)" ;;
        esac
    done
done
