#!/bin/bash
# What scripts/test-memory-limit does with a control group: runs a streamed mixture in it again and again, by turns alone, while another
# process takes memory at once, and while others take it in steps. Prints a line for each run and "END N failed" last.
#
#   memory_runs.sh FOLDER GROUP
# FOLDER holds halod-engine, mixture.gguf and settings: runs, limit of the group, memory taken at once and in steps (MiB), replies of a run
# and tokens of a reply.
# GROUP is a new folder of the memory controller, of version 2 or 1, whose parent lets it be made; it is removed at the end.
here=$1 group=$2
read -r runs limit_mib once_mib steps_mib replies tokens <"$here/settings"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/memory-XXXXXX")
mkdir "$group" || exit 2
trap 'rmdir "$group"; rm -rf "$work"' EXIT
if [ -e "$group/memory.max" ]; then
    echo "${limit_mib}M" >"$group/memory.max" || exit 2
    [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
    event() { sed -n "s/^$1 //p" "$group/memory.events"; }
    peak() { cat "$group/memory.peak"; }
elif [ -e "$group/memory.limit_in_bytes" ]; then
    echo "${limit_mib}M" >"$group/memory.limit_in_bytes" || exit 2
    echo 0 >"$group/memory.swappiness"
    event() {
        case $1 in
        max) cat "$group/memory.failcnt" ;;
        *) sed -n "s/^$1 //p" "$group/memory.oom_control" ;;
        esac
    }
    peak() { cat "$group/memory.max_usage_in_bytes"; }
else
    echo "memory_runs: $group has no memory controller: enable it in the parent's cgroup.subtree_control" >&2
    exit 2
fi
prompt=$(seq -s , 3 98)

# Reads events until the answer to a request that ends it; fails when the engine has ended or sent an error.
answer() { # ID FILE
    local line
    while IFS= read -r line <&"${engine[0]}"; do
        echo "$line" >>"$2"
        case $line in
        *'"type":"error"'*) return 1 ;;
        *'"type":"loaded","id":'"$1",* | *'"type":"done","id":'"$1",* | *'"type":"stats","id":'"$1",*) return 0 ;;
        esac
    done
    return 1
}

# A process of the group that holds so many MiB for some seconds: dd fills its buffer in one read.
hold() { # MIB SECONDS
    (echo "$BASHPID" >"$group/cgroup.procs"; dd if=/dev/zero bs="$1M" count=1 status=none | (sleep "$2"; cat >/dev/null))
}

hog() { # KIND
    case $1 in
    once) hold "$once_mib" 2 ;;
    steps)
        for ((taken = 0; taken < steps_mib; taken += 4)); do
            hold 4 2 &
            sleep 0.1
        done
        wait
        ;;
    esac
}

one_run() { # FILE KIND
    coproc engine {
        echo "$BASHPID" >"$group/cgroup.procs"
        exec "$here/halod-engine" --stdio --device cpu --threads 2 --state-dir "$work" 2>"$work/log"
    }
    local pid=$! other=
    echo '{"type":"load","id":1,"model":"'"$here"'/mixture.gguf","params":{"context":512,"kv_tokens":512,"tiers":"stream"}}' >&"${engine[1]}"
    answer 1 "$1" || return 1
    hog "$2" &
    other=$!
    for id in $(seq 2 $((replies + 1))); do
        printf '{"type":"generate","id":%d,"model":"mixture","tokens":[%s],"max_tokens":%d,%s}\n' "$id" "$prompt" "$tokens" \
            '"ignore_eos":true,"temperature":0,"emit_token_ids":true,"cache_prompt":false' >&"${engine[1]}"
        answer "$id" "$1" || return 1
    done
    [ "$2" = none ] || ! kill -0 "$other" 2>/dev/null || ended=before
    echo '{"type":"stats","id":1000}' >&"${engine[1]}"
    answer 1000 "$1" || return 1
    wait "$other"
    eval "exec ${engine[1]}>&-"
    wait "$pid"
}

number() { grep -o "\"$1\":[0-9]*" "$work/run" | head -n 1 | cut -d: -f2; }
mib() { echo $((${1:-0} >> 20)); }

failed=0 kinds=(none once steps)
for run in $(seq "$runs"); do
    rm -f "$work/run"
    kind=${kinds[(run - 1) % 3]} from=${EPOCHREALTIME/.} said='' ended=behind killed=$(event oom_kill)
    one_run "$work/run" "$kind" || {
        said="failed: $(tail -q -n 1 "$work/run" "$work/log" | tail -c 300 | tr '\n' '|')"
        # shellcheck disable=SC2154
        kill -9 "$engine_PID" 2>/dev/null
        wait
    }
    grep -o '"tok_id":[0-9]*' "$work/run" >"$work/ids"
    [ -e "$work/first" ] || cp "$work/ids" "$work/first"
    [ "$(wc -l <"$work/ids")" -eq $((replies * tokens)) ] && cmp -s "$work/ids" "$work/first" || said="$said other ids"
    [ "$(event oom_kill)" -eq "$killed" ] || said="$said killed"
    [ -z "$said" ] || failed=$((failed + 1))
    echo "run $run: ${said:-ok}, $(((${EPOCHREALTIME/.} - from) / 1000)) ms, other process: $kind, the replies ended $ended it," \
        "$(number n_slots) slots, peak $(mib "$(peak)") of $limit_mib MiB, given $(mib "$(number expert_given_bytes)") taken" \
        "$(mib "$(number expert_taken_bytes)") purged $(mib "$(number expert_purged_bytes)") MiB, max $(event max)," \
        "oom_kill $(event oom_kill)"
done
echo "END $failed failed of $runs"
