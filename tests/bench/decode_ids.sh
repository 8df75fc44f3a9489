#!/usr/bin/env bash
# Whether the ids that a GPU decodes are those that the CPU device finds best.
#
#   tests/bench/decode_ids.sh BUILD_DIR MODEL_DIR MODEL HIP_LIB
#
# 200 ids greedily behind a prompt of 64, through halod and haloctl; then the CPU device scores the same ids. Prints how many
# are its best, in all and where its first two are more than 0.1 nats apart. No pass or fail; 1 when a part did not run.
set -euo pipefail
build=${1:?usage: decode_ids.sh BUILD_DIR MODEL_DIR MODEL HIP_LIB} models=${2:?} model=${3:?} lib=${4:?}
n_prompt=64 n=200
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT

# Answers to the request lines of stdin, on device $1.
ask() {
    "$build/daemon/serve/halod" --socket "$work/$1" --model-dir "$models" --state-dir "$work/state.$1" --device "$1" --hip-lib "$lib" \
        --engine "$build/daemon/engine/halod-engine" 2>"$work/log.$1" &
    daemon=$!
    for _ in $(seq 100); do [ -S "$work/$1" ] && break || sleep 0.05; done
    "$build/client/haloctl" --socket "$work/$1" raw >"$work/out.$1" || true # what it says of an error stands in its answer
    kill "$daemon"
    wait "$daemon" || true
    daemon=
    if grep '"type":"error"' "$work/out.$1" >&2; then exit 1; fi
}

prompt=$(awk -v n=$n_prompt 'BEGIN { for (i = 1; i <= n; i++) printf "%s%d", (i > 1 ? "," : ""), 1 + i * 7919 % 900 }')
printf '{"type":"generate","id":1,"model":"%s","tokens":[%s],"max_tokens":%d,"temperature":0,"ignore_eos":true,"emit_token_ids":true}\n' \
    "$model" "$prompt" $n | ask hip
sed -n 's/.*"type":"committed".*"tok_id":\([0-9]*\).*/\1/p' "$work/out.hip" >"$work/ids"
[ "$(wc -l <"$work/ids")" -eq $n ] || { echo "decode_ids: $(wc -l <"$work/ids") ids instead of $n" >&2; exit 1; }
printf '{"type":"score","id":1,"model":"%s","tokens":[%s,%s],"top":2,"from":%d}\n' "$model" "$prompt" "$(paste -sd, "$work/ids")" \
    $((n_prompt - 1)) | ask cpu
# Row n_prompt - 1 + i is what the CPU expects in the place of id i: best id, its logprob, the second's.
sed -n 's/.*"type":"score_row".*"pos":\([0-9]*\),.*"top":\[\[\([0-9]*\),\([^]]*\)\],\[[0-9]*,\([^]]*\)\]\].*/\1 \2 \3 \4/p' "$work/out.cpu" |
    awk -v first=$((n_prompt - 1)) -v n=$n -v model="$model" '
        FILENAME != "-" { id[FNR - 1] = $1; next }
        $1 - first < n { rows++; gap = $3 - $4; same = $2 == id[$1 - first]; all += same
            if (gap > 0.1) { decisive++; good += same }
            if (!same && gap > worst) worst = gap }
        END { if (rows != n) { print "decode_ids: " rows " rows of the score instead of " n; exit 1 }
            printf "%s: %d ids, %d are the best of the CPU device, %d of the %d where its first two are more than 0.1 nats apart; " \
                "largest gap where not %.4f\n", model, n, all, good, decisive, worst }' "$work/ids" -
