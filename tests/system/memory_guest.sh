#!/bin/bash
# What scripts/test-memory-limit does inside its virtual machine: see there. Prints a line for each run and "END N failed" last.
cd /
here=$(dirname "$0")
read -r runs limit_mib hog_mib <"$here/settings"
work=$(mktemp -d /var/tmp/memory-XXXXXX)
group=/sys/fs/cgroup/halod-test
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$group"
echo "${limit_mib}M" >"$group/memory.max"
[ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
prompt=$(seq -s , 3 98)

event() { sed -n "s/^$1 //p" "$group/memory.events"; }
# Reads events until the answer to a request that ends it; fails when the engine has ended or sent an error.
answer() { # ID FILE
    local line
    while IFS= read -r line <&"${engine[0]}"; do
        echo "$line" >>"$2"
        case $line in
        *'"type":"error"'*) return 1 ;;
        *'"type":"loaded","id":'"$1",* | *'"type":"done","id":'"$1",*) return 0 ;;
        esac
    done
    return 1
}

one_run() { # FILE HOG_MIB
    coproc engine {
        echo "$BASHPID" >"$group/cgroup.procs"
        exec "$here/halod-engine" --stdio --device cpu --threads 2 --state-dir "$work" 2>"$work/log"
    }
    local pid=$! hog=
    echo '{"type":"load","id":1,"model":"'"$here"'/mixture.gguf","params":{"context":256,"kv_tokens":256}}' >&"${engine[1]}"
    answer 1 "$1" || return 1
    if [ "$2" -gt 0 ]; then
        (echo "$BASHPID" >"$group/cgroup.procs"; head -c "$2M" /dev/zero | tail -c "$2M" | (sleep 4; cat >/dev/null)) &
        hog=$!
    fi
    printf '{"type":"generate","id":2,"model":"mixture","tokens":[%s],"max_tokens":16,"ignore_eos":true,"temperature":0,"emit_token_ids":true}\n' \
        "$prompt" >&"${engine[1]}"
    answer 2 "$1" || return 1
    [ -z "$hog" ] || wait "$hog"
    eval "exec ${engine[1]}>&-"
    wait "$pid"
}

failed=0
for run in $(seq "$runs"); do
    rm -f "$work/run"
    hog=$((run % 2 == 0 ? hog_mib : 0)) from=$SECONDS said=
    one_run "$work/run" "$hog" || {
        said="failed: $(tail -q -n 1 "$work/run" "$work/log" | tail -c 300 | tr '\n' '|')"
        pkill -x halod-engine
        wait
    }
    grep -o '"tok_id":[0-9]*' "$work/run" >"$work/ids"
    [ -e "$work/first" ] || cp "$work/ids" "$work/first"
    [ -s "$work/ids" ] && cmp -s "$work/ids" "$work/first" || said="$said other ids"
    [ "$(event oom_kill)" -eq 0 ] || said="$said killed"
    [ -z "$said" ] || failed=$((failed + 1))
    slots=$(grep -o '"n_slots":[0-9]*' "$work/run" | head -n 1 | cut -d: -f2) peak=$(($(cat "$group/memory.peak") >> 20))
    echo "run $run: ${said:-ok}, $((SECONDS - from)) s, hog $hog MiB, $slots slots, peak $peak of $limit_mib MiB, max $(event max)," \
        "oom $(event oom), oom_kill $(event oom_kill)"
done
echo "END $failed failed"
