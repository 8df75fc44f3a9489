#!/usr/bin/env bash
# scripts/make-deb on a build with --prefix /usr: the package has every file that the build installs and all those that its readers look
# for, programs that can run, nothing outside /usr, and depends on the libraries' packages that docs/DEPENDENCIES.md names.
# Arguments: the root of the sources, the build folder.
set -euo pipefail
root=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DPKG_DEB_COMPRESSOR_TYPE=none # nobody keeps it
deb=$("$root/scripts/make-deb" "$build" -o "$work" -v 1.2.3~test -k)
[ "$deb" = "$work/halod_1.2.3~test_$(dpkg --print-architecture).deb" ] || { echo "FAILED: made $deb"; exit 1; }

status=0
fail() { echo "FAILED: $*"; status=1; }
"$root/scripts/make-deb" "$work" 2>"$work/said" && fail "a folder without a build was packed"
grep -qF "make-deb: $work is not a build folder" "$work/said" || fail "the refusal does not name the folder: $(cat "$work/said")"
for script in setup test; do # an option that they do not know starts nothing
    code=0
    timeout 10 "$root/scripts/$script" --nonsense >"$work/said" 2>&1 || code=$?
    { [ "$code" -eq 2 ] && grep -q "scripts/$script " "$work/said"; } || fail "$script --nonsense ends with $code and says: $(head -n 3 "$work/said")"
done
dpkg-deb --contents "$deb" | awk '{ print $1, $2, $6 }' >"$work/contents"
n=0
has() { # PATH MODE
    n=$((n + 1))
    grep -qxF -- "$2 root/root ./$1" "$work/contents" || fail "no $1 with mode $2: $(grep -F " ./$1" "$work/contents" || echo absent)"
}

for program in halod haloctl halo-doctor coherence-probe hip-worker hip-remote-cc; do has "usr/bin/$program" -rwxr-xr-x; done
has usr/libexec/halod/halod-engine -rwxr-xr-x
has usr/share/halod/first-run -rwxr-xr-x
lib=usr/lib/$(gcc -print-multiarch)
for library in libamdhip64.so.6 libamdhip64.so.7 libhip-remote-tls.so; do has "$lib/hip-remote/$library" -rwxr-xr-x; done
for file in include/hip-remote/hip/hip_runtime.h lib/systemd/system/halod.{service,socket} lib/systemd/user/hip-worker.service \
    lib/{sysusers,tmpfiles}.d/halod.conf share/halod/{fable-Q4_K_M.gguf,halod.conf.sample} \
    share/man/man1/{coherence-probe,halo-doctor,haloctl}.1 share/man/man5/halod.conf.5 share/man/man7/hip-remote.7 \
    share/man/man8/{halod,hip-worker}.8; do has "usr/$file" -rw-r--r--; done

has usr/share/doc/halod/copyright -rw-r--r--
for page in README.md CHANGELOG.md docs/tiers.svg $(cd "$root" && echo docs/*.md); do has "usr/share/doc/halod/$page" -rw-r--r--; done

# The build's own list has no file that the package lacks, and the package none besides. GPU code is there if the build has it.
meson introspect "$build" --installed | grep -oE '": "[^"]*"' | cut -d'"' -f3 | sort >"$work/installed"
grep '^-' "$work/contents" | sed 's/.* \.//' | sort >"$work/packed"
[ -s "$work/installed" ] || fail "the build installs nothing"
n=$((n + $(grep -c "/$lib/halod/kernels\." "$work/packed" || true)))
difference=$(diff "$work/installed" "$work/packed") || fail "what the build installs (<) and what the package has (>) differ:
$difference"
[ "$n" = "$(wc -l <"$work/packed")" ] || fail "the test looks for $n files of $(wc -l <"$work/packed"): name the new ones here"

depends=$(dpkg-deb --field "$deb" Depends | tr -d ' ' | tr ',' '\n')
# shellcheck disable=SC2016
named=$(sed -n '/^At run time a machine needs/,/\. *$/p' "$root/docs/DEPENDENCIES.md" | grep -oE '\bz?lib[a-z0-9-]*[0-9][a-z0-9-]*' | sort -u)
[ "$(wc -w <<<"$named")" -ge 10 ] || fail "docs/DEPENDENCIES.md names $(wc -w <<<"$named") packages"
for package in libc6 $named; do grep -qxF "$package" <<<"$depends" || fail "does not depend on $package: $(paste -sd' ' <<<"$depends")"; done

for tool in sysusers tmpfiles; do # postinst runs them
    grep -qxF "systemd|systemd-standalone-$tool" <<<"$depends" || fail "does not depend on systemd-$tool: $(paste -sd' ' <<<"$depends")"
done

dpkg-deb --control "$deb" "$work/control"
for script in postinst prerm postrm; do
    [ -x "$work/control/$script" ] && sh -n "$work/control/$script" || fail "$script cannot run"
done
echo "make-deb: $n files, $(wc -w <<<"$depends") packages"
exit "$status"
