#!/usr/bin/env bash
# scripts/first-run: the short form over the emulated GPU; then, with a halo-doctor that hangs, dies and counts its calls, what becomes of
# such stages and where another start goes on. Arguments: the source root, the build folder, first_run_read.
set -uo pipefail
root=$1 build=$2 read=$(realpath "$3")
. "$root/tests/gates/check.sh"
first=$root/scripts/first-run
trap 'kill -9 ${starter:-} $(cat "$run"/out/state/*.pid 2>/dev/null | sed "s/^/-/") 2>/dev/null; rm -rf "$run"' EXIT
until_true() { for _ in $(seq 3000); do ! "$@" || return 0; sleep 0.02; done; echo "timed out waiting for: $*"; return 1; }

# What must not be in a report: the host's name, the user's, the path of the home folder.
mkdir -p "$run/bin" "$run/home/zelda/models"
cp "$root/tests/models/fable-Q4_K_M.gguf" "$run/home/zelda/models/fable-Q4_K_M.gguf"
printf '#!/bin/sh\n[ "$1" = -n ] && echo secrethost.example && exit\nexec /bin/uname "$@"\n' >"$run/bin/uname"
printf '#!/bin/sh\n[ "$1" = -un ] && echo zelda && exit\nexec /usr/bin/id "$@"\n' >"$run/bin/id"
chmod +x "$run"/bin/*
export HALO_GPU_LOCK=$run/lock HALO_GPU_LOCK_HELD=$run/lock # no GPU is used here
export PATH=$run/bin:$PATH HOME=$run/home/zelda USER=zelda LOGNAME=zelda

if [ -e "$build/tests/hip-emu/libamdhip64.so" ]; then
    emulated="'$first' --short --build '$build' --hip-lib '$build/tests/hip-emu/libamdhip64.so' --out '$run/emu' --stage machine,tiers,ops,bandwidth,speed,recovery"
    check 'over the emulated GPU' 0 '1 stages failed' \
        "$emulated --model '$HOME/models/fable-Q4_K_M.gguf' --model '$HOME/models/none.gguf'; [ \$? -eq 1 ]"
    for stage in machine tiers ops bandwidth recovery; do
        check "$stage passed" 0 "^$stage passed [1-9][0-9]* findings" "'$read' '$run/emu/first-run.json'"
    done
    check 'a model was measured' 0 '\| fable-Q4_K_M \| 16 x 1 \| [0-9.]+ \|' "cat '$run/emu/first-run.md'"
    check 'a reply survived its engine' 0 '\| kill 1 \| passed \| the reply continued' "cat '$run/emu/first-run.md'"
    check 'a model that is missing fails its stage' 0 '^speed failed 2 findings: 2 models, 1 measurements, 1 models failed' \
        "'$read' '$run/emu/first-run.json'"
    check 'no private data' 1 '^$' "grep -qE 'zelda|secrethost|home/' '$run'/emu/first-run.*"
fi

# ---- stages that end badly ----

mkdir -p "$run/fake/client/doctor"
cat >"$run/fake/client/doctor/halo-doctor" <<STUB
#!/usr/bin/env bash
case "\$*" in
--version) echo 'halo-doctor of zelda on secrethost'; exit ;;
*--checks-only*) echo '{"id":"driver","title":"t","verdict":"PASS","read":"/home/zelda/x","advice":"on secrethost","source":"","stages":[],"took_ms":1.0}'; exit ;;
esac
echo call >>'$run/calls'
case \$(cat '$run/mode') in
hang) trap '' TERM; echo 'the last words'; while :; do sleep 1; done ;;
die) echo 'the last words'; kill -SEGV \$\$ ;;
esac
echo '{"id":"tier0","title":"t","verdict":"PASS","read":"a \"quoted\" | text","advice":"","source":"","stages":[],"took_ms":1.0}'
STUB
chmod +x "$run/fake/client/doctor/halo-doctor"
start="'$first' --build '$run/fake' --out '$run/out'"
calls() { wc -l <"$run/calls" 2>/dev/null || echo 0; }
report="'$read' '$run/out/first-run.json'"

echo hang >"$run/mode"
check 'a stage that hangs is killed at its limit' 1 '' "$start --limit 2"
check 'and reported with its last line' 0 '^tiers failed .*did not end within 2 s and was killed; its last line: the last words' "$report"
check 'the stages after it were tried' 0 '^speed skipped' "$report"
check 'the next start tries no finished stage' 1 '^2$' "$start 2>/dev/null >/dev/null; status=\$?; wc -l <'$run/calls'; exit \$status"
echo fine >"$run/mode"
check 'one stage again' 0 '^tiers passed 1 findings' "$start --stage tiers >/dev/null 2>&1; $report"
check 'settings were tried after tiers failed' 0 '^settings failed .*did not end within 2 s' "$report"
check 'text is as it was written' 0 '\| a "quoted" \\\| text \|' "cat '$run/out/first-run.md'"

echo die >"$run/mode"
check 'a stage that dies is a line' 0 '^tiers failed .*0 findings' "$start --fresh >/dev/null 2>&1; $report"

# Killed in the middle of a stage: the next start ends what is left of it and tries the stage again.
echo hang >"$run/mode"
rm -f "$run/calls"
bash -c "exec $start --fresh" >/dev/null 2>&1 &
starter=$!
until_true test -s "$run/calls" || exit 1
check 'one start at a time' 2 'another first-run uses' "$start"
kill -9 "$starter"
wait "$starter" 2>/dev/null
orphan=$(cat "$run/out/state/tiers.pid")
echo fine >"$run/mode"
check 'a start after a killed one' 0 '^tiers passed' "$start >/dev/null 2>&1; $report"
check 'the stage was tried twice' 0 '^2$' "wc -l <'$run/calls'"
check 'nothing is left of the first try' 1 'No such process' "kill -0 -- -$orphan"

# A machine that was restarted: the stage under way has failed and is not tried again.
rm -f "$run/out/state/tiers.done"
echo 00000000-0000-0000-0000-000000000000 >"$run/out/state/tiers.started"
check 'a restart of the machine' 0 '^tiers failed .*the machine was restarted while this stage ran' "$start >/dev/null 2>&1; $report"
check 'the stage was not tried again' 0 '^2$' "wc -l <'$run/calls'"
check 'no time at all' 3 '' "$start --fresh --minutes 0"
check 'what is left is said' 0 '^tiers pending .*the 0 minutes of this start are over' "$report"
check 'no private data in these either' 1 '^$' "grep -qE 'zelda|secrethost' '$run'/out/first-run.*"
# Folders of models as halod.conf names them, with an engine that loads none.
mkdir -p "$run/refuses/client/doctor" "$run/refuses/daemon/engine" "$HOME/.config/halod" "$HOME/my models+ (1)" "$HOME/.local/share/halod/models"
cp "$run/fake/client/doctor/halo-doctor" "$run/refuses/client/doctor/"
cat >"$run/refuses/daemon/engine/halod-engine" <<STUB
#!/bin/sh
while read -r line; do echo '{"type":"error","message":"no $HOME/my models+ (1)/named.gguf"}'; done
STUB
chmod +x "$run/refuses/daemon/engine/halod-engine"
printf '[models]\n\tdir = "~/my models+ (1)" ; the large ones\n' >"$HOME/.config/halod/halod.conf"
truncate -s 65M "$HOME/my models+ (1)/named.gguf" "$HOME/.local/share/halod/models/usual.gguf"
check 'models of configured folders' 1 '3 models failed' \
    "'$first' --build '$run/refuses' --out '$run/folders' --stage speed --minutes 08 2>/dev/null; status=\$?; cat '$run/folders/first-run.md'; exit \$status"
for name in named usual; do check "$name" 0 '' "grep -q '^| $name | could not be loaded: no MODELS/named.gguf' '$run/folders/first-run.md'"; done
check 'an unknown stage' 2 'no stage tires' "$start --stage tires"
check 'an unknown option' 2 '.--fresh' "$start --fresher"
check 'no halo-doctor' 2 'no halo-doctor' "'$first' --build '$run/home' --out '$run/none'"

checks_end 33
