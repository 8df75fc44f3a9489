#!/usr/bin/env bash
# scripts/check-rooms: what it must refuse and what it must let pass, on a small tree with rooms of these names. Arguments: the
# source root, the compiler.
set -uo pipefail
root=$1 cc=$2
. "$root/tests/gates/check.sh"
trap 'rm -rf "$run"' EXIT
tree=$run/tree
mkdir -p "$tree"/{scripts,build,tests,daemon/{base,store,jinja}/include/{base,store,jinja}}
cd "$tree" || exit 1

# The script without its lists: the tree here has no circle that is meant, and nothing is pending.
plain() { sed -e 's/^pending=.*/pending=""/' -e '/circles" <<.ROWS/,/^ROWS/{/^[a-z].*|/d}' "$root/scripts/check-rooms" >scripts/check-rooms; }
# Each source file of the tree becomes an object.
build() {
    {
        printf 'rule cc\n  command = %s -Idaemon/base/include -Idaemon/store/include -Idaemon/jinja/include -I.. -I../daemon/base/include' "$cc"
        printf ' -I../daemon/store/include -I../daemon/jinja/include -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n'
        find daemon tests -name '*.c' | while read -r file; do printf 'build %s.o: cc ../%s\n' "${file//\//_}" "$file"; done
    } >build/build.ninja
    ninja -C build >/dev/null
}
rooms="chmod +x scripts/check-rooms && scripts/check-rooms build"

good() {
    rm -rf daemon/*/*.c daemon/*/include/*/*.h tests/*.c
    echo 'int halo_floor(void);' >daemon/base/include/base/floor.h
    echo 'int halo_wall(void);' >daemon/store/include/store/wall.h
    printf '#include <base/floor.h>\nint halo_ground(void);\nint halo_floor(void) { return halo_ground(); }\n' >daemon/base/floor.c
    printf 'int halo_ground(void);\nint halo_ground(void) { return 1; }\n' >daemon/base/ground.c
    printf '#include <base/floor.h>\n#include <store/wall.h>\nint halo_wall(void) { return halo_floor(); }\n' >daemon/store/wall.c
    printf '#include <store/wall.h>\nint halo_roof(void);\nint halo_roof(void) { return halo_wall(); }\n' >daemon/tokenizer/roof.c
}
mkdir -p daemon/tokenizer
plain && good && build
check 'lets a good tree pass' 0 'check-rooms: 4 objects' "$rooms"

printf '#include <base/floor.h>\n#include <store/wall.h>\nint halo_step(void);\nint halo_step(void) { return halo_wall(); }\n' >daemon/jinja/step.c
build
check 'refuses a header outside the row' 1 'daemon/jinja/step.c includes daemon/store/include/store/wall.h: room daemon/jinja may not use store' "$rooms"

good
echo 'int halo_own(void);' >daemon/store/wall_priv.h
printf '#include "daemon/store/wall_priv.h"\nint halo_step(void);\nint halo_step(void) { return 1; }\n' >daemon/tokenizer/step.c
build
check 'refuses a private header of another room' 1 'private header of another room' "$rooms"

good
printf '#include <uv.h>\nint halo_step(void);\nint halo_step(void) { return 1; }\n' >daemon/tokenizer/step.c
build
check 'refuses a library outside the row' 1 'room daemon/tokenizer may not use library uv' "$rooms"

good
echo 'int halo_alone(void);' >daemon/base/include/base/alone.h
printf '#include <base/alone.h>\nint halo_alone(void) { return 1; }\n' >daemon/base/alone.c
printf '#include <base/alone.h>\nint main(void) { return halo_alone(); }\n' >tests/alone.c
build
check 'refuses a public header that tests alone read' 1 'daemon/base/include/base/alone.h: no other room reads it, it is private' "$rooms"

good
printf 'int halo_b(void);\nint halo_a(void);\nint halo_a(void) { return halo_b(); }\n' >daemon/base/a.c
printf 'int halo_c(void);\nint halo_b(void);\nint halo_b(void) { return halo_c(); }\n' >daemon/base/b.c
printf 'int halo_a(void);\nint halo_c(void);\nint halo_c(void) { return halo_a(); }\n' >daemon/base/c.c
build
check 'refuses a circle of three files' 1 'daemon/base: a circle of files: a.c b.c c.c' "$rooms"
check 'names the calls of a circle' 1 'c.c needs halo_a of a.c' "$rooms"
sed -i '/circles" <<.ROWS/a daemon/base|a.c b.c c.c|meant' scripts/check-rooms
check 'lets a listed circle pass' 0 '' "$rooms"
printf 'int halo_c(void);\nint halo_c(void) { return 1; }\n' >daemon/base/c.c
build
check 'refuses a listed circle that is gone' 1 'a listed circle is gone: a.c b.c c.c' "$rooms"

rm -rf daemon/*/*.c tests/*.c build/*.o build/.ninja*
printf 'int main(void) { return 0; }\n' >tests/alone.c
plain && build
check 'refuses a build with nothing in it' 1 'found nothing to check' "$rooms"
checks_end 10
