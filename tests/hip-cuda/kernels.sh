#!/bin/sh
# Makes kernels for a card behind hip-worker, and their manifest: kernels.sh CUBIN_NOTE CUBIN COPY MANIFEST
set -eu
"$1" "$2" "${2##*.}" "$3"
printf 'object %s %s %s\n' "$(sha256sum <"$3" | cut -d ' ' -f 1)" "$(wc -c <"$3")" "$(basename "$3")" >"$4"
