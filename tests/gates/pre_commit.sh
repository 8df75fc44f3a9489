#!/usr/bin/env bash
# .githooks/pre-commit: which staged paths need the gates, that every line of the list matches a file, and that a commit is refused
# when a gate fails. The gates and the build are stubs here. Argument: the source root.
set -uo pipefail
root=$1
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
repo=$run/repo
mkdir -p "$repo"/{.githooks,scripts,tests/gates,kernels/cpu,daemon/serve,docs,bin,build}
cp "$root/.githooks/pre-commit" "$repo/.githooks/"
cp "$root/tests/gates/forward-paths.txt" "$repo/tests/gates/"
for gate in logit coherence; do
    printf '#!/bin/sh\necho "%s $*" >>"$RAN"\nexit ${FAIL_%s:-0}\n' "$gate" "$gate" >"$repo/scripts/$gate-gate"
done
printf '#!/bin/sh\necho "ninja" >>"$RAN"\nexit ${FAIL_ninja:-0}\n' >"$repo/bin/ninja"
chmod +x "$repo"/scripts/* "$repo/bin/ninja"
touch "$repo/build/build.ninja"
cd "$repo" && git init -q && git config user.email t@example.org && git config user.name t && git config core.hooksPath .githooks
export RAN=$run/ran PATH=$repo/bin:$PATH HALO_GATE_BUILD=$repo/build

decide="'$repo/.githooks/pre-commit' --decide"
for path in kernels/hip/gfx/gemv.h kernels/cpu/op_rope.c kernels/include/kernels/quant.h daemon/model/arch_llama.c daemon/model/rope.c \
    daemon/store/reader.c daemon/engine/device/commit.c daemon/engine/device/kv_reuse.c daemon/engine/device/states.c \
    daemon/engine/device/experts_read.c daemon/base/include/base/rng.h tests/gates/matrix.txt meson.build; do
    check "needed for $path" 0 "^$path$" "printf '%s\n' README.md '$path' docs/x.md | $decide"
done
for path in README.md docs/GATES.md daemon/serve/main.c protocol/utf8.c client/haloctl/chat.c daemon/jinja/lex.c tests/e2e/chaos.c daemon/engine/commit.c; do
    check "not needed for $path" 1 '' "echo '$path' | $decide"
done
check 'not needed for an empty list' 1 '' "$decide </dev/null"

# Each line of the list matches a file.
(cd "$root" && find . -type f -not -path './build*' -not -path './.git/*' | cut -c3-) >"$run/files"
while read -r pattern; do
    case $pattern in '' | '#'*) continue ;; esac
    printf '%s\n' "$pattern" >"$repo/tests/gates/forward-paths.txt"
    check "the pattern $pattern matches a file" 0 . "$decide <'$run/files'"
done <"$root/tests/gates/forward-paths.txt"
cp "$root/tests/gates/forward-paths.txt" "$repo/tests/gates/"

commit() { printf "cd '%s' && : >'%s' && date +%%N >'%s' && git add '%s' && %s git commit -qm x; s=\$?; paste -sd ' ' '%s'; exit \$s" "$repo" "$RAN" "$1" "$1" "${2:-}" "$RAN"; }
check 'documents are committed without the gates' 0 '^$' "$(commit docs/x.md)"
check 'a kernel is committed when the gates pass' 0 '^ninja logit --quick .* coherence --quick' "$(commit kernels/cpu/x.c)"
check 'it says why' 0 'because of kernels/cpu/x.c' "$(commit kernels/cpu/x.c)"
check 'not when the logit gate fails' 1 'the logit gate fails' "$(commit kernels/cpu/x.c FAIL_logit=1)"
check 'not when it checked nothing' 1 'the logit gate fails' "$(commit kernels/cpu/x.c FAIL_logit=3)"
check 'not when the coherence gate fails' 1 'the coherence gate fails' "$(commit kernels/cpu/x.c FAIL_coherence=1)"
check 'not when it does not build' 1 'the tree does not build' "$(commit kernels/cpu/x.c FAIL_ninja=1)"
check 'not when the list is empty' 1 'cannot decide' "cd '$repo' && : >tests/gates/forward-paths.txt && git add docs && date +%N >docs/y.md && git add docs/y.md && git commit -qm x; s=\$?; git checkout -q tests/gates/forward-paths.txt 2>/dev/null || cp '$root/tests/gates/forward-paths.txt' tests/gates/; git reset -q; exit \$s"
check 'nothing was committed by those' 0 '^3$' "cd '$repo' && git rev-list --count HEAD"
check 'removing a kernel needs the gates too' 0 'ninja logit' "cd '$repo' && : >'$RAN' && git reset -q --hard && git rm -q kernels/cpu/x.c && git commit -qm x && paste -sd ' ' '$RAN'"

checks_end 30
