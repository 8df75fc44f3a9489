#!/usr/bin/env bash
# scripts/coherence-gate fails when it must: a broken build, an engine that dies or does not answer, a missing cell, other bytes.
# Arguments: the source root, the build folder (with the option `inject`).
set -uo pipefail
root=$1 build=$2
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
export HALO_SHARED=$run/none
unset HALO_INJECT
gate="'$root/scripts/coherence-gate' --report '$run/report' --build '$build'"
fox=$(grep -m1 -E '^tree +fable-Q4_K_M +cpu +fox.txt' "$root/tests/gates/matrix.txt")
[ -n "$fox" ] || { echo "the matrix has no fox.txt"; exit 1; }
matrix() { printf '%s\n' "$1" >"$run/$2"; }
matrix "$fox" fox
matrix "${fox/fable-Q4_K_M/nosuch}" nosuch
matrix "${fox/fox.txt/none.txt}" none
matrix "$(sed -E 's/[0-9a-f]{32}/0123456789abcdef0123456789abcdef/' <<<"$fox")" bytes
matrix "${fox/tree/shared}" shared
matrix "${fox/ cpu / hip }" hip
matrix "$fox"$'\n'"${fox/tree/tre}" tre
matrix "$fox"$'\n'"${fox/ cpu / cpuu }" cpuu
matrix "$(sed -E 's/ 0\.9 / 0 /; s/ 96 / 200 /' <<<"$fox")" greedy

check 'one cell' 0 '^1 cells, 0 failed' "$gate --matrix '$run/fox'"
check 'the report has the text' 0 '^\| attractor_first \| OK' "cat '$run/report'"
check 'a NaN in one layer' 1 '\*\*FAIL\*\* request: device_fault: .*not finite' "HALO_INJECT=mixed-nan@3 $gate --matrix '$run/fox'"
check 'norms without their offset' 1 '\*\*FAIL\*\* [a-z_]+: ' "HALO_INJECT=norm-offset $gate"
check 'a page that is not copied for a prompt that shares a part of it' 1 '\*\*FAIL\*\* another reply when asked again' \
    "HALO_INJECT=stale-page $gate --matrix '$run/fox'"
check 'the first replies are right then' 1 '^All 1 replies of cpu .*: 1 differ' "HALO_INJECT=stale-page $gate --matrix '$run/fox'"
check 'log-probabilities behind it' 1 '\*\*FAIL\*\* log-probabilities behind a cached prefix differ by up to [0-9.]+ ' \
    "HALO_INJECT=stale-page $gate --matrix '$run/fox'"
check 'a hard detector: the small model repeats itself when decoded greedily' 1 '\*\*FAIL\*\* (.*; )?(period|long_collapse): from id' "$gate --matrix '$run/greedy'"
check 'a missing model' 1 '\*\*FAIL\*\* request: not_found' "$gate --matrix '$run/nosuch'"
check 'a missing prompt' 1 '\*\*FAIL\*\* the prompt file does not exist' "$gate --matrix '$run/none'"
check 'a prompt whose bytes changed' 1 '\*\*FAIL\*\* the bytes of the prompt changed' "$gate --matrix '$run/bytes'"
check 'a required cell of the full form that cannot be run' 1 '\*\*FAIL\*\*' "$gate --full --matrix '$run/nosuch'"
check 'a misspelt set beside a cell' 2 'tre: no cell: tre ' "$gate --matrix '$run/tre'"
check 'a misspelt device beside a cell' 2 'cpuu: no cell: tree ' "$gate --matrix '$run/cpuu'"
check 'nothing to check' 3 'nothing was checked' "$gate --matrix '$run/shared'"
check 'nothing for this device' 3 'nothing was checked' "HALO_GPU_LOCK='$run/lock' $gate --device hip --matrix '$run/fox'"
check 'a device that does not start' 1 '\*\*FAIL\*\* ' "HALO_GPU_LOCK='$run/lock' $gate --device hip --hip-lib /nosuch.so"
check 'one of two devices has no cell' 1 'no cell for this device' "HALO_GPU_LOCK='$run/lock' $gate --device cpu,hip --matrix '$run/fox'"
check 'an unknown device in the list' 2 'unknown device .hpi.' "$gate --device cpu,hpi"
check 'a report that cannot be written' 2 'cannot write the report /nosuch/report' "$gate --matrix '$run/fox' --report /nosuch/report"
check 'wrong usage' 2 'quick' "$gate --frobnicate"
check 'no build' 2 'does not exist' "'$root/scripts/coherence-gate' --build '$run'"

# The same build with another engine.
mkdir -p "$run/b/daemon/serve" "$run/b/daemon/engine" "$run/b/client"
ln -s "$build/daemon/serve/halod" "$run/b/daemon/serve/halod"
ln -s "$build/client/coherence-probe" "$build/client/haloctl" "$run/b/client/"
other() { printf '#!/bin/bash\n%s\n' "$1" >"$run/b/daemon/engine/halod-engine"; chmod +x "$run/b/daemon/engine/halod-engine"; }
other_gate="'$root/scripts/coherence-gate' --report '$run/report' --build '$run/b' --matrix '$run/fox'"
other "exec '$build/daemon/engine/halod-engine' \"\$@\""
check 'another engine that is correct' 0 '^1 cells, 0 failed' "$other_gate"
other "exec '$build/daemon/engine/halod-engine' \"\${@/#hip/cpu}\""
check 'an engine that silently uses another device' 1 '\*\*FAIL\*\* ran on cpu instead of hip' \
    "HALO_GPU_LOCK='$run/lock' '$root/scripts/coherence-gate' --report '$run/report' --build '$run/b' --matrix '$run/hip' --device hip"
other 'exit 1'
check 'an engine that dies at once' 1 '\*\*FAIL\*\* (the engine died|request)' "$other_gate"
other 'exec cat >/dev/null'
check 'an engine that says nothing' 1 '\*\*FAIL\*\* ' "HALO_GATE_SECONDS=2 $other_gate"

checks_end 26
