# check.sh: counts checks of exit status and output, for the gates' tests. Sourced.
#
# check NAME WANTED_STATUS PATTERN COMMAND: PATTERN is an extended regular expression that stdout and stderr together must match.
n=0 bad=0
run=$(mktemp -d "${TMPDIR:-/tmp}/halod-gates.XXXXXX")

check() {
    local output status=0
    output=$(bash -c "$4" 2>&1 </dev/null) || status=$?
    n=$((n + 1))
    if [ "$status" -ne "$2" ] || ! grep -qE -- "$3" <<<"$output"; then
        echo "not ok $n - $1: exit status $status, wanted $2 and /$3/"
        printf '%s\n' "$output" | tail -n 25
        bad=$((bad + 1))
    else
        echo "ok $n - $1"
    fi
}

checks_end() { # LEAST: fails when fewer checks were made
    echo "$n checks, $bad failed"
    [ "$n" -ge "$1" ] && [ "$bad" -eq 0 ]
}
