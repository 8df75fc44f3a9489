#!/bin/sh
# Makes kernels.host and the like, with AMD's metadata in them, and writes the manifest that the loader checks:
# manifest.sh MANIFEST CODE_NOTE [MODULE COPY]...
set -eu
manifest=$1 code_note=$2
shift 2
: >"$manifest"
while [ $# -gt 0 ]; do
    "$code_note" "$1" "${2##*.}" "$2.note"
    objcopy --add-section .note.AMDGPU="$2.note" "$1" "$2"
    rm "$2.note"
    printf 'object %s %s %s\n' "$(sha256sum <"$2" | cut -d ' ' -f 1)" "$(wc -c <"$2")" "$(basename "$2")" >>"$manifest"
    shift 2
done
