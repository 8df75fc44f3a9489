#!/usr/bin/env bash
# scripts/logit-gate fails when it must: it names the layer of each injected fault, and never passes by checking nothing.
# Arguments: the source root, the build folder (with the option `inject`).
set -uo pipefail
root=$1 build=$2
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
export HALO_SHARED=$run/none # the model in the tree
unset HALO_INJECT
gate="'$root/scripts/logit-gate' --build '$build'"

check 'a whole build passes' 0 '^2 cells, 0 failed' "$gate"
check 'layer by layer too' 0 'No layer differs' "$gate --layers"
check 'a wrong rotation in layer 3' 1 'Layer 3 is the first that differs' "HALO_INJECT=rope-pairing@3 $gate"
check 'a wrong rotation everywhere' 1 'Layer 0 is the first that differs' "HALO_INJECT=rope-pairing $gate"
check 'a norm without its offset in layer 5' 1 'Layer 5 is the first that differs' "HALO_INJECT=norm-offset@5 $gate"
check 'a NaN in the mixed product of layer 3' 1 'Layer 3 is the first that differs' "HALO_INJECT=mixed-nan@3 $gate"
check 'the NaN is named' 1 'FAIL: [0-9]+ positions with logits that are not finite' "HALO_INJECT=mixed-nan@3 $gate"
check 'a fault in the last layer' 1 'Layer 7 is the first that differs' "HALO_INJECT=norm-offset@7 $gate"
check 'an unknown fault does not pass' 1 'no such fault' "HALO_INJECT=nonsense $gate"
check 'a missing layer does not pass' 1 'nothing that this breaks' "HALO_INJECT=rope-pairing@99 $gate"
check 'a product that is not mixed does not pass' 1 'nothing that this breaks' "HALO_INJECT=mixed-nan@2 $gate"
check 'nothing checked' 3 'Nothing was checked' "$gate --model nosuch"
check 'a model that does not exist beside one that does' 1 '^\| nosuch \|.*FAIL: no row' "$gate --model fable-Q4_K_M,nosuch"
check 'measured, too' 1 '^\| nosuch \|.*FAIL: no row' "$gate --measure --model fable-Q4_K_M,nosuch"
check 'the full form without its files' 1 'FAIL: could not be run' "$gate --full --model draft-Q8_0"
check 'every model that has recordings has a row for each device' 1 '^0$' \
    "HALO_GPU_LOCK='$run/lock' $gate --full --device cpu,hip | grep -c 'no row'"
check 'a runtime that does not exist' 1 'FAIL: could not be run' "HALO_GPU_LOCK='$run/lock' $gate --device hip --hip-lib /nosuch.so"
check 'an unknown device' 2 'unknown device .hpi.' "$gate --device cpu,hpi"
check 'wrong usage' 2 -- "$gate --frobnicate"
check 'no build' 2 'does not exist' "'$root/scripts/logit-gate' --build '$run'"
check 'the report is what is printed' 0 '^same$' "$gate --report '$run/report' >'$run/printed'; cmp '$run/report' '$run/printed' && echo same"

# The table itself.
program="HALO_SOURCE_ROOT='$root' HALO_BUILD_ROOT='$build' '$build/tests/gates/logit_gate'"
check 'a bound that is exceeded' 1 'FAIL' "echo 'tree fable-Q4_K_M cpu f16 p_short 1e-9 1 0.6' >'$run/t'; $program --bounds '$run/t'"
check 'a share that is not reached' 1 'FAIL' "echo 'tree fable-Q4_K_M cpu f16 p_short,p_chat 0.1 1 1.0' >'$run/t'; $program --bounds '$run/t'"
check 'a line without a bound' 2 't:2: no bound' "printf '# x\ntree fable cpu\n' >'$run/t'; $program --bounds '$run/t'"
check 'a bound that is not a number' 2 'no bound' "echo 'tree fable-Q4_K_M cpu f16 p_short nan 1 0.6' >'$run/t'; $program --bounds '$run/t'"
while read -r name row; do
    check "$name" 2 't:1: no bound' "echo '$row' >'$run/t'; $program --bounds '$run/t'"
done <<'END'
a-misspelt-prompt tree fable-Q4_K_M cpu f16 p_shrt 0.1 1 0.6
a-misspelt-prompt-behind-another tree fable-Q4_K_M cpu f16 p_short,p_caht 0.1 1 0.6
a-prompt-without-a-name tree fable-Q4_K_M cpu f16 p_short, 0.1 1 0.6
a-misspelt-set tre fable-Q4_K_M cpu f16 p_short 0.1 1 0.6
a-misspelt-device tree fable-Q4_K_M cpuu f16 p_short 0.1 1 0.6
a-misspelt-type-of-cache tree fable-Q4_K_M cpu f61 p_short 0.1 1 0.6
END
check 'an empty table' 3 'Nothing was checked' "echo '# none' >'$run/t'; $program --bounds '$run/t'"
check 'a model without a recording' 1 'no such model' "echo 'tree other cpu f16 p_short 0.1 1 0.6' >'$run/t'; $program --bounds '$run/t'"

checks_end 33
