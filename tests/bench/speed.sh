# speed.sh: one bench of a model by a fresh engine, for bench_speed.sh and peer.sh. Sourced.
#
# speed_model BUILD DIR TYPE: the file of a random model in the shape of Qwen3-0.6B, made in DIR unless it is there.
# speed_halod BUILD FILE THREADS PROMPT DECODE REPEAT: loads FILE on the CPU device (VARIANT, if set) and prints
#   PROMPT_TOK_S DECODE_TOK_S GB_S SHARE
# the medians of REPEAT runs, the memory bandwidth measured in between, and the share of it that decode reached. Status 1, with the
# engine's answer on stderr, when there are no such figures.
speed_model() {
    local file=$2/qwen3-0.6b-$3.gguf
    [ -f "$file" ] || "$1/tests/tools/mkgguf" --preset qwen3-0.6b --type "$3" --seed 1 -o "$file" >/dev/null || return
    printf '%s\n' "$file"
}

speed_halod() {
    local build=$1 file=$2 threads=$3 prompt=$4 decode=$5 repeat=$6 talk engine answer name value figures=() input
    talk=$(mktemp -d "${TMPDIR:-/tmp}/halod-speed.XXXXXX") && mkfifo "$talk/in" || return
    exec {input}<>"$talk/in"
    "$build/daemon/engine/halod-engine" --stdio --device cpu --threads "$threads" ${VARIANT:+--variant "$VARIANT"} \
        <"$talk/in" >"$talk/out" {input}>&- &
    engine=$!
    printf '%s\n' "{\"type\":\"load\",\"id\":1,\"model\":\"$file\",\"params\":{\"context\":$((prompt + decode)),\"kv_tokens\":4096}}" \
        "{\"type\":\"bench\",\"id\":2,\"model\":\"$file\",\"prefill\":$prompt,\"decode\":$decode,\"repeat\":$repeat}" >&"$input"
    while ! grep -q '"type":"\(bench\|error\)"' "$talk/out" && kill -0 "$engine" 2>/dev/null; do sleep 0.2; done
    exec {input}>&- # the engine ends with its input
    wait "$engine"
    answer=$(grep '"type":"\(bench\|error\)"' "$talk/out" | tail -n 1)
    rm -rf "$talk"
    for name in prefill_tok_s decode_tok_s bandwidth_gb_s bandwidth_share; do
        value=$(grep -o "\"$name\":[0-9.]*" <<<"$answer" | head -n 1 | cut -d: -f2)
        [ -n "$value" ] || { echo "halod-engine: ${answer:-no answer}" >&2; return 1; }
        figures+=("$value")
    done
    echo "${figures[@]}"
}
