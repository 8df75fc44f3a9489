#!/usr/bin/env bash
# Runs the tests of tests/unit/gfx on a code object's machine code. Fails when one fails, when a check of the interpreter found a
# defect, and when a kernel of the object did not run.
#
#   run.sh PROGRAMS CODE-OBJECT [MODE [PROGRAM]]      MODE: see host.c; default in-order
set -euo pipefail
programs=${1:?usage: run.sh PROGRAMS CODE-OBJECT [MODE [PROGRAM]]} object=${2:?usage: run.sh PROGRAMS CODE-OBJECT [MODE [PROGRAM]]}
export HALO_ISA_OBJECT=$object HALO_ISA_MODE=${3:-in-order}
[ -f "$object" ] || { echo "skipped aloud: there is no $object"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HALO_ISA_REPORT=$work/report
for program in ${4:-rows values states top blocks matmul fused moe attend latent gemm}; do
    status=0
    "$programs/isa_gfx_$program" >"$work/log" 2>&1 || status=$?
    [ "$status" -ne 77 ] || { cat "$work/log"; exit 77; }
    if [ "$status" -ne 0 ]; then
        grep -vE '^\[ (RUN|      OK)' "$work/log" || true
        grep '^defect: ' "$work/report" || true
        echo "gfx-sim: $program fails on $(basename "$object"), $HALO_ISA_MODE"
        exit 1
    fi
done
grep '^counts: ' "$work/report"
if grep '^defect: ' "$work/report"; then exit 1; fi
[ -z "${4:-}" ] || exit 0
ran=$(sed -n 's/^ran: \([^ ]*\) .*/\1/p' "$work/report" | sort -u)
all=$("$(command -v llvm-readelf-20 || command -v llvm-readelf-19 || command -v llvm-readelf)" --notes "$object" | sed -n 's/^    \.name: *//p' | sort -u)
missing=$(comm -13 <(echo "$ran") <(echo "$all"))
n_ran=$(echo "$ran" | wc -l) n_all=$(echo "$all" | wc -l)
echo "gfx-sim: $(basename "$object"), $HALO_ISA_MODE: $n_ran of $n_all kernels ran, $(grep -c '^fact: ' "$work/report") facts"
[ -z "$missing" ] || { echo "gfx-sim: not run: $(echo "$missing" | tr '\n' ' ')"; exit 1; }
