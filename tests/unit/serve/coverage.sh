#!/usr/bin/env bash
# The lines of serve's policies that the tests of the suite "policies" reached: at least 95 in 100, else exit status 1.
#
#   coverage.sh BUILD_DIR     of a build with -Db_coverage=true, after the suite ran and nothing else did
set -euo pipefail
build=$(cd "${1:?usage: coverage.sh BUILD_DIR}" && pwd)
cd "$build"
find daemon/serve -name '*.gcda' | grep -E 'serve_request\.a\.p/|/(quota|flow|watch|checkup_read)\.c\.gcda' |
    xargs -r gcov -n 2>/dev/null | awk '
    /^File / { name = $2; gsub(/.*daemon\/serve\/|\x27/, "", name); own = $2 ~ /daemon\/serve\/.*\.c\x27$/ }
    /^Lines executed:/ && own {
        split($0, part, /[:% ]+/); n = $NF; all += n; reached += part[3] / 100 * n; own = 0
        printf "%6.1f %% of %4d lines  %s\n", part[3], n, name
    }
    END {
        printf "%6.1f %% of %4d lines in all\n", all ? 100 * reached / all : 0, all
        exit !(all > 1000 && reached >= 0.95 * all)
    }'
