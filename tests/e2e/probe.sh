#!/usr/bin/env bash
# coherence-probe as a script sees it: sources, forms, exit statuses. Arguments: PROBE ENGINE MODEL_DIR HALOD.
set -uo pipefail
probe=$1 engine=$2 models=$3 model=$3/fable-Q4_K_M.gguf halod=$4
run=$(mktemp -d "${TMPDIR:-/tmp}/halod-probe.XXXXXX")
daemon=
finish() {
    [ -z "$daemon" ] || { kill -TERM "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; }
    rm -rf "$run"
}
trap finish EXIT
n=0 bad=0

# check NAME WANTED_STATUS PATTERN COMMAND: exit status, and an extended regular expression that stdout+stderr must hold.
check() {
    local output status
    output=$(bash -c "$4" 2>&1)
    status=$?
    n=$((n + 1))
    if [ "$status" -ne "$2" ] || ! grep -qE -- "$3" <<<"$output"; then
        echo "not ok $n - $1: exit status $status, wanted $2 and /$3/"
        printf '%s\n' "$output" | head -n 8
        bad=$((bad + 1))
    else
        echo "ok $n - $1"
    fi
}

started='{"type":"started","id":1,"model":"m","prompt_tokens":2,"cached_tokens":0,"prompt_md5":"x","effective_md5":"y",'
started+='"newline_runs":0,"seed":7,"context":64,"changes":[]}'
done='{"type":"done","id":1,"finish_reason":"stop","stop":9,"tokens":3,"prefill_tokens":2,"cached_tokens":0,'
done+='"prefill_ms":1.0,"prefill_tok_s":null,"ttft_ms":1.0,"decode_tok_s":null,"tok_s":null,"queue_ms":0.0}'
{
    echo "$started"
    for i in $(seq 0 199); do printf '{"type":"committed","id":1,"tok_id":%d,"pos":%d,"t_ms":%d.000}\n' $((i % 74)) "$i" "$i"; done
    printf '{"type":"token","id":1,"text":"Good night.<|im_"}\n{"type":"token","id":1,"text":"start|>"}\n'
    echo "$done"
} >"$run/loop"
{
    echo "$started"
    for i in $(seq 0 99); do printf '{"type":"committed","id":1,"tok_id":%d,"pos":%d,"t_ms":%d.000}\n' "$i" "$i" "$i"; done
    printf '{"type":"token","id":1,"text":"Good night."}\n'
    echo "$done"
} >"$run/clean"
head -n 50 "$run/clean" >"$run/cut"
{ head -n 50 "$run/clean"; echo '{"type":"notice","id":1,"code":"engine_restarted","message":"gone","resumed_at":49}'; tail -n +51 "$run/clean"; } >"$run/death"
{ head -n 50 "$run/clean"; echo '{"type":"error","id":1,"code":"device_fault","message":"gone","retryable":true}'; } >"$run/error"

check 'the detectors prove themselves' 0 '^self-check: [0-9]+ detectors, [0-9]+ cases, 0 wrong' "'$probe' --self-check"
check 'a clean reply' 0 '^verdict: OK' "'$probe' --stdin <'$run/clean'"
check 'the mean log-probability to the last digit' 0 'reply 100 ids, 11 bytes, mean logprob -0\.249999999875$' \
    "sed -E 's/\"t_ms\":/\"logprob\":-0.25,&/; 0,/-0\.25/s//-0.2499999875/' '$run/clean' | '$probe' --stdin"
check 'none where log-probabilities are missing' 0 'reply 100 ids, 11 bytes$' "'$probe' --stdin <'$run/clean'"
check 'a marker that is cut over two events' 1 'special_leak +FAIL' "'$probe' --stdin <'$run/loop'"
check 'the text is shown' 1 'Good night\.<\|im_start\|>' "'$probe' --stdin <'$run/loop'"
check 'a reply that does not end' 1 'request +FAIL the events end' "'$probe' --stdin <'$run/cut'"
check 'an engine that died is a row' 1 'notice +FAIL engine_restarted: gone' "'$probe' --stdin <'$run/death'"
check 'a notice that is no death' 0 'notice +WARN loop_detected: round' "sed 's/engine_restarted/loop_detected/;s/gone/round/' '$run/death' | '$probe' --stdin"
check 'an error is a row' 1 'request +FAIL device_fault: gone' "'$probe' --stdin <'$run/error'"
check 'what came before an error is judged' 1 'attractor_first +OK' "'$probe' --stdin <'$run/error'"
check 'nothing to judge' 3 'nothing to judge' "'$probe' --stdin </dev/null"
check 'no events' 2 'is not an event' "echo hello | '$probe' --stdin"
check 'a temperature that is no number' 2 'unknown option or bad value: nan' "'$probe' --engine '$engine' --model '$model' -t nan x"
check 'markdown' 1 '^\| special_leak \| FAIL \|' "'$probe' --markdown --stdin <'$run/loop'"
check 'json' 1 '^\{"verdict":"FAIL","model":"m".*"detector":"special_leak","verdict":"FAIL"' "'$probe' --json --stdin <'$run/loop'"
check 'an engine of its own, greedy: the small model goes round' 1 'period +FAIL' \
    "'$probe' --engine '$engine' --device cpu --model '$model' 'Once upon a time'"
check 'a conversation' 0 '^model fable-Q4_K_M, device cpu' \
    "echo '[{\"role\":\"user\",\"content\":\"Tell me of the fox.\"}]' >'$run/m' && '$probe' --engine '$engine' --device cpu --model '$model' --messages '$run/m' -n 24"
check 'a model that is not there' 2 'load: .*nosuch' "'$probe' --engine '$engine' --device cpu --model /nosuch x"
check 'a failure has one line, its reason' 2 '^1$' \
    "'$probe' --engine '$engine' --device cpu --model /nosuch x >'$run/said' 2>&1; code=\$?; wc -l <'$run/said'; exit \$code"
check 'rates that are not known' 0 '^prefill \? tok/s, decode \? tok/s, first token after 1\.0 ms$' "'$probe' --stdin <'$run/clean'"
check 'no engine' 2 'No such file' "'$probe' --engine /nosuch --model '$model' x"
check 'an engine that says nothing' 2 'Timer expired|timed out' \
    "printf '#!/bin/sh\ncat >/dev/null\n' >'$run/mute' && chmod +x '$run/mute' && timeout 20 '$probe' --engine '$run/mute' --model '$model' --wait-ms 300 x"
check 'no daemon' 2 'No such file' "'$probe' --socket '$run/none' x"
check 'two sources' 2 'usage' "'$probe' --stdin --socket x"
check 'help and version have every spelling' 0 '^usage: .*' \
    "for w in help --help -h; do '$probe' \$w | grep -q '^usage: coherence-probe' || exit 1; done; for w in version --version -V; do '$probe' \$w | grep -q '^coherence-probe [0-9]' || exit 1; done; '$probe' help"
check 'a prompt that is no UTF-8 is refused with its byte' 2 'the prompt: the byte at offset 3 is 0xe9' \
    "printf 'caf\351' | '$probe' --engine '$engine' --model '$model' --prompt-file -"
check 'messages that are no UTF-8 are refused with their byte' 2 'the byte at offset 2 is 0xe9' \
    "printf '[\"\351\"]' | '$probe' --engine '$engine' --device cpu --model '$model' --messages -"
check 'a file has the bytes of a reply; a terminal shows them' 0 'a\\x1b\[31mb' \
    "sed 's/Good night/a\\\\u001b[31mb/' '$run/clean' >'$run/escape'; '$probe' --stdin <'$run/escape' | grep -q \"\$(printf 'a\033\\[31mb')\" && script -qec \"'$probe' --stdin\" /dev/null <'$run/escape'"
check 'output that goes nowhere' 2 'cannot write the output: Bad file descriptor' "'$probe' --self-check >&-"
check 'a reader that goes away' 141 '^$' "mkfifo '$run/p'; exec 3<>'$run/p' 4>'$run/p' 3<&-; '$probe' --stdin <'$run/clean' >&4"
check 'no prompt' 2 'give one of' "'$probe' --engine '$engine' --model '$model'"

# A daemon's socket.
"$halod" --socket "$run/s" --model-dir "$models" --state-dir "$run/state" --device cpu --engine "$engine" 2>"$run/log" &
daemon=$!
for _ in $(seq 1200); do [ -S "$run/s" ] && break; sleep 0.05; done
check 'a daemon: the model is loaded when it is named' 0 '^model fable-Q4_K_M, device cpu,' \
    "'$probe' --socket '$run/s' --model fable-Q4_K_M -t 0.8 --seed 1 -n 40 'Once upon a time there was a king'"
check 'a daemon: what is judged is what it said' 1 'period +FAIL' "'$probe' --socket '$run/s' --model fable-Q4_K_M 'Once upon a time'"
check 'a daemon: figures and the MD5 of the prompt' 0 "^prompt $(printf 'The fox' | md5sum | cut -d' ' -f1)" \
    "'$probe' --socket '$run/s' --model fable-Q4_K_M -t 0.8 --seed 3 -n 40 'The fox'"
check 'a daemon: a refusal is a row' 1 'request +FAIL context_overflow' \
    "for i in \$(seq 30000); do printf 'wolf '; done >'$run/long'; '$probe' --socket '$run/s' --model fable-Q4_K_M --prompt-file '$run/long'"
check 'a daemon: a model that it has not' 1 'request +FAIL not_found' "'$probe' --socket '$run/s' --model nosuch x"

echo "$n checks, $bad failed"
[ "$bad" -ne 0 ] && { echo '--- log of the daemon'; tail -n 20 "$run/log"; }
[ "$n" -gt 20 ] && [ "$bad" -eq 0 ]
