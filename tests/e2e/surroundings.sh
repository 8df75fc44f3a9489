#!/usr/bin/env bash
# halod in unusual surroundings: no home, missing folders, file size limits, a log that nobody reads, a killed parent; and
# what the log says about its engine.
# Arguments: halod, halod-engine, haloctl, folder of models.
set -u
halod=$1 engine=$2 ctl=$(realpath "$3") models=$4 model=fable-Q4_K_M
run=$(mktemp -d /tmp/halod-surroundings.XXXXXX) daemon=0 filler=0
chmod 755 "$run"
export HALO_SOCKET=$run/s
finish() {
    for pid in $daemon $filler; do [ "$pid" -ne 0 ] && kill -9 "$pid" 2>/dev/null; done
    rm -rf "$run"
}
trap finish EXIT
fail() { echo "FAILED: $*"; cat "$run/log"; exit 1; }

# Waits until a command succeeds, for a minute at most.
until_true() {
    for _ in $(seq 1200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.05; done
    return 1
}
start() { # PROGRAM...: a halod, with the stderr of this function
    "$@" &
    daemon=$!
    until_true "$ctl" ping || fail "no answer from: $*"
}
serve() { start "$halod" --socket "$HALO_SOCKET" --device cpu --engine "$engine" "$@" 2>>"$run/log"; }
stop() {
    kill -TERM "$daemon"
    wait "$daemon" || fail "halod ended with status $?"
    daemon=0
}
generate() { "$ctl" generate -m "$model" -n "$1" --ignore-eos "Once upon a time in a land far far away" >/dev/null 2>&1 || fail generate; }
unload() { "$ctl" --json unload "$model" || fail unload; }
engine_pid() { "$ctl" --json status | grep -o '"pid":[0-9]*' | cut -d: -f2; }
new_log() { : >"$run/log"; }

# The state folder and its parents are made.
serve --model-dir "$models" --state-dir "$run/a/b/state"
generate 40
unload | grep -q '"prefix_pages":' || fail 'prefixes were not saved in new folders'
[ "$(stat -c %a "$run/a/b")" = 700 ] || fail 'the folders of the state are open to others'
stop

# Where they cannot be made, a warning names the path, and halod serves.
new_log
serve --model-dir "$models" --state-dir /proc/none/state
generate 40
unload | grep -q prefixes_not_saved && fail 'an unload still tries to save'
grep -q 'cached prefixes and profiles are not saved: the state folder /proc/none/state cannot be made: ' "$run/log" || fail 'the log does not name the folder'
stop

# Folders that halod was started with may be relative; the paths of answers are not, so that requests can name them.
mkdir "$run/a/x" "$run/a/y"
cp "$models/$model.gguf" "$run/a/x"
cp "$models/$model.gguf" "$run/a/y"
new_log
start env -C "$run" "$(realpath "$halod")" --socket "$HALO_SOCKET" --device cpu --engine "$(realpath "$engine")" --model-dir a/x --model-dir ./a/y \
    --model-dir '~/z' 2>>"$run/log"
"$ctl" --json models | grep -qF "\"name\":\"$run/a/y/$model.gguf\"" || fail "models does not name a file by its whole path: $("$ctl" --json models)"
"$ctl" --json load "$run/a/y/$model.gguf" >"$run/loaded" || fail "the path that models names cannot be loaded"
grep -qF "\"path\":\"$run/a/y/$model.gguf\"" "$run/loaded" || fail "loaded names another path: $(cat "$run/loaded")"
grep -q "$run/~/z cannot be read: .*; ~ is not expanded here" "$run/log" || fail "the log does not say that ~ is not expanded"
stop

# A user without a home. (Root has the places of the service.)
new_log
mkdir -m 777 "$run/open"
other=()
[ "$(id -u)" -eq 0 ] && other=(setpriv --reuid 65534 --regid 65534 --clear-groups)
HALO_SOCKET=$run/open/s
start env -i PATH=/usr/bin:/bin "${other[@]}" "$halod" --socket "$HALO_SOCKET" --model-dir "$run" --device cpu --engine "$engine" 2>>"$run/log"
stop
HALO_SOCKET=$run/s

# A write beyond the file size limit is an error of that file; no partial file stays.
new_log
start bash -c "ulimit -f 8; exec \"\$@\"" - "$halod" --socket "$HALO_SOCKET" --device cpu --engine "$engine" --model-dir "$models" --state-dir "$run/small" 2> >(cat >>"$run/log")
generate 300
before=$(engine_pid)
unload | grep -q '"prefixes_not_saved":"prefixes/[0-9a-f]*.prefixes.part in the state folder cannot be written: File too large"' || fail 'an unload does not name the file and its error'
[ "$(engine_pid)" = "$before" ] || fail 'the engine died of a file size limit'
[ -z "$(ls "$run/small/prefixes")" ] || fail 'a partial file stays'
stop

# Nobody reads the log: halod serves.
new_log
mkfifo "$run/full"
sleep 1000 <>"$run/full" &
filler=$!
until_true test -e "$run/full"
timeout 2 dd if=/dev/zero of="$run/full" bs=4096 count=64 2>/dev/null
start "$halod" --socket "$HALO_SOCKET" --device cpu --engine "$engine" --model-dir "$models" --state-dir "$run/a/b/state" --log-level debug 2>"$run/full"
generate 3
stop
kill -9 "$filler"; wait "$filler" 2>/dev/null; filler=0

# Paths of halod.conf with ~, quotes and a comment; times with a unit.
new_log
ln -s "$(readlink -f "$models")" "$run/models"
printf '[models]\ndir = ~/models\ndir = "/nowhere"  # mine\nkeep_alive_s = 5m\n' >"$run/conf"
HOME=$run serve --config "$run/conf" --state-dir "$run/a/b/state"
"$ctl" models 2>"$run/said" | grep -q "$model" || fail 'a folder with ~ is not found'
grep -q 'the folder of models /nowhere cannot be read: No such file or directory' "$run/said" || fail 'models is silent about a folder'
grep -q 'the folder of models /nowhere cannot be read: No such file or directory' "$run/log" || fail 'the log is silent about a folder'
generate 60
unload >/dev/null
stop

# A loaded file that is replaced has two rows: what is there now, and the model with a mark. Control characters of a name
# do not reach the terminal.
new_log
mkdir "$run/names"
cp "$models/$model.gguf" "$run/names/a.gguf"
printf 'version https://git-lfs.github.com/spec/v1\n' >"$run/names/$(printf 'x\033[31mred').gguf"
serve --model-dir "$run/names" --state-dir "$run/a/b/state"
(cd "$run/names" && "$ctl" load ./a.gguf >/dev/null) || fail 'a path relative to the folder of haloctl'
cp "$models/$model.gguf" "$run/names/new" && mv "$run/names/new" "$run/names/a.gguf"
"$ctl" models >"$run/said"
grep -q '^a  .* loaded; its file was replaced' "$run/said" || fail 'a replaced file has no mark'
grep -q "^$run/names/a.gguf " "$run/said" || fail 'the new file has no row'
grep -q '^x\\x1b\[31mred .*Git LFS pointer' "$run/said" || fail 'a name is not escaped, or its fault is missing'
grep -q "$(printf '\033')" "$run/said" && fail 'an escape character reaches the terminal'
stop

# The engine's warnings keep their priority in the journal, at every log level.
new_log
file=$(ls "$run"/a/b/state/prefixes/*.prefixes | head -1)
printf x | dd of="$file" bs=1 seek=5000 conv=notrunc 2>/dev/null
JOURNAL_STREAM=$(stat -c %d:%i "$run/log") serve --model-dir "$models" --model-dir "$run/missing" --state-dir "$run/a/b/state" --log-level warn
"$ctl" --json load "$model" | grep -q '"code":"prefixes_ignored"' || fail 'a load of damaged prefixes gives no notice'
grep -q '^<4>engine: the folder of models .*/missing cannot be read: ' "$run/log" || fail 'a warning of the engine lost its priority'
grep -q '^<4>load of fable-Q4_K_M: prefixes_ignored: ' "$run/log" || fail 'the notice of a load is not in the log'
[ "$(grep -c 'saved prefixes are ignored' "$run/log")" = 1 ] || fail 'the notice of a load is in the log more than once'

# Old warnings do not explain a later death, and status gives no reason for an engine that works.
sleep 2.5
kill -9 "$(engine_pid)"
until_true grep -q 'the engine was killed by signal 9 (Killed)' "$run/log" || fail 'a death is not in the log'
grep -q 'last words' "$run/log" && fail 'an old warning counts as last words'
ready() { "$ctl" --json status | grep -q '"state":"ready"'; }
until_true ready || fail 'no engine came'
"$ctl" --json status | grep -q '"reason":' && fail 'an engine that works has a reason'
"$ctl" --json status | grep -q '"last_death":"was killed by signal 9' || fail 'the last death is forgotten'

# A stopped engine does not outlive a killed halod.
pid=$(engine_pid)
kill -STOP "$pid"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
daemon=0
gone() { ! kill -0 "$pid" 2>/dev/null || grep -q '^State:.Z' "/proc/$pid/status"; }
until_true gone || fail 'a stopped engine outlives halod'
