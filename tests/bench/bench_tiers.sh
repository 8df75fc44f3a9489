#!/usr/bin/env bash
# Streamed models on the CPU device: the speed that `plan` predicts beside the measured one, and both beside their bounds.
#
#   tests/bench/bench_tiers.sh BUILD_DIR
# Environment:
#   PRESETS   of mkgguf ("qwen3-30b-a3b zipf-30b-a3b": routers that choose every expert alike, and by Zipf's law; 18.5 GB each);
#             of a dense one layers stream, where it does not fit the budget of the setting
#   SHAPE     more options of mkgguf, for a small model: "--layers 4 --vocab 4000"
#   SETTINGS  budget:threads ("8G:N 12G:N 4G:N 8G:N/2 12G:N/2", N processors)
#   PROMPT, WARM, DECODE  tokens of the prompt, decoded to fill the cache, and decoded for the clock (1000, 100, 200)
#   POINT_MS  of each point that profile measures (80)
#   LONG      tokens of a run in ten parts with the first setting (10000; 0: none)
#   RESIDENT  1: also with all weights in memory: what computing alone takes (needs memory for the whole file)
#   MAPPED    tokens read through the mapping before the clock and for it (WARM and DECODE); 0: none
#   TERMS     1: also the terms of each prediction, and how long a token waited for the drive
#   HALO_BENCH_DIR  where the models go: on the drive to be measured (a temporary folder, removed at the end)
#
# Of each setting:
#   predicted, measured, ratio   tok/s; `plan` with the profile that `haloctl profile` stores, and the law that the routers follow
#   hit, hit plan                share of the experts' bytes that were found in memory, and what the plan assumed (0 and 1 without experts)
#   MB/token, GB/s               read from disk for a token, and how fast
#   of bound                     measured / bound, which is 1 / max(token bytes / memory, miss bytes / disk) with the run's miss bytes
#   prompt s, of bound           PROMPT tokens in one go; the bound is the larger of the experts not in memory / disk and, with RESIDENT,
#                                the time with all weights in memory
#   mapped, ratio                tok/s of bench_mapped, which reads the bytes of as many experts through a mapping of the file, and how many
#                                times that was measured; "-" where no control group can be made
# Where a control group (version 2) can be made, the engine and bench_mapped run in it, one after the other, with the budget and 1 GiB as
# the limit of both. The page cache is emptied of the file before.
set -euo pipefail
build=$(cd "${1:?usage: bench_tiers.sh BUILD_DIR}" && pwd)
n_cpu=$(nproc) half=$((($(nproc) + 1) / 2))
presets=${PRESETS:-qwen3-30b-a3b zipf-30b-a3b}
settings=${SETTINGS:-8G:$n_cpu 12G:$n_cpu 4G:$n_cpu 8G:$half 12G:$half}
prompt=${PROMPT:-1000} warm=${WARM:-100} decode=${DECODE:-200} long=${LONG:-10000} resident=${RESIDENT:-0} terms=${TERMS:-0}
longest=$((long / 10 > decode ? long / 10 : decode))
context=$(((prompt > longest + 1 ? prompt : longest + 1) + 64))
dir=${HALO_BENCH_DIR:-}
if [ -z "$dir" ]; then dir=$(mktemp -d "${TMPDIR:-/var/tmp}/halod-bench.XXXXXX"); keep=; else keep=1; fi
work=$(mktemp -d)
group= engine_pid=
clean() {
    [ -z "$engine_pid" ] || kill "$engine_pid" 2>/dev/null || true
    [ -n "$keep" ] || rm -rf "$dir"
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
    rm -rf "$work"
}
trap clean EXIT

engine_start() { # THREADS LIMIT: bytes, or max
    [ -z "$group" ] || echo "$2" >"$group/memory.max"
    coproc engine {
        [ -z "$group" ] || echo "$BASHPID" >"$group/cgroup.procs"
        exec "$build/daemon/engine/halod-engine" --stdio --device cpu --threads "$1" --state-dir "$work" 2>>"$work/log"
    }
    engine_in=${engine[1]} engine_out=${engine[0]} engine_pid=$engine_PID id=0
}
engine_stop() {
    exec {engine_in}>&-
    wait "$engine_pid" || true
    engine_pid=
}
# Sends a request {"type":TYPE,"id":…,MORE} and sets `answer` to its last event.
ask() { # TYPE MORE
    id=$((id + 1))
    printf '{"type":"%s","id":%d%s}\n' "$1" "$id" "${2:+,$2}" >&"$engine_in"
    while IFS= read -r answer <&"$engine_out"; do
        case $answer in
        *'"type":"error","id":'"$id",*) echo "bench_tiers: $1: $answer" >&2; exit 1 ;;
        *'"type":"progress"'* | *'"type":"notice"'* | *'"type":"queued"'*) ;;
        *'"id":'"$id",*) return ;;
        esac
    done
    echo "bench_tiers: the engine ended: $(tail -n 3 "$work/log")" >&2
    exit 1
}
field() { grep -o "\"$1\":[-0-9.]*" <<<"$answer" | head -n 1 | cut -d: -f2; }
calc() { awk "BEGIN { printf(\"$1\", $(IFS=,; echo "${*:2}")) }"; }
bytes_of() { numfmt --from=iec "$1"; }

