#!/usr/bin/env bash
# haloctl against a real daemon: what a person and a script see. Arguments: HALOD ENGINE HALOCTL MODEL_DIR.
set -uo pipefail
halod=$1 engine=$2 ctl=$3 models=$4
run=$(mktemp -d "${TMPDIR:-/tmp}/halod-ctl.XXXXXX")
export HALO_SOCKET=$run/s
n=0 bad=0
finish() { kill -TERM "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; rm -rf "$run"; }

# check NAME WANTED_STATUS [PATTERN] -- COMMAND…: exit status, and an extended regular expression that stdout+stderr must hold.
check() {
    local name=$1 wanted=$2 pattern=''
    shift 2
    [ "$1" = -- ] || { pattern=$1; shift; }
    shift
    local output status
    output=$("$@" 2>&1 </dev/null)
    status=$?
    n=$((n + 1))
    if [ "$status" -ne "$wanted" ]; then
        echo "not ok $n - $name: exit status $status, wanted $wanted"; printf '%s\n' "$output" | head -n 5; bad=$((bad + 1))
    elif [ -n "$pattern" ] && ! grep -qE -- "$pattern" <<<"$output"; then
        echo "not ok $n - $name: no match of /$pattern/ in:"; printf '%s\n' "$output" | head -n 5; bad=$((bad + 1))
    else
        echo "ok $n - $name"
    fi
}

daemon=0
check 'no daemon: says which socket it tried' 4 "$run/s" -- "$ctl" ping
check 'usage without a verb' 2 'usage: haloctl' -- "$ctl"
check 'unknown verb' 2 "unknown verb 'frobnicate'" -- "$ctl" frobnicate
check 'unknown option' 2 'max-tokes' -- "$ctl" generate --max-tokes 3 hello
check 'a number that is none' 2 "'three'" -- "$ctl" generate -n three hello
check 'help of help' 0 '^usage: haloctl' -- "$ctl" help --help
check 'help lists options' 0 'temperature' -- "$ctl" generate --help
every_option_is_written() { # in the man page
    local verb option page seen=0 missing=0
    page=" $(sed 's/\\-/-/g' "$models/../../client/haloctl/haloctl.1" | tr -c 'a-z\n-' ' ' | tr '\n' ' ') "
    for verb in $("$ctl" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
        for option in $("$ctl" "$verb" --help | grep -oE -- '--[a-z][a-z-]+'); do
            seen=$((seen + 1))
            [[ $page = *" $option "* ]] || { echo "$verb $option is missing"; missing=1; }
        done
    done
    [ "$seen" -gt 60 ] && [ "$missing" -eq 0 ]
}
check 'the man page has every option' 0 -- every_option_is_written
check 'version' 0 'protocol 1' -- "$ctl" --version

"$halod" --socket "$HALO_SOCKET" --model-dir "$models" --state-dir "$run/state" --device cpu --engine "$engine" 2>"$run/log" &
daemon=$!
trap finish EXIT
check 'ping waits for the daemon that is starting' 0 '^pong' -- "$ctl" ping --wait 60
check 'ping' 0 '^pong' -- "$ctl" ping
check 'status before a load' 0 '^engine' -- "$ctl" status
check 'models lists the file' 0 'fable-Q4_K_M +qwen3 +Q4_K_M ' -- "$ctl" models
check 'generate without a loaded model is refused' 3 '(not_found|bad_request)' -- "$ctl" generate hello
check 'load of a model that is not there' 3 'not_found.*nosuch' -- "$ctl" load nosuch
check 'plan' 0 'fits' -- "$ctl" plan fable-Q4_K_M
check 'load' 0 '^loaded fable-Q4_K_M \(qwen3\) on cpu' -- "$ctl" load --context 1024 fable-Q4_K_M
check 'a time with a unit' 0 '"keep_alive_s":300' -- "$ctl" --json load --keep-alive 5m fable-Q4_K_M
check 'a time that is none' 2 "keep-alive: '5x' is not a number of seconds" -- "$ctl" load --keep-alive 5x fable-Q4_K_M
check 'no time, of a model that is there' 0 '^loaded.*, already in memory$' -- "$ctl" load --keep-alive -1 fable-Q4_K_M
check 'a size with a unit' 0 '"budget_bytes":8000000000,' -- "$ctl" --json plan --budget 8G fable-Q4_K_M
check 'a size in powers of 1024' 0 '"budget_bytes":1610612736,' -- "$ctl" --json plan --budget 1.5GiB fable-Q4_K_M
check 'a size that is none' 2 "budget: '-8G' is not a number of bytes" -- "$ctl" plan --budget -8G fable-Q4_K_M
check 'a size with two units' 2 "budget: '8GM' is not a number of bytes" -- "$ctl" load --budget 8GM fable-Q4_K_M
check 'no progress bar in a pipe' 0 '^loaded' -- bash -c "! '$ctl' load fable-Q4_K_M 2>&1 | grep -q 'loading \['; '$ctl' load fable-Q4_K_M"
check 'generate is greedy and repeatable' 0 -- bash -c \
    "a=\$('$ctl' -q generate -n 24 -t 0 'Once upon a time') && b=\$('$ctl' -q generate -n 24 -t 0 'Once upon a time') && [ -n \"\$a\" ] && [ \"\$a\" = \"\$b\" ]"
check 'a seed repeats' 0 -- bash -c \
    "a=\$('$ctl' -q generate -n 24 --seed 5 'The fox') && b=\$('$ctl' -q generate -n 24 --seed 5 'The fox') && c=\$('$ctl' -q generate -n 24 --seed 6 'The fox') && [ \"\$a\" = \"\$b\" ] && [ \"\$a\" != \"\$c\" ]"
printf 'The old\nking' >"$run/prompt"
check 'prompt from a file' 0 '"prompt_tokens":[1-9]' -- "$ctl" --json generate -n 2 --file "$run/prompt"
check 'the same prompt from stdin has the same MD5' 0 "$(md5sum <"$run/prompt" | cut -d' ' -f1)" -- bash -c "'$ctl' --json generate -n 2 <'$run/prompt'"
check 'json has committed ids' 0 '"type":"committed".*"tok_id":' -- "$ctl" --json generate -n 2 --ids hello
check 'too long a prompt is refused with the numbers' 3 'context_overflow.*1024' -- bash -c \
    "for i in \$(seq 3000); do printf 'wolf '; done | '$ctl' generate -n 2"
check 'a value out of range is refused by name' 3 'bad_request.*top_p' -- "$ctl" generate --top-p 1.5 hello
check 'tokenize' 0 '"Once"|Once' -- "$ctl" tokenize -m fable-Q4_K_M 'Once upon'
check 'detokenize gives the text back' 0 '^Once upon a time$' -- bash -c \
    "'$ctl' --json tokenize -m fable-Q4_K_M 'Once upon a time' | grep -o '\"tokens\":\[[0-9,]*\]' | grep -o '[0-9,]*[0-9]' | '$ctl' detokenize -m fable-Q4_K_M"
check 'score' 0 'mean negative log-likelihood [0-9.]+' -- "$ctl" score -m fable-Q4_K_M 'Once upon a time there was a king'
check 'bench' 0 'decode +8 tokens' -- "$ctl" bench --prefill 16 --decode 8 --repeat 1 fable-Q4_K_M
check 'chat in a pipe' 0 '.' -- bash -c "printf 'Tell me a tale.\n/reset\nAnother.\n' | '$ctl' -q chat -n 12 --seed 1"
check 'template shows text and ids' 0 '^\[[0-9]+ tokens: 4094 ' -- "$ctl" template -m fable-Q4_K_M --system 'Be brief.' 'Hello there'
check 'template shows the text alone' 0 -- bash -c \
    "[ \"\$('$ctl' -q template -m fable-Q4_K_M --no-generation-prompt Hi)\" = \$'<|im_start|>user\nHi<|im_end|>' ]"
printf '[{"type":"function",\n"function":{"name":"rain"}}]\n' >"$run/tools"
printf '[{"role":"user","content":"Hello"},\n{"role":"assistant","content":"","tool_calls":[{"function":{"name":"rain","arguments":{}}}]},\n{"role":"tool","content":"2 mm"}]' >"$run/messages"
printf '[{"role":"user","contents":"x"}]' >"$run/misspelt"
printf '[{"role":"user","content":"x"}' >"$run/cut"
check 'template reads messages and tools from files' 0 '^2 mm<|im_end|>$' -- "$ctl" template -m fable-Q4_K_M --messages "$run/messages" --tools "$run/tools" --template-vars '{"enable_thinking":false}'
check 'generate with messages and tools' 0 '"prompt_tokens":[1-9]' -- "$ctl" --json generate -n 2 --messages "$run/messages" --tools "$run/tools"
check 'a file without a byte' 2 'haloctl: /dev/null is not JSON: it is empty' -- "$ctl" generate --messages /dev/null
check 'a misspelt field of a file is named before anything is sent' 2 'haloctl: messages\[0\]: unknown field "contents"' -- "$ctl" generate --messages "$run/misspelt"
check 'a file that is cut short is no JSON' 2 'cut is not JSON' -- "$ctl" template -m fable-Q4_K_M --messages "$run/cut"
check 'variables that are no object' 2 'template_vars: expected an object' -- "$ctl" template -m fable-Q4_K_M --template-vars '[1]' x
check 'a prompt takes no tools' 2 'need --messages' -- "$ctl" generate --tools "$run/tools" hello
check 'chat with tools' 0 '.' -- bash -c "echo 'Tell me a tale.' | '$ctl' -q chat -n 4 --seed 1 --tools '$run/tools' --template-vars '{\"a\":1}'"
check 'raw counts terminal events' 1 '"type":"error"' -- bash -c \
    "printf '%s\n' '{\"type\":\"ping\",\"id\":1}' '{\"type\":\"nonsense\",\"id\":2}' | '$ctl' raw"
check 'raw answers every line' 0 -- bash -c \
    "for i in \$(seq 50); do printf '{\"type\":\"ping\",\"id\":%d}\n' \$i; done | '$ctl' raw | grep -c pong | grep -qx 50"
# On a busy machine the reply may be over before the signal: then once more.
check 'interrupt cancels and says so by its status' 130 -- bash -c \
    "set -m
     for _ in \$(seq 10); do
         : >'$run/out'; '$ctl' -q generate -n 900 --ignore-eos 'Once' >'$run/out' & p=\$!
         for _ in \$(seq 3000); do [ -s '$run/out' ] && break; sleep 0.005; done; kill -INT \$p; wait \$p
         status=\$?; [ \$status -eq 0 ] || break
     done; exit \$status"
check 'the engine is killed in the middle of a stream: a notice, and the same text' 0 'engine_restarted: the engine was killed by signal 9' -- bash -c \
    "a=\$('$ctl' -q generate -n 800 --seed 3 --ignore-eos 'Once')
     for _ in \$(seq 10); do
         : >'$run/out'; '$ctl' generate -n 800 --seed 3 --ignore-eos 'Once' >'$run/out' 2>'$run/err' & p=\$!
         for _ in \$(seq 3000); do [ -s '$run/out' ] && break; sleep 0.01; done
         pkill -9 -P $daemon; wait \$p || exit 9
         ! grep -q engine_restarted '$run/err' || break
     done
     cat '$run/err'; [ \"\$a\" = \"\$(cat '$run/out')\" ]"
check 'the engine is killed after a loop was told: it is told once' 0 '^1 told, 1 restarted$' -- bash -c \
    "for _ in \$(seq 10); do
         '$ctl' generate -n 900 -t 0 --ignore-eos --detect-loops 'Once upon a time' >'$run/out' 2>'$run/err' & p=\$!
         for _ in \$(seq 3000); do grep -q loop_detected '$run/err' && break; sleep 0.002; done
         pkill -9 -P $daemon; wait \$p || exit 9
         seen=\"\$(grep -c 'loop_detected: from token' '$run/err') told, \$(grep -c engine_restarted '$run/err') restarted\"
         [ \"\$seen\" = '1 told, 0 restarted' ] || break
     done; echo \"\$seen\""
check 'the end of the context is told' 5 'length: the reply was cut off after [0-9]+ tokens, where the context ends' -- "$ctl" generate --ignore-eos Once
check 'a model that is misspelt' 3 "did you mean 'fable-Q4_K_M'" -- "$ctl" load fabel-Q4_K_M
check 'stats' 0 'counters' -- "$ctl" stats
check 'diag' 0 'build' -- "$ctl" diag
check 'unload' 0 'freed' -- "$ctl" unload fable-Q4_K_M
check 'unload again is refused' 3 'not_found: model fable-Q4_K_M is not loaded$' -- "$ctl" unload fable-Q4_K_M
check 'a model that is named is loaded' 0 'Once|[a-z]' -- "$ctl" -q generate -m fable-Q4_K_M -n 3 -t 0 'Once'
check 'and is there from then on' 0 '^unloaded|freed' -- "$ctl" unload fable-Q4_K_M

echo "$n checks, $bad failed"
[ "$bad" -ne 0 ] && { echo '--- log of the daemon'; tail -n 40 "$run/log"; }
[ "$n" -gt 20 ] && [ "$bad" -eq 0 ]
