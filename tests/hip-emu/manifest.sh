#!/bin/sh
# Copies kernels.host and the like and writes the manifest that the loader checks: manifest.sh MANIFEST [MODULE COPY]...
set -eu
manifest=$1
shift
: >"$manifest"
while [ $# -gt 0 ]; do
    cp "$1" "$2"
    printf 'object %s %s %s\n' "$(sha256sum <"$2" | cut -d ' ' -f 1)" "$(wc -c <"$2")" "$(basename "$2")" >>"$manifest"
    shift 2
done
