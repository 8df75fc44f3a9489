#!/usr/bin/env bash
# A model through client and hip-worker against the reference logits: hip_remote.sh HIP_WORKER HIP_LIB CLIENT GOLDEN_LOGITS [OPTION]...
set -euo pipefail
worker=$1 hip_lib=$2 client=$3 golden=$4
shift 4
work=$(mktemp -d "${TMPDIR:-/tmp}/hip-client-golden.XXXXXX")
pid=
finish() {
    [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    rm -rf "$work"
}
trap finish EXIT

"$worker" --socket "$work/s" --hip-lib "$hip_lib" 2>"$work/log" &
pid=$!
for _ in $(seq 600); do
    [ -S "$work/s" ] && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
done
[ -S "$work/s" ] || { echo "hip_remote.sh: hip-worker does not listen" >&2; cat "$work/log" >&2; exit 1; }
status=0
HIP_REMOTE_WORKER="unix:$work/s" "$golden" "$@" --hip-lib "$client" || status=$?
# Skipped for want of the reference folder, or it ran on the worker.
if [ "$status" = 0 ] && ! grep -q 'session .* begins' "$work/log"; then
    echo "hip_remote.sh: the worker had no session" >&2
    status=1
fi
exit "$status"
