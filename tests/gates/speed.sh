#!/usr/bin/env bash
# scripts/speed-gate and scripts/probe-commits with engines of known speed: the verdicts, the order, the bytes. No clock is read.
# Arguments: the source root, the programs speed_compare and fake_engine.
set -uo pipefail
root=$1 compare=$(realpath "$2") engine=$(realpath "$3")
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# A copy of the scripts, so that the gates that a gain asks for can be stubs.
tree=$run/tree
mkdir -p "$tree"/{scripts,tests/gates/prompts,tests/models,build/tests/gates}
cp "$root"/scripts/{speed-gate,probe-commits,gpu-lock} "$tree/scripts/"
cp "$root"/tests/gates/prompts/* "$tree/tests/gates/prompts/"
ln -s "$compare" "$tree/build/tests/gates/speed_compare"
: >"$tree/tests/models/fable-Q4_K_M.gguf"
for gate in logit coherence; do
    printf '#!/bin/sh\necho "%s gate $*" >>"$RAN"\necho "%s gate says"\nexit ${FAIL_%s:-0}\n' "$gate" "$gate" "$gate" >"$tree/scripts/$gate-gate"
    chmod +x "$tree/scripts/$gate-gate"
done
export RAN=$run/ran FAKE_LOG=$run/log
: >"$RAN"
build() { # NAME SPEED [WORD]
    mkdir -p "$run/$1/daemon/engine"
    ln -sf "$engine" "$run/$1/daemon/engine/halod-engine"
    echo "$2 ${3:-}" >"$run/$1/daemon/engine/speed"
    rm -f "$run/$1/daemon/engine/count"
}
gate="'$tree/scripts/speed-gate' --runs 5 --report '$run/report'"
pair="'$run/a' '$run/b'"
said() { check "$1" 0 "$2" "cat '$run/report'"; }

build a 100
build b 100
: >"$FAKE_LOG"
check 'the same speed' 0 'No difference shown' "$gate $pair"
said 'the MD5 of the prompt' "MD5 $(md5sum <"$root/tests/gates/prompts/mill.txt" | cut -d' ' -f1)"
check 'fresh engines by turns, after one of each to warm up' 0 '^a b a b b a a b b a a b$' "sed -n 's|^start .*/\([ab]\)/daemon/engine|\1|p' '$FAKE_LOG' | paste -sd ' '"
check 'two replies of each' 0 '^24$' "grep -c ^reply '$FAKE_LOG'"
build b 93
check 'a loss that a second series confirms' 1 '\*\*The second series confirms the loss' "HSA_ENABLE_SDMA=0 $gate $pair"
said 'its figures' '^\| decode \| 100\.[0-9] .*\| 9[23]\.[0-9] .*\| 0\.9[23][0-9] \|.*\*\*loss\*\*'
said 'occupancy' '^2\. Occupancy: .scripts/kernel-report'
said 'the environment' '^3\. Environment: .*HSA_ENABLE_SDMA'
said 'bisect' '^5\. Bisect: .scripts/probe-commits'
build b 97
check 'a small loss is no failure' 0 'A loss under 5 %' "$gate $pair"
build b 100 slow
check 'a loss that a second series does not show' 0 'The second series does not confirm it' "$gate $pair"
check 'no gate was run by all that' 1 '' "grep . '$RAN'"
build b 110
check 'a gain counts when the gates pass' 0 'A gain that counts' "$gate $pair"
check 'both gates were run, on B' 0 '^2$' "grep -c -- '--quick --build $run/b --device cpu' '$RAN'"
check 'a gain of a build that the logit gate refuses' 1 'does not count: the logit gate of B fails' "FAIL_logit=3 $gate $pair"
said 'what that gate said' 'logit gate says'
check 'a gain of a build that the coherence gate refuses' 1 'does not count: the coherence gate of B fails' "FAIL_coherence=1 $gate $pair"
check 'a gain without the gates' 0 'does not count: the gates were not run' "$gate --no-gates $pair"

build b 100
printf 'He said: "No \\ never."\nAnd\n\n' >"$run/odd"
check 'quotes, backslashes, newlines at the end: the same bytes' 0 "MD5 $(md5sum <"$run/odd" | cut -d' ' -f1)" "$gate --prompt '$run/odd' $pair"
printf 'caf\303\251' >"$run/odd"
check 'other characters are refused' 2 'printable ASCII' "$gate --prompt '$run/odd' $pair"
build b 100 other
check 'other bytes in the engine' 2 'received other bytes; expected MD5' "$gate $pair"
build b 100 error
check 'an engine that refuses' 2 'the engine answered .*bad_request' "$gate $pair"
build b 100 deaf
check 'an engine that says nothing' 2 'no loaded event within 1 s' "HALO_GATE_SECONDS=1 $gate $pair"
check 'four runs are too few' 2 'runs N' "'$tree/scripts/speed-gate' --runs 4 $pair"
check 'no build' 2 'has no daemon/engine/halod-engine' "$gate '$run/a' '$run/none'"
check 'one build' 2 'runs N' "$gate '$run/a'"
check 'measurements that are none' 2 'not a measurement' "echo 'a decode fast' | '$compare' A B"
check 'too few of them' 2 '1 and 0 measurements' "echo 'a decode 1' | '$compare' A B"

# Commits of a small repository whose build makes such an engine.
repo=$run/repo
mkdir -p "$repo/daemon/engine" && cd "$repo" && git init -q && git config user.email t@example.org && git config user.name t
cp "$engine" daemon/engine/program
printf "project('fake')\nsubdir('daemon/engine')\n" >meson.build
cat >daemon/engine/meson.build <<'MESON'
configure_file(input: 'speed', output: 'speed', copy: true)
custom_target('engine', input: 'program', output: 'halod-engine', command: ['install', '-m', '755', '@INPUT@', '@OUTPUT@'], build_by_default: true)
MESON
for speed in 100 90 90.1; do
    echo "$speed" >daemon/engine/speed
    git add -A && git commit -qm "speed $speed"
done
echo 'no build file' >meson.build && git commit -qam 'broken'
probe="cd '$repo' && '$tree/scripts/probe-commits' --runs 5"
check 'the commit that is slower' 1 "^# Speed gate: $(git rev-parse --short HEAD~2) compared with $(git rev-parse --short HEAD~3)" "$probe HEAD~3 HEAD~2 HEAD~1 >'$run/report'; s=\$?; cat '$run/report'; exit \$s"
check 'its loss holds, the next one shows nothing' 0 '^1 1$' "echo \$(grep -c 'confirms the loss' '$run/report') \$(grep -c 'No difference shown' '$run/report')"
check 'nothing is left behind' 0 '^1$' "cd '$repo' && git worktree list | wc -l"
check 'a commit that does not build' 2 'HEAD does not build' "$probe HEAD~1 HEAD"
check 'no commit' 2 'nosuch is not a commit' "$probe HEAD~1 nosuch"
check 'one commit' 2 'keep DIR' "$probe HEAD~1"
check 'what is kept is used again' 0 'No difference' "$probe --keep '$run/kept' HEAD~2 HEAD~1 && ls -d '$run'/kept/*/build/build.ninja | wc -l | grep -x 2 && $probe --keep '$run/kept' HEAD~2 HEAD~1"

checks_end 35