# A control group of version 2 that limits memory: below our own, or below the nearest one above it that may have one. Empty: there can be
# none.
make_group() {
    local top=/sys/fs/cgroup at
    at=$top$(sed -n 's/^0:://p' /proc/self/cgroup)
    while [ -z "$group" ] && [[ $at == "$top"* ]]; do
        { echo +memory >"${at%/}/cgroup.subtree_control"; } 2>/dev/null || true
        mkdir "${at%/}/halod-bench.$$" 2>/dev/null && group=${at%/}/halod-bench.$$
        if [ -n "$group" ] && [ ! -w "$group/memory.max" ]; then
            rmdir "$group"
            group=
        fi
        at=${at%/*}
    done
}

# As many bytes through a mapping, under the same limit, as the kernel reads ahead and as it is asked: sets `mapped`, the faster one.
run_mapped() { # FILE LIMIT LAW THREADS
    local way tok_s
    mapped=-
    [ -n "$group" ] && [ "${MAPPED:-1}" != 0 ] || return 0
    echo "$2" >"$group/memory.max"
    for way in '' asked; do
        dd if="$1" iflag=nocache count=0 status=none
        # shellcheck disable=SC2086 # no argument at all where it is empty
        tok_s=$(bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' - "$group" "$build/tests/bench/bench_mapped" "$1" "$3" "$4" \
            "${MAPPED:-$warm}" "${MAPPED:-$decode}" $way | sed -n 's/ tok\/s.*//p')
        [ "$terms" = 0 ] || echo "       mapped${way:+, $way}: $tok_s tok/s"
        mapped=$(awk -v a="$mapped" -v b="$tok_s" 'BEGIN { print((a == "-" || b + 0 > a + 0) ? b : a) }')
    done
}

run_resident() { # FILE THREADS: sets resident_s, of a prompt, and resident_tok_s
    resident_s=0 resident_tok_s=-
    [ "$resident" = 1 ] || return 0
    engine_start "$2" max
    ask load "\"model\":\"$1\",\"params\":{\"context\":$context,\"kv_tokens\":$context,\"tiers\":\"memory\"}"
    ask bench "\"model\":\"$1\",\"prefill\":$prompt,\"decode\":$((decode / 4 + 1)),\"repeat\":1"
    resident_tok_s=$(field decode_tok_s)
    resident_s=$(calc %.3f "$prompt / $(field prefill_tok_s)")
    engine_stop
}

# A profile holds for a number of threads, and a model has one.
run_profile() { # FILE THREADS
    [ "$profiled" != "$2" ] || return 0
    engine_start "$2" max
    ask profile "\"model\":\"$1\",\"point_ms\":${POINT_MS:-80}"
    engine_stop
    profiled=$2
    echo "$2 threads: memory $(field memory_gb_s) GB/s, disk $(field disk_gb_s) GB/s in blocks of $(($(field disk_block_bytes) >> 10)) KiB," \
        "$(field disk_depth) at a time, latency $(field disk_latency_us) us"
}

streamed() { # sets hit, missed, read, waited: bytes and us since the engine began
    ask stats
    local layers
    layers=$(field layer_read_bytes) hit=$(field expert_hit_bytes)
    missed=$(($(field expert_miss_bytes) + layers)) read=$(($(field expert_read_bytes) + layers))
    waited=$(($(field expert_wait_us) + $(field layer_wait_us)))
}

run_setting() { # FILE LAW BUDGET THREADS: one line
    local file=$1 law=$2 budget threads=$4 limit
    budget=$(bytes_of "$3")
    limit=$((budget + (1 << 30)))
    run_profile "$file" "$threads"
    local params="{\"context\":$context,\"kv_tokens\":$context,\"tiers\":\"stream\",\"budget_bytes\":$budget}"
    dd if="$file" iflag=nocache count=0 status=none
    engine_start "$threads" "$limit"
    ask plan "\"path\":\"$file\",\"routing\":\"$law\",\"params\":$params"
    local tok_s plan_hit memory disk token prefill
    tok_s=$(field tok_s) plan_hit=$(field hit_rate) memory=$(field memory_gb_s) disk=$(field disk_gb_s) token=$(field token_bytes)
    prefill=$(field prefill_bytes)
    local predicted_terms=
    for name in memory disk latency host overlap; do predicted_terms+=" $name $(field ${name}_ms)"; done
    ask load "\"model\":\"$file\",\"params\":$params"
    ask bench "\"model\":\"$file\",\"prefill\":0,\"decode\":$warm,\"repeat\":1"
    streamed
    local hit_before=$hit missed_before=$missed read_before=$read waited_before=$waited
    ask bench "\"model\":\"$file\",\"prefill\":0,\"decode\":$decode,\"repeat\":1"
    local measured prompt_s
    measured=$(field decode_tok_s)
    streamed
    predicted_terms+=" ms; measured $(calc '%.1f ms of which %.1f waiting' "1000 / $measured" "($waited - $waited_before) / 1000 / $decode")"
    ask bench "\"model\":\"$file\",\"prefill\":$prompt,\"decode\":0,\"repeat\":1"
    prompt_s=$(calc %.3f "$prompt / $(field prefill_tok_s)")
    [ "$long" -eq 0 ] || [ -n "${parts:-}" ] || run_long "$file" "$3" "$threads"
    engine_stop
    [ "$resident_threads" = "$threads" ] || run_resident "$file" "$threads"
    resident_threads=$threads
    run_mapped "$file" "$limit" "$law" "$threads"
    awk -v budget="$3" -v threads="$threads" -v p="$tok_s" -v m="$measured" -v h=$((hit - hit_before)) -v miss=$((missed - missed_before)) \
        -v read=$((read - read_before)) -v n="$decode" -v ph="$plan_hit" -v mem="$memory" -v disk="$disk" -v token="$token" \
        -v prefill="$prefill" -v ps="$prompt_s" -v rs="$resident_s" -v rt="$resident_tok_s" -v mapped="$mapped" 'BEGIN {
            compute = token / mem / 1e9; reads = miss / n / disk / 1e9; bound = 1 / (compute > reads ? compute : reads)
            pb = prefill / disk / 1e9; pb = pb > rs ? pb : rs
            printf("%-6s %7d %9.2f %8.2f %5.2f %5.1f%% %7.1f%% %8.1f %5.2f %8.0f%% %8.2f %8.0f%% %8s %8s %6s\n", budget, threads, p, m, p / m,
                h + miss > 0 ? 100 * h / (h + miss) : 100, 100 * ph, read / n / 1e6, read / n * m / 1e9, 100 * m / bound, ps, 100 * pb / ps, rt, mapped,
                (mapped > 0) ? sprintf("%.1f", m / mapped) : "-") }'
    [ "$terms" = 0 ] || echo "       predicted:$predicted_terms"
}

