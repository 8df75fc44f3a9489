#!/usr/bin/env bash
# The engine's sandbox, tried from within: what it forbids is refused on all its threads, what a GPU's runtime needs works,
# and without the sandbox the same attempts reach the kernel (so that this test fails when the sandbox is gone).
# Arguments: halod-engine, the probe library, the folder of the model in the tree, halod.
set -euo pipefail
engine=$1 probe=$2 models=$3 halod=$4
tmp=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null; rm -rf "$tmp"' EXIT
failed=0 checked=0 unknown=0
export TMPDIR=$tmp/tmp

fail() { echo "FAILED: $*"; failed=$((failed + 1)); }

make_files() {
    rm -rf "${tmp:?}"/*
    mkdir "$tmp"/{tmp,models,elsewhere,state}
    for name in elsewhere/{file,victim,old,linked.gguf} models/model.gguf state/other; do echo text >"$tmp/$name"; done
    ln -s ../elsewhere/linked.gguf "$tmp/models/link.gguf"
}

# What the probe writes from within an engine with these options.
try() { # OPTION…
    make_files
    echo '{"type":"hello","id":1}' |
        HALO_PROBE=$tmp "$engine" --stdio --device hip --hip-lib "$probe" --model-dir "$tmp/models" --state-dir "$tmp/state" \
            --log-level debug "$@" 2>&1 >/dev/null
}

# Compares with what is wanted of each group.
judge() { # WHAT OUTPUT GROUP:WANTED…
    local what=$1 output=$2 group wanted thread name answer error before=$checked
    shift 2
    for wish in "$@"; do
        group=${wish%:*} wanted=${wish#*:}
        while read -r _ thread _ name answer error; do
            checked=$((checked + 1))
            if [ "$answer" = "$wanted" ]; then continue; fi
            # What this user may not do without the sandbox either cannot be told apart.
            if grep -q "^probe $thread $group $name refused" <<<"$free"; then unknown=$((unknown + 1)); continue; fi
            fail "$what: $name on the thread '$thread' was $answer ($error), not $wanted"
        done < <(grep "^probe [a-z]* $group " <<<"$output")
    done
    [ $((checked - before)) -ge 20 ] || fail "$what: only $((checked - before)) attempts were seen: $output"
}

free=$(try --no-sandbox)
judge 'without the sandbox' "$free" calls:reached writes:reached reads:reached process:reached needed:reached
judge 'control' "$(grep ' device ' <<<"$free")" needed:reached calls:reached

closed=$(try --models-only)
open=$(try)
if grep -q 'does not restrict files' <<<"$closed"; then
    judge 'models only' "$closed" calls:refused process:refused needed:reached
    [ "$failed" -eq 0 ] || exit 1
    echo "skipped: this kernel has no Landlock; of files nothing was checked"
    exit 77
fi
judge 'models only' "$closed" calls:refused writes:refused reads:refused process:refused needed:reached
judge 'any path' "$open" calls:refused writes:refused reads:reached process:refused needed:reached

# A real model in each mode: by name, by a path in the folder, by a link, and by a path elsewhere.
answers() { # OPTION…: the type of each answer to a load of these four
    make_files
    cp "$models/fable-Q4_K_M.gguf" "$tmp/models/one.gguf"
    cp "$models/fable-Q4_K_M.gguf" "$tmp/elsewhere/linked.gguf"
    cp "$models/fable-Q4_K_M.gguf" "$tmp/elsewhere/two.gguf"
    local id=0
    for model in one "$tmp/models/one.gguf" link "$tmp/elsewhere/two.gguf"; do
        id=$((id + 1))
        printf '{"type":"load","id":%d,"model":"%s"}\n' "$id" "$model"
    done | "$engine" --stdio --device cpu --threads 1 --model-dir "$tmp/models" "$@" 2>&1 |
        grep -E '"type":"(loaded|error)"' || true
}
is() { # OUTPUT ID TYPE
    checked=$((checked + 1))
    grep -q "\"type\":\"$3\",\"id\":$2,\|\"id\":$2,.*\"type\":\"$3\"" <<<"$1" || fail "load $2 did not end with $3: $1"
}
loads=$(answers --models-only)
for id in 1 2 3; do is "$loads" "$id" loaded; done
is "$loads" 4 error
grep -q 'outside the folders of models' <<<"$loads" || fail "the refusal does not say why: $loads"
grep -q 'io_uring' <<<"$loads" || grep -q 1 /proc/sys/kernel/io_uring_disabled 2>/dev/null ||
    echo "note: loads did not go through io_uring"
loads=$(answers)
for id in 1 2 3 4; do is "$loads" "$id" loaded; done

# What halod starts: as a person, as systemd's service, and as halod.conf says.
flags() { # WHAT LINE ENVIRONMENT…: of the engine that a halod with this line of halod.conf starts
    local what=$1 line=$2 n=0 child=
    shift 2
    make_files
    echo "$line" >"$tmp/halod.conf"
    env -u STATE_DIRECTORY -u RUNTIME_DIRECTORY "$@" "$halod" --config "$tmp/halod.conf" --socket "$tmp/socket" --model-dir "$tmp/models" \
        --state-dir "$tmp/state" --device cpu --engine "$engine" 2>"$tmp/log" &
    daemon=$!
    until child=$(pgrep -P "$daemon" -f halod-engine) && [ -n "$child" ]; do
        n=$((n + 1))
        [ $n -lt 1200 ] && kill -0 "$daemon" 2>/dev/null || { fail "$what: no engine: $(cat "$tmp/log")"; break; }
        sleep 0.05
    done
    [ -z "$child" ] || tr '\0' '\n' <"/proc/$child/cmdline" | grep -xE -- '--models-only|--no-sandbox' | tr '\n' ' ' || true
    kill "$daemon"
    wait "$daemon" 2>/dev/null || true
    daemon=
}
want() { # WHAT WANTED FLAGS
    checked=$((checked + 1))
    [ "$3" = "$2" ] || fail "$1: the engine got '$3', not '$2'"
}
want 'a person' '' "$(flags 'a person' '')"
want 'the service' '--models-only ' "$(flags 'the service' '' STATE_DIRECTORY="$tmp/state")"
want 'the service with any_path' '' "$(flags 'the service with any_path' '[models]
any_path = true' STATE_DIRECTORY="$tmp/state")"
want 'no sandbox' '--no-sandbox ' "$(flags 'no sandbox' '[engine]
sandbox = false')"

echo "$checked attempts, $unknown that this user may not make anyway, $failed wrong"
[ "$failed" -eq 0 ]
