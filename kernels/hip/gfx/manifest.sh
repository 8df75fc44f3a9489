#!/bin/sh
# Writes the manifest of the code objects: what they were made from and by what, and their SHA-256, which the loader checks.
#
#   manifest.sh OUTPUT CLANG SOURCE_DIR OBJECT...
#
# Lines: "compiler VERSION", "source SHA256 FILE", "object SHA256 BYTES FILE", each sorted. Nothing of the machine it ran on.
set -eu
output=$1 clang=$2 sources=$3
shift 3
{
    printf 'compiler %s\n' "$("$clang" --version | head -n 1)"
    (cd "$sources" && LC_ALL=C sha256sum meson.build ./*.hip ./*.h) | sed 's|\./||; s|^|source |; s|  | |'
    for object in "$@"; do
        printf 'object %s %s %s\n' "$(sha256sum <"$object" | cut -d ' ' -f 1)" "$(wc -c <"$object")" "$(basename "$object")"
    done
} >"$output.part"
mv "$output.part" "$output"
