#!/usr/bin/env bash
# scripts/gpu-lock: one holder at a time, names the holder, and continues when the holder dies. Argument: the source root.
set -uo pipefail
root=$1
. "$root/tests/gates/check.sh"
lock=$root/scripts/gpu-lock
export HALO_GPU_LOCK=$run/lock
unset HALO_GPU_LOCK_HELD
trap 'kill -9 ${holder:-} ${left:-} ${waiter:-} 2>/dev/null; rm -rf "$run"' EXIT
until_true() { for _ in $(seq 3000); do ! "$@" || return 0; sleep 0.02; done; echo "timed out waiting for: $*"; return 1; }
is_held() { "$lock" --who >/dev/null; }

check 'nobody' 1 '^nobody$' "'$lock' --who"
check 'the command runs, its status is passed on' 7 '^here$' "'$lock' bash -c 'echo here; exit 7'"
check 'the command may ask itself' 0 '^nested$' "'$lock' '$lock' --no-wait echo nested"
check 'no command' 2 'usage' "'$lock'"
check 'a wait that is not a number' 2 'usage' "'$lock' --wait soon true"
check 'an unknown option' 2 'usage' "'$lock' --frobnicate true"
check 'no such command' 127 'No such file|not found' "'$lock' /nosuch/command"
check 'a lock that cannot be' 2 'cannot be opened' "HALO_GPU_LOCK=/nosuch/lock '$lock' true"

# A new holder writes its record a moment later. The record of an earlier holder is not its own.
printf '%s\t%s\t%s\n' "$(bash -c 'echo $$')" '2001-01-01 00:00:00' 'long ago' >"$run/lock"
(flock 8; sleep 0.3; printf '%s\t%s\t%s\n' "$BASHPID" '2001-01-01 00:00:01' 'just now' >"$run/lock"; exec sleep 1000) 8<>"$run/lock" &
holder=$!
until_true is_held || exit 1
check 'taken, record not yet written' 0 "^pid $holder since 2001-01-01 00:00:01: just now$" "'$lock' --who"
kill -9 "$holder"
wait "$holder" 2>/dev/null

"$lock" sleep 1000 &
holder=$!
until_true is_held || exit 1
check 'the holder: pid, time, command' 0 "^pid $holder since [0-9-]+ [0-9:]+: sleep 1000$" "'$lock' --who"
check 'no wait: it says so and exits' 75 "in use by pid $holder since [0-9-]+ [0-9:]+: sleep 1000" "'$lock' --no-wait touch '$run/never'"
check 'the wait has an end' 75 'still in use by pid' "'$lock' --wait 1 touch '$run/never'"
check 'neither ran' 1 '' "test -e '$run/never'"

"$lock" bash -c "echo got it >'$run/got'; exec sleep 1000" 2>"$run/waits" &
waiter=$!
until_true grep -q "in use by pid $holder" "$run/waits" || exit 1
check 'the next one waits' 1 '' "test -e '$run/got'"
kill -9 "$holder"
wait "$holder" 2>/dev/null
until_true test -s "$run/got" || bad=$((bad + 1))
check 'the holder was killed: the next one has the lock' 0 "^pid $waiter since" "'$lock' --who"
kill -9 "$waiter"
wait "$waiter" 2>/dev/null
check 'and gives it back' 1 '^nobody$' "'$lock' --who"

# The holder is gone, what it started is not: the GPU is still in use.
"$lock" bash -c "sleep 1000 & echo \$! >'$run/left.part'; mv '$run/left.part' '$run/left'; wait" &
holder=$!
until_true test -s "$run/left" || exit 1
left=$(cat "$run/left")
kill -9 "$holder"
wait "$holder" 2>/dev/null
check 'a process left running holds it' 0 "a process left running by pid $holder, which started .* and has ended: bash" "'$lock' --who"
kill -9 "$left"
until_true "$lock" --no-wait true 2>/dev/null || bad=$((bad + 1))
check 'until that ends' 1 '^nobody$' "'$lock' --who"

checks_end 18