run_long() { # FILE BUDGET THREADS: sets `parts`
    parts="$long tokens with $2 and $3 threads, in ten parts, tok/s:"
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ask bench "\"model\":\"$1\",\"prefill\":0,\"decode\":$((long / 10)),\"repeat\":1"
        parts="$parts $(calc %.2f "$(field decode_tok_s)")"
    done
}

make_group
for preset in $presets; do
    file=$dir/$preset.gguf law=uniform
    case $preset in zipf-*) law=zipf ;; esac
    # shellcheck disable=SC2086 # SHAPE holds several words
    [ -f "$file" ] || "$build/tests/tools/mkgguf" --preset "$preset" ${SHAPE:-} --type Q4_K_M --seed 1 -o "$file" >/dev/null
    sync "$file" # what is still being written would disturb the first setting
    echo "$preset: $(calc %.1f "$(stat -L -c %s "$file") / 1e9") GB, routers $law"
    profiled='' resident_threads=
    printf '%-6s %7s %9s %8s %5s %6s %8s %8s %5s %9s %8s %9s %8s %8s %6s\n' budget threads predicted measured ratio hit 'hit plan' MB/token \
        GB/s 'of bound' 'prompt s' 'of bound' resident mapped ratio
    parts=
    for setting in $settings; do
        run_setting "$file" "$law" "${setting%:*}" "${setting#*:}"
    done
    [ -z "$parts" ] || echo "$parts"
    [ -n "$keep" ] || rm -f "$file"
done
