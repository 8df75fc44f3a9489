#!/usr/bin/env bash
# scripts/check-docs: what it must refuse and what it must let pass, on small pages, and the pages of this tree with the tests of this
# build. Arguments: the source root, the build folder.
set -uo pipefail
root=$1 build=$2
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
tree=$run/tree
mkdir -p "$tree"/{docs,daemon,build/meson-info}
cd "$tree" || exit 1
docs="'$root/scripts/check-docs' '$tree'"

page() { printf '# A page\n\n%s\n' "$1" >README.md; }
security() { printf '## Threats and their tests\n\n| threat | what happens | tests |\n|---|---|---|\n%s\n' "$1" >docs/SECURITY.md; }
echo '[{"name": "one test", "suite": ["a"]}, {"name": "another", "suite": ["b"]}]' >build/meson-info/intro-tests.json
touch daemon/there.c

check 'no page' 1 'found no page' "$docs"
page 'Nothing to see.'
check 'a page without a reference' 1 'found nothing to check' "$docs"
page 'See `daemon/there.c` and [above](#a-page).'
check 'a path and a heading that exist' 0 '1 pages, 1 links, 1 paths' "$docs"
page 'See `daemon/gone.c`.'
check 'a path that does not exist' 1 'daemon/gone.c.: there is no such file' "$docs"
page 'See [below](#nowhere).'
check 'a heading that does not exist' 1 'README.md has no such heading' "$docs"

page 'See `daemon/there.c`.'
security '| `a` thing | it ends | `one test`, `another` |'
check 'a threat with its tests' 0 '1 threats, 2 tests,' "$docs build"
check 'without a build folder tests are not checked' 0 '1 threats, 0 tests,' "$docs"
check 'a build folder that is none' 1 'is no build folder' "$docs daemon"
security '| a thing | it `ends` | by inspection |'
check 'a threat without a test' 1 'SECURITY.md:5: a threat without a test' "$docs"
security '| a thing | it ends | `one test`, `one` |'
check 'a test that does not exist' 1 '`one`: build has no test' "$docs build"
security ''
check 'no threats' 1 'found no threat' "$docs"

rm docs/SECURITY.md
mkdir -p daemon/model tests/unit/model
echo 'const struct halo_arch halo_arch_a = HALO_ARCH("a-1", hparams, tensors, build);' >daemon/model/arch_a.c
echo 'The `a-1` of somebody.' >docs/MODELS.md
echo '{"toy", "a-1", ALL, 2},' >tests/unit/model/toy_families.c
check 'a model family with its page and its toy' 0 '1 families seen' "$docs"
echo '{"toy", "a", ALL, 2},' >tests/unit/model/toy_families.c
check 'a model family without a toy' 1 'arch_a.c:1: tests/unit/model/toy_families.c has no family `a-1`' "$docs"
echo 'The a-1 of somebody.' >docs/MODELS.md
check 'a model family without a word in the page' 1 'docs/MODELS.md has no family `a-1`' "$docs"

check 'the pages of this tree' 0 '[1-9][0-9]+ threats, [1-9][0-9]+ tests, [1-9][0-9]+ families seen' "'$root/scripts/check-docs' '$root' '$build'"
checks_end 15
