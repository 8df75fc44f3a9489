#!/usr/bin/env bash
# What `plan` says of a mixture's slots is what `load` makes, and what `plan` calls too small `load` refuses.
# Arguments: ENGINE MKGGUF.
set -euo pipefail
engine=$1 mkgguf=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/halo-plan-load.XXXXXX")
trap 'rm -rf "$work"' EXIT
model=$work/m.gguf
"$mkgguf" --arch qwen3moe --layers 6 --embd 256 --heads 4 --heads-kv 2 --head-dim 64 --ff 512 --experts 16 --experts-used 2 \
    --ff-expert 256 --vocab 1024 --type Q4_K_M -o "$model" >/dev/null

# Longer pieces of a prompt fit in its budgets, and a pool of several contexts. Holes where the matrices are: nothing computes.
large=$work/large.gguf
"$mkgguf" --arch qwen3moe --layers 12 --embd 256 --heads 4 --heads-kv 2 --head-dim 64 --ff 512 --experts 128 --experts-used 2 \
    --ff-expert 1024 --vocab 1024 --type Q4_K_M --sparse -o "$large" >/dev/null

n=0 n_loaded=0 n_refused=0 bad=0
compare() { # MODEL PARAMS BUDGET...
    local model=$1 params="\"params\":{$2,\"tiers\":\"stream\"" budget plan load planned loaded
    for budget in "${@:3}"; do
        { printf '{"type":"plan","id":1,"path":"%s",%s},"budget_bytes":%d}\n' "$model" "$params" "$budget"
          printf '{"type":"load","id":2,"model":"%s",%s,"budget_bytes":%d}}\n' "$model" "$params" "$budget"
        } | "$engine" --stdio --device cpu --threads 2 --no-sandbox >"$work/answers" 2>"$work/log"
        plan=$(grep '"type":"plan"' "$work/answers") || { cat "$work/answers" "$work/log"; exit 1; }
        load=$(grep -E '"type":"(loaded|error)","id":2' "$work/answers") || { cat "$work/answers" "$work/log"; exit 1; }
        n=$((n + 1))
        planned=$(sed -n 's/.*"slots":\([0-9]*\),"slot_bytes".*/\1/p' <<<"$plan")
        case $load in
        *'"type":"loaded"'*) loaded=$(sed -n 's/.*"n_slots":\([0-9]*\).*/\1/p' <<<"$load") n_loaded=$((n_loaded + 1)) ;;
        *) loaded="" n_refused=$((n_refused + 1)) ;;
        esac
        if [ "$planned" = "$loaded" ]; then echo "ok $n - $budget bytes: ${planned:-refused}${planned:+ slots}"
        else
            echo "not ok $n - $budget bytes: plan says ${planned:-refused}, load makes ${loaded:-nothing}"
            printf '%s\n' "$plan" "$load" | cut -c1-600
            bad=1
        fi
    done
}
compare "$model" '"context":256,"kv_tokens":256' 6000000 9000000 12000000 14500000 17000000 20000000 40000000
compare "$large" '"context":1024' 200000000 500000000 720000000
[ "$n_loaded" -ge 5 ] && [ "$n_refused" -ge 1 ] || { echo "not ok - $n_loaded loads and $n_refused refusals compare nothing"; bad=1; }
exit "$bad"
