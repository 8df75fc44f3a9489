#!/bin/sh
# Makes one NVIDIA image of the units' bitcode: cuda.sh OUTPUT ARCH CLANG LLVM-LINK PTXAS BITCODE...
# PTXAS "none": the image is PTX text.
set -eu
output=$1 arch=$2 clang=$3 link=$4 ptxas=$5
shift 5
"$link" "$@" -o "$output.bc"
"$clang" --target=nvptx64-nvidia-cuda -march="$arch" -O3 -Wno-override-module -Wno-pass-failed -mllvm -unroll-threshold=4000 -S -x ir "$output.bc" -o "$output.ptx"
if [ "$ptxas" = none ]; then
    cp "$output.ptx" "$output"
else
    "$ptxas" -arch="$arch" -O3 -v "$output.ptx" -o "$output" 2>"$output.ptxas.log" || { cat "$output.ptxas.log" >&2; exit 1; }
fi
