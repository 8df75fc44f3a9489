#!/usr/bin/env bash
# Another engine and halod on the CPU, side by side in one run: prompt and decode speed of the same files, and the shares of the memory
# bandwidth measured in that run. Only ratios of one run say anything: machines differ, and so does one machine from hour to hour.
#
#   tests/bench/peer.sh PEER_BENCH BUILD_DIR [TYPE|MODEL.gguf…]     (default: Q8_0 Q4_0 Q4_K_M F16)
# PEER_BENCH takes the arguments of llama.cpp's llama-bench (-m -p -n -t -r -o json) and prints its JSON. A TYPE is a random model in
# the shape of Qwen3-0.6B. Each round starts a fresh process of each engine, by turns and with the other one first in every other round.
# Environment: ROUNDS (5), THREADS (2), PROMPT (64), DECODE (64), REPEAT (3: runs of a process: the peer prints their mean, halod their
# median), VARIANT (the best; avx2, reference), HALO_BENCH_DIR (where the files go; default: a temporary folder, removed at the end).
# Exit status: 0 measured, 1 an engine gave no figures, 2 usage.
# VARIANT is halod's alone: llama.cpp chooses among the libggml-cpu-*.so beside its binary, so leave it the one of the same instruction set
# (haswell for avx2). The peer warms up before it measures and halod does not: with REPEAT below 3 halod's figure has a cold run in it.
set -uo pipefail
usage() { sed -n '5,10p' "$0" | cut -c3- >&2; exit 2; }
[ $# -ge 2 ] || usage
. "$(dirname "$0")/speed.sh"
peer=$(command -v "$1") && build=$(cd "$2" && pwd) || usage
shift 2
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(Q8_0 Q4_0 Q4_K_M F16)
rounds=${ROUNDS:-5} threads=${THREADS:-2} prompt=${PROMPT:-64} decode=${DECODE:-64} repeat=${REPEAT:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/halod-peer.XXXXXX")
trap 'rm -rf "$work"' EXIT
dir=${HALO_BENCH_DIR:-$work}

# PROMPT_TOK_S DECODE_TOK_S of a file. The members of an object may come in any order.
run_peer() {
    "$peer" -m "$1" -p "$prompt" -n "$decode" -t "$threads" -r "$repeat" -o json 2>"$work/stderr" |
        sed 's/[{}]/\n&\n/g; s/,/\n/g' | tr -d ' "\t' |
        awk -F: -v p="$prompt" -v d="$decode" '
            $1 == "{" { n_prompt = n_gen = speed = "" }
            $1 == "n_prompt" { n_prompt = $2 }
            $1 == "n_gen" { n_gen = $2 }
            $1 == "avg_ts" { speed = $2 }
            $1 == "}" && n_prompt == p && n_gen == 0 { of_prompt = speed }
            $1 == "}" && n_prompt == 0 && n_gen == d { of_decode = speed }
            END { if (of_prompt + 0 > 0 && of_decode + 0 > 0) print of_prompt, of_decode; else exit 1 }' ||
        { echo "peer.sh: $peer printed no speed of a prompt of $prompt and a decode of $decode:" >&2; tail -n 5 "$work/stderr" >&2; return 1; }
}

measure() { # peer|halod FILE
    case $1 in
    peer) run_peer "$2" ;;
    halod) speed_halod "$build" "$2" "$threads" "$prompt" "$decode" "$repeat" ;;
    esac >>"$work/$1" || { echo "peer.sh: no figures of $1" >&2; exit 1; }
}

# The figures of one model: medians, least and greatest of the rounds, and ratios of the medians.
summary() {
    awk -v name="$1" '
        function sorted(side, column, ret,    i, j, x) {
            for (i = 1; i <= n[side]; i++) {
                x = value[side, i, column]
                for (j = i; j > 1 && ret[j - 1] > x; j--) ret[j] = ret[j - 1]
                ret[j] = x
            }
            return n[side] % 2 ? ret[(n[side] + 1) / 2] : (ret[n[side] / 2] + ret[n[side] / 2 + 1]) / 2
        }
        function shown(side, column,    s, m) { m = sorted(side, column, s); return sprintf("%.1f (%.1f to %.1f)", m, s[1], s[n[side]]) }
        function median(side, column,    s) { return sorted(side, column, s) }
        { side = FILENAME ~ /peer$/ ? "peer" : "halod"; n[side]++; for (c = 1; c <= NF; c++) value[side, n[side], c] = $c + 0 }
        END {
            share = median("halod", 4)
            printf("| %s | %s | %s | %.2f | %s | %s | %.2f | %.1f | %.0f %% | %.0f %% |\n", name, shown("peer", 1), shown("halod", 1),
                median("halod", 1) / median("peer", 1), shown("peer", 2), shown("halod", 2), median("halod", 2) / median("peer", 2),
                median("halod", 3), 100 * share * median("peer", 2) / median("halod", 2), 100 * share)
        }' "$work/peer" "$work/halod"
}

echo "$rounds rounds, $threads threads, prompt $prompt, decode $decode, tok/s: median (lowest to highest); ratios are halod / peer"
echo
echo '| model | prompt: peer | halod | ratio | decode: peer | halod | ratio | GB/s | peer | halod |'
echo '|---|---|---|---|---|---|---|---|---|---|'
for model in "${models[@]}"; do
    file=$model
    case $model in *.gguf) ;; *) file=$(speed_model "$build" "$dir" "$model") || exit 1 ;; esac
    : >"$work/peer"
    : >"$work/halod"
    for ((round = 0; round < rounds; round++)); do
        if ((round % 2)); then order=(halod peer); else order=(peer halod); fi
        for side in "${order[@]}"; do measure "$side" "$file"; done
    done
    summary "$(basename "$model" .gguf)"
    case $model in *.gguf) ;; *) [ "$dir" != "$work" ] || rm -f "$file" ;; esac
done
