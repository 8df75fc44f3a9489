#!/usr/bin/env bash
# AMD's own HIP runtime on a machine without a GPU: it loads, has every function of kernels/hip's hip_api.def, and the engine and the
# doctor say that there is no GPU, in the sandbox too; and its compiler, which it needs to open a device, works in the sandbox.
# Skipped where the runtime is not installed (Debian: libamdhip64-5), and where there is a GPU, for which there are other tests.
# Arguments: halod-engine, halo-doctor, the library that calls the compiler, the folder of the model in the tree, and options
# of the engine that are tried (all kinds of sandbox).
set -euo pipefail
engine=$1 doctor=$2 compiler=$3 models=$4
shift 4
[ $# -gt 0 ] || set -- '' --models-only --no-sandbox
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0
fail() { echo "FAILED: $*"; failed=$((failed + 1)); }

unset HALO_HIP_LIB
answer() { # OPTION…
    printf '%s\n' '{"type":"load","id":1,"model":"fable-Q4_K_M"}' |
        TMPDIR=$tmp "$engine" --stdio --threads 1 --model-dir "$models" --state-dir "$tmp/state" "$@" 2>"$tmp/stderr" | grep -E '"type":"(loaded|error)"' || true
}

first=$(answer --device hip)
if grep -q 'no HIP runtime' <<<"$first"; then
    echo "skipped: no HIP runtime is installed (Debian: libamdhip64-5)"
    exit 77
fi
if [ -e /dev/kfd ]; then
    echo "skipped: there is a GPU here; this is about a machine without one"
    exit 77
fi
for sandbox; do
    # One sentence for "it was opened, nothing was missing, and it has no GPU": a function that is missing gives another.
    out=$(answer --device hip $sandbox)
    grep -qE '"code":"unsupported","message":"the hip device cannot be used: libamdhip64\.so(\.[0-9])? finds no GPU: (no|invalid) device \(10[01]\)' <<<"$out" ||
        fail "--device hip $sandbox answers: $out; $(cat "$tmp/stderr")"
    out=$(answer --device auto $sandbox)
    grep -q '"type":"loaded".*"device":"cpu"' <<<"$out" || fail "--device auto $sandbox answers: $out; $(cat "$tmp/stderr")"
    answer --device hip --hip-lib "$compiler" $sandbox >/dev/null
    grep -qE '^comgr: [0-9]{3,} bytes$' "$tmp/stderr" || fail "the compiler in the engine $sandbox: $(cat "$tmp/stderr")"
done

out=$("$doctor" --from-tier 1 --tier 1 --json) || true
tier=$(grep '"id":"tier1"' <<<"$out" || true)
grep -q '"verdict":"FAIL","read":"runtime = libamdhip64.so' <<<"$tier" || fail "the doctor's tier 1 is: $tier"
grep -q 'the runtime does not use it' <<<"$tier" || fail "the doctor's tier 1 names another cause: $tier"

[ "$failed" -eq 0 ] && grep -oE 'runtime = [^"]*' <<<"$tier"
