#!/usr/bin/env bash
# Decode and prompt speed of a random model in the shape of Qwen3-0.6B, beside the memory bandwidth measured in the same run.
#
#   tests/bench/bench_speed.sh BUILD_DIR [TYPE…]        (default types: Q8_0 Q4_0 Q4_K_M F16)
# Environment: THREADS (2), REPEAT (5), VARIANT (the best; avx2, reference), HALO_BENCH_DIR (where the files go; default: a temporary folder, removed at the end).
# peer.sh measures another engine beside halod in one run.
set -euo pipefail
. "$(dirname "$0")/speed.sh"
build=$(cd "${1:?usage: bench_speed.sh BUILD_DIR [TYPE...]}" && pwd)
shift
types=("$@")
[ ${#types[@]} -gt 0 ] || types=(Q8_0 Q4_0 Q4_K_M F16)
dir=${HALO_BENCH_DIR:-}
if [ -z "$dir" ]; then dir=$(mktemp -d "${TMPDIR:-/tmp}/halod-bench.XXXXXX"); trap 'rm -rf "$dir"' EXIT; fi

printf '%-8s %8s %10s %10s %9s %7s\n' type MiB 'prompt/s' 'decode/s' 'GB/s' share
for type in "${types[@]}"; do
    file=$(speed_model "$build" "$dir" "$type")
    figures=$(speed_halod "$build" "$file" "${THREADS:-2}" 64 64 "${REPEAT:-5}")
    read -r prompt decode bandwidth share <<<"$figures"
    awk -v type="$type" -v mib="$(($(stat -c %s "$file") >> 20))" -v p="$prompt" -v d="$decode" -v bw="$bandwidth" -v share="$share" \
        'BEGIN { printf("%-8s %8d %10.1f %10.1f %9.1f %6.0f%%\n", type, mib, p, d, bw, share * 100) }'
done
