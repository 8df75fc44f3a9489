#!/usr/bin/env bash
# What halod had cached when a model was unloaded, or when it was told to end, is there again; what was forgotten is not.
# Arguments: halod, halod-engine, haloctl, folder of models.
set -u
halod=$1 engine=$2 ctl=$3 models=$4
run=$(mktemp -d /tmp/halod-prefixes.XXXXXX) daemon=0
export HALO_SOCKET=$run/s
finish() { [ "$daemon" -ne 0 ] && kill -9 "$daemon" 2>/dev/null; rm -rf "$run"; }
trap finish EXIT
fail() { echo "FAILED: $*"; cat "$run/log"; exit 1; }

start() {
    "$halod" --socket "$HALO_SOCKET" --model-dir "$models" --state-dir "$run/state" --device cpu --engine "$engine" 2>>"$run/log" &
    daemon=$!
    for _ in $(seq 600); do "$ctl" ping >/dev/null 2>&1 && return; sleep 0.05; done
    fail 'halod does not answer'
}
stop() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "halod ended with status $?"
    daemon=0
}
prompt=$(printf 'The old king and the fox went into the wood. %.0s' $(seq 12))
# Writes the ids to FILE, prints how many tokens of the prompt were cached.
ask() {
    "$ctl" --json generate -m fable-Q4_K_M -n 24 --seed 3 --ignore-eos --ids "$prompt" >"$run/events" || fail 'generate'
    grep -o '"tok_id":[0-9]*' "$run/events" >"$1"
    grep '"type":"done"' "$run/events" | grep -o '"cached_tokens":[0-9]*' | cut -d: -f2
}

start
[ "$(ask "$run/first")" -eq 0 ] || fail 'something was cached before the first request'
"$ctl" unload fable-Q4_K_M >/dev/null || fail 'unload'
[ "$(ask "$run/again")" -gt 100 ] || fail 'nothing was cached when the model came again'
cmp "$run/first" "$run/again" || fail 'the ids after an unload are others'
stop
grep -q 'cached prefixes are saved: ' "$run/log" || fail 'the log does not say that prefixes were saved'
[ "$(find "$run/state/prefixes" -name '*.prefixes' -perm 0600 | wc -l)" -eq 1 ] || fail 'there is not one file of mode 0600'
start
cached=$(ask "$run/second")
[ "$cached" -gt 100 ] || fail "$cached tokens were cached after the restart"
cmp "$run/first" "$run/second" || fail 'the ids after the restart are others'
[ "$(wc -l <"$run/second")" -eq 24 ] || fail 'there are not 24 ids'
"$ctl" reset fable-Q4_K_M >/dev/null || fail 'reset'
stop
start
[ "$(ask "$run/third")" -eq 0 ] || fail 'what was forgotten came back'
cmp "$run/first" "$run/third" || fail 'the ids without a cache are others'
# A daemon that is killed saves nothing, and its successor does not mind.
kill -9 "$daemon"; wait "$daemon" 2>/dev/null
start
[ "$(ask "$run/fourth")" -eq 0 ] || fail 'a killed daemon saved something'
stop
echo "$cached tokens of the prompt were cached after a restart, 24 ids the same"
