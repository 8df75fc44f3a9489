#!/usr/bin/env bash
# A .hip file compiled by hip-remote-cc runs through client and hip-worker: kernels that are templates, a variable of the device, <<<>>>,
# with the code objects and metadata that clang writes. Without hipcc, ROCm or a GPU; the emulated runtime runs the kernel by its name. And
# the least program, in C. Skipped where there is no clang that compiles HIP.
# Arguments: hip-worker, the emulated runtime, what it runs for the kernels, hip-remote-cc, the folder of the client library, the
# folder of hip/hip_runtime.h and the examples, the least program.
set -euo pipefail
worker=$1 runtime=$(realpath "$2") kernels=$(realpath "$3") compiler=$4 library=$5 sdk=$6 devices=$(realpath "$7")
work=$(mktemp -d "${TMPDIR:-/tmp}/hip-remote-cc.XXXXXX")
pid=
finish() {
    [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    rm -rf "$work"
}
trap finish EXIT
fail() { echo "FAILED: $*"; exit 1; }

export HIP_REMOTE_CLANG=${HIP_REMOTE_CLANG:-clang++} HIP_REMOTE_LIB=$library HIP_REMOTE_INCLUDE=$sdk
: >"$work/empty.hip"
if ! "$HIP_REMOTE_CLANG" --offload-arch=gfx1030 -nogpulib -nogpuinc -c -o "$work/empty.o" "$work/empty.hip" 2>"$work/log"; then
    echo "skipped: $HIP_REMOTE_CLANG compiles no HIP: $(head -n 1 "$work/log")"
    exit 77
fi
"$compiler" "$sdk/vector_add.hip" 2>"$work/log" && fail "a GPU must be named"
grep -q 'offload-arch=gfx1151' "$work/log" || fail "the message is: $(cat "$work/log")"
"$compiler" --offload-arch=gfx1030 --offload-arch=gfx908 -O2 -Wall -Wextra -Werror "$sdk/vector_add.hip" -o "$work/vector_add"
readelf -V "$work/vector_add" | grep -q 'Name: hip_4.2' || fail "the program needs no version of the library"

HALO_HIP_EMU_ARCH=gfx1030 HALO_HIP_EMU_ISA=$kernels "$worker" --socket "$work/s" --hip-lib "$runtime" 2>"$work/worker.log" &
pid=$!
for _ in $(seq 600); do
    [ -S "$work/s" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
[ -S "$work/s" ] || { cat "$work/worker.log"; fail "hip-worker does not listen"; }
export HIP_REMOTE_WORKER=unix:$work/s
"$work/vector_add" >"$work/out" 2>&1 || { cat "$work/out" "$work/worker.log"; fail "vector_add failed"; }
grep -qx '1000 sums are right' "$work/out" || fail "vector_add says: $(cat "$work/out")"
LD_LIBRARY_PATH=$library "$devices" >"$work/out" 2>&1 || { cat "$work/out" "$work/worker.log"; fail "the least program failed"; }
grep -q '^device 0: emulated GPU 0, .* 0 wrong bytes$' "$work/out" || fail "the least program says: $(cat "$work/out")"
unset HIP_REMOTE_WORKER
HIP_REMOTE_WORKER=unix:$work/none "$work/vector_add" >"$work/out" 2>&1 && fail "a program without a worker succeeds"
grep -q 'no ROCm-capable device' "$work/out" || fail "without a worker it says: $(cat "$work/out")"
echo "compiled, linked and run"
