#!/usr/bin/env bash
# peer.sh with a peer that prints what llama-bench prints, and engines of known speed; then with the real engine. No speed is judged.
# Arguments: the source root, the build folder.
set -uo pipefail
root=$1 build=$2
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
model=$root/tests/models/fable-Q4_K_M.gguf
export LOG=$run/log ROUNDS=3
unset THREADS PROMPT DECODE REPEAT VARIANT HALO_BENCH_DIR
mkdir -p "$run/build/daemon/engine" "$run/build/tests/tools"

# The n-th process says 50 + n and 10 + n tok/s. Members in llama-bench's order, with commas in a string and samples behind the means.
cat >"$run/peer" <<'PEER'
#!/usr/bin/env bash
echo "peer $*" >>"$LOG"
n=$(grep -c '^peer' "$LOG")
[ -z "${PEER_FAILS:-}" ] || { echo "error: failed to load model" >&2; exit 1; }
object() { printf '  {\n    "build_commit": "abc", "cpu_info": "a chip, of 2 cores",\n    "n_threads": 2,\n    "n_prompt": %s,\n    "n_gen": %s,\n    "avg_ns": 5,\n    "avg_ts": %s,\n    "stddev_ts": 0.1,\n    "samples_ns": [ 5, 6 ],\n    "samples_ts": [ 1, 2 ]\n  }' "$1" "$2" "$3"; }
printf '[\n'; object 64 0 "$((50 + n)).5"; printf ',\n'; object 0 64 "$((10 + n)).25"; printf '\n]\n'
PEER
# The n-th process says 100 + n and 20 + n tok/s, half of the bandwidth.
cat >"$run/build/daemon/engine/halod-engine" <<'ENGINE'
#!/usr/bin/env bash
echo "halod $*" >>"$LOG"
n=$(grep -c '^halod' "$LOG")
[ -z "${ENGINE_DIES:-}" ] || exit 3
while read -r line; do
    case $line in
    *'"type":"bench"'*)
        [ -z "${ENGINE_REFUSES:-}" ] || { echo '{"type":"error","id":2,"message":"a context of 1"}'; continue; }
        echo "{\"type\":\"bench\",\"id\":2,\"prefill_tok_s\":$((100 + n)),\"decode_tok_s\":$((20 + n)),\"bandwidth_gb_s\":18.5,\"bandwidth_share\":0.5}" ;;
    esac
done
ENGINE
printf '#!/bin/sh\necho "mkgguf $*" >>"$LOG"\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n' >"$run/build/tests/tools/mkgguf"
chmod +x "$run/peer" "$run/build/daemon/engine/halod-engine" "$run/build/tests/tools/mkgguf"
peer="'$root/tests/bench/peer.sh' '$run/peer' '$run/build'"

: >"$LOG"
# Medians of the second process of each: 52.5 and 12.25, 102 and 22; the peer's share is 50 % * 12.25 / 22.
check 'medians, ranges, ratios and shares' 0 \
    '^\| Q4_0 \| 52\.5 \(51\.5 to 53\.5\) \| 102\.0 \(101\.0 to 103\.0\) \| 1\.94 \| 12\.2 \(11\.2 to 13\.2\) \| 22\.0 \(21\.0 to 23\.0\) \| 1\.80 \| 18\.5 \| 28 % \| 50 % \|$' "$peer Q4_0"
check 'by turns, the other one first in the second round' 0 '^mkgguf peer halod halod peer peer halod$' "cut -d' ' -f1 '$LOG' | paste -sd ' '"
check "llama-bench's arguments" 0 '^peer -m .*/qwen3-0.6b-Q4_0.gguf -p 64 -n 64 -t 2 -r 3 -o json$' "cat '$LOG'"
check 'the same threads and the variant' 0 '^halod --stdio --device cpu --threads 4 --variant avx2$' "THREADS=4 VARIANT=avx2 $peer Q4_0 >/dev/null; cat '$LOG'"
check 'a peer that fails' 1 'failed to load model' "PEER_FAILS=1 $peer Q4_0"
check 'a peer without these figures' 1 'printed no speed of a prompt of 32' "PROMPT=32 $peer Q4_0"
check 'an engine that refuses' 1 'a context of 1' "ENGINE_REFUSES=1 $peer Q4_0"
check 'an engine that dies' 1 'no answer' "ENGINE_DIES=1 $peer Q4_0"
check 'no such peer' 2 'PEER_BENCH BUILD_DIR' "'$root/tests/bench/peer.sh' /nosuch/peer '$run/build'"
: >"$LOG"
check 'the real engine and a file' 0 '^\| fable-Q4_K_M \| 51\.5 .*\| [0-9.]+ \| [0-9]+ % \| [0-9]+ % \|$' \
    "ROUNDS=1 REPEAT=1 '$root/tests/bench/peer.sh' '$run/peer' '$build' '$model'"
checks_end 10
