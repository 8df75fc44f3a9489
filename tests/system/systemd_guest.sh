#!/bin/bash
# What scripts/test-systemd does inside its virtual machine: the package under a real systemd. Prints a line "ok NAME" or "not ok NAME: WHY"
# for each check, and "END" last. The folder of this script holds old.deb and new.deb (the same programs, a higher version), the
# libraries that probe the sandbox, and amd_runtime.sh.
cd /
here=$(dirname "$0")
service=halod.service
export HALO_SOCKET=/run/halod/halod.sock TERM=dumb SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat
work=$(mktemp -d /var/tmp/test-XXXXXX)
chmod 755 "$work"

ok() { echo "ok $*"; }
not_ok() { echo "not ok $*"; bad=1; }
check() { # NAME COMMAND…
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then ok "$name"; else not_ok "$name: $(tail -c 400 <<<"$out" | tr '\n' '|')"; fi
}
is() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1: '$2', not '$3'"; fi; } # NAME HAVE WANTED
has() { if grep -qE -- "$3" <<<"$2"; then ok "$1"; else not_ok "$1: no '$3' in: $(tail -c 400 <<<"$2" | tr '\n' '|')"; fi; } # NAME TEXT EXPRESSION
lacks() { if grep -qE -- "$3" <<<"$2"; then not_ok "$1: $(grep -E -- "$3" <<<"$2" | head -n 3 | tr '\n' '|')"; else ok "$1"; fi; }

# The machine is emulated and its host may be busy: conditions are waited for, and these are ends of patience.
until_true() { # SECONDS COMMAND…
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.3
    done
}
as() { local user=$1; shift; setpriv --reuid "$user" --regid "$user" --init-groups -- "$@"; }
show() { systemctl show "$service" -P "$1"; }
daemon() { show MainPID; }
engine() { pgrep -u halod -x halod-engine; }
said() { journalctl -q -u "$service" -o cat "$@"; }
is_active() { [ "$(show ActiveState)" = active ]; }
another() { is_active && [ "$(daemon)" != "$1" ] && [ "$(daemon)" != 0 ]; }          # PID: of the daemon before
another_engine() { local now; now=$(engine) && [ -n "$now" ] && [ "$now" != "$1" ]; } # PID: of the engine before
now() { date +%s; }

# A reply to alice that takes a while, as events in a file.
begin_reply() { # FILE TOKENS
    echo '{"type":"generate","id":1,"model":"fable","prompt":"Once upon a time","max_tokens":'"$2"',"temperature":0,"ignore_eos":true}' |
        as alice haloctl raw >"$1" 2>"$1.err" &
    reply=$!
    until_true 240 grep -q '"type":"token"' "$1" || { not_ok "a reply begins: $(tail -c 300 "$1" "$1.err" | tr '\n' '|')"; return 1; }
}
terminal() { grep -cE '"type":"(done|error)"' "$1"; }

install_package() {
    check 'the package installs' dpkg -i "$here/old.deb"
    for user in alice bob carol; do useradd -m "$user"; done
    usermod -aG halod alice
    usermod -aG halod carol
    has 'the service may use the GPU' "$(id halod)" 'render.*video|video.*render'
    is 'the models folder is for the group, and sticky' "$(stat -c '%a %U %G' /var/lib/halod/models)" '3775 halod halod'
    is 'the package enables nothing' "$(systemctl is-enabled halod.socket halod.service | paste -sd ' ')" 'disabled disabled'
}

judge_units() {
    local out
    check 'systemd finds no fault in the units' bash -c 'out=$(systemd-analyze verify --man=no halod.service halod.socket 2>&1); echo "$out"; [ -z "$out" ]'
    check 'systemd-analyze security is at most 1.5' systemd-analyze security --no-pager --threshold=15 "$service"
    out=$(systemd-analyze security --no-pager "$service" | tail -n 1)
    echo "note: ${out#→ }"
}

activate() {
    check 'the socket is enabled' systemctl enable -q --now halod.socket
    is 'the service waits for its first client' "$(show ActiveState)" inactive
    is 'the socket is for the group' "$(stat -c '%a %G' "$HALO_SOCKET")" '660 halod'
    lacks 'somebody outside the group is refused' "$(as bob haloctl ping 2>&1; echo "status $?")" 'status 0'
    is 'a refused client does not start it' "$(show ActiveState)" inactive
    check 'a member of the group starts it' as alice haloctl ping
    is 'it is ready' "$(show ActiveState) $(show SubState)" 'active running'
}

use_models() {
    check 'a member puts a model there' as alice cp /usr/share/halod/fable-Q4_K_M.gguf /var/lib/halod/models/fable.gguf
    lacks 'another member does not remove it' "$(as carol rm -f /var/lib/halod/models/fable.gguf 2>&1; echo "status $?")" 'status 0'
    has 'the model loads through io_uring' "$(as alice haloctl --json load fable)" '"type":"loaded".*"io":"io_uring'
    has 'it answers' "$(as alice haloctl generate -m fable -n 8 --seed 7 'Once upon a time' 2>&1)" '[a-z]{2}'
    cp /var/lib/halod/models/fable.gguf /srv/other.gguf
    has 'a file elsewhere is not for clients' "$(as alice haloctl load /srv/other.gguf 2>&1)" 'only the daemon.s own user and root may name files'
    has 'and the engine cannot read it for root either' "$(haloctl load /srv/other.gguf 2>&1)" 'outside the folders of models'
}

confine() {
    local pid vows out
    pid=$(engine)
    vows=$(cat /proc/"$pid"/task/*/status | grep -E '^(NoNewPrivs|Seccomp):' | sort -u | tr '\t' ' ' | paste -sd ' ')
    is 'every thread of the engine is filtered' "$vows" 'NoNewPrivs: 1 Seccomp: 2'
    lacks 'the sandbox is complete' "$(said)" 'sandbox: '
    # The engine tries by itself, within the service.
    mkdir -p /etc/halod /var/lib/halod/probe/{models,elsewhere,state} /run/systemd/system/"$service".d
    for name in elsewhere/{file,victim,old,linked.gguf} models/model.gguf state/other; do echo text >/var/lib/halod/probe/$name; done
    ln -sf ../elsewhere/linked.gguf /var/lib/halod/probe/models/link.gguf
    chown -R halod: /var/lib/halod/probe
    printf '%s\n' '[models]' 'dir = /var/lib/halod/probe/models' '[daemon]' 'state_dir = /var/lib/halod/probe/state' \
        '[engine]' 'device = hip' "hip_lib = $here/libsandbox_probe.so" >/etc/halod/halod.conf
    printf '%s\n' '[Service]' 'Environment=HALO_PROBE=/var/lib/halod/probe' >/run/systemd/system/"$service".d/probe.conf
    systemctl daemon-reload
    systemctl restart "$service"
    until_true 120 bash -c "journalctl -q -u $service -o cat | grep -q 'probe later needed ioctl'"
    out=$(said | grep -oE 'probe (device|later) .*')
    has 'the probe ran on both threads' "$(grep -c . <<<"$out")" '^1[0-9]{2}$'
    lacks 'nothing that the sandbox forbids is reached' "$out" '^probe [a-z]+ (calls|writes|reads|process) [a-z0-9_]+ reached'
    lacks 'all that a runtime needs is reached' "$out" '^probe [a-z]+ needed [a-z0-9_]+ refused'
    rm -r /etc/halod/halod.conf /run/systemd/system/"$service".d
    systemctl daemon-reload
    systemctl restart "$service"
}

use_devices() {
    local out before
    # AMD's runtime as the service's user; it needs the machine to have no kfd yet.
    check "AMD's runtime says that there is no GPU" env HOME=/ TMPDIR=/var/tmp setpriv --reuid halod --regid halod --init-groups -- \
        bash "$here/amd_runtime.sh" /usr/libexec/halod/halod-engine /usr/bin/halo-doctor "$here/libcomgr_probe.so" /usr/share/halod --models-only
    modprobe vgem
    modprobe amdgpu
    until_true 60 test -c /dev/dri/renderD128
    udevadm settle
    mknod -m 666 /dev/not-a-gpu b 254 0
    sed -e "s|^ExecStart=.*|ExecStart=/bin/bash $here/devices.sh|; s/^Type=.*/Type=oneshot/; /^Restart=/d; /^WatchdogSec=/d; /^NotifyAccess=/d" \
        /usr/lib/systemd/system/"$service" >/run/systemd/system/halod-devices.service
    systemctl daemon-reload
    systemctl start halod-devices.service
    out=$(journalctl -q -u halod-devices.service -o cat)
    for device in /dev/dri/renderD128 /dev/kfd; do
        if [ -c $device ]; then has "the service opens $device" "$out" "^$device: open"; else echo "note: this kernel made no $device"; fi
    done
    has 'the service opens no other device' "$out" '^/dev/not-a-gpu: refused'
    has 'AMD'\''s runtime opens the driver in the sandbox' \
        "$(echo '{"type":"load","id":1,"model":"fable"}' | setpriv --reuid halod --regid halod --init-groups -- \
            /usr/libexec/halod/halod-engine --stdio --device hip --models-only --model-dir /var/lib/halod/models 2>&1)" 'finds no GPU'
}

survive() {
    local before first
    before=$(daemon) first=$(engine)
    check 'it restarts' systemctl restart "$service"
    check 'as another process' another "$before"
    check 'and its old engine is gone' bash -c "! kill -0 ${first:-0}"
    check 'it serves at once' as alice haloctl ping

    before=$(daemon) first=$(engine)
    kill -KILL "$before"
    check 'a killed daemon is replaced' until_true 120 another "$before"
    check 'and its engine does not outlive it' until_true 60 bash -c "! kill -0 $first"
    check 'and it serves' as alice haloctl ping

    before=$(daemon)
    kill -STOP "$before"
    check 'the watchdog replaces a stopped daemon' until_true 240 another "$before"
    has 'and the journal says so' "$(said)" 'Watchdog timeout'
    check 'and it serves again' as alice haloctl ping
}

lose_engine_to_oom() {
    local before first
    begin_reply "$work/oom" 200 || return
    before=$(daemon) first=$(engine)
    echo f >/proc/sysrq-trigger
    check 'the engine is killed for its memory' until_true 60 bash -c "journalctl -q -k -o cat | grep -qE 'Out of memory: Killed process $first '"
    check 'it is replaced' until_true 120 another_engine "$first"
    is 'the service went on' "$(show ActiveState) $(daemon) $(show Result)" "active $before success"
    check 'the open reply comes to its end' until_true 600 bash -c "! kill -0 $reply"
    is 'with one terminal event' "$(terminal "$work/oom")" 1
    has 'that is the normal one' "$(tail -n 1 "$work/oom")" '"type":"done"'
}

read_journal() {
    local out
    out=$(journalctl -q -u "$service" -o json MESSAGE_ID=6f0b3c1e5a9d4b7c8e2f1d0a4c7b9e35)
    has 'the death of an engine is an entry of its own' "$out" '"PRIORITY":"4"'
    has 'and a warning' "$(said -p warning)" 'engine'
    has 'what is normal is information' "$(journalctl -q -u "$service" -o json -p info..info)" 'engine answers'
    lacks 'nothing normal is a warning' "$(said -p warning)" 'engine answers|listening'
    lacks 'no line shows its prefix' "$(said)" '^<[0-7]>'
}

upgrade() {
    local before prompt failed=0
    prompt='{"type":"generate","id":1,"model":"fable","prompt":"Once upon a time there was a little girl who lived in a house near the forest with her mother and her father and a small dog that liked to run and to play in the garden all day long until the sun went down","max_tokens":2}'
    echo "$prompt" | as alice haloctl raw >"$work/first"
    begin_reply "$work/upgrade" 900 || return
    before=$(daemon)
    while [ ! -e "$work/upgraded" ]; do
        as alice haloctl ping >>"$work/pings" 2>&1 || echo FAILED >>"$work/pings"
        sleep 0.2
    done &
    pings=$!
    check 'an upgrade installs with models loaded' dpkg -i "$here/new.deb"
    touch "$work/upgraded"
    wait "$pings"
    check 'it runs the new one' another "$before"
    lacks 'clients that come meanwhile are served' "$(cat "$work/pings")" FAILED
    check 'the open reply ended' until_true 120 bash -c "! kill -0 $reply"
    is 'with one terminal event, too' "$(terminal "$work/upgrade")" 1
    echo "$prompt" | as alice haloctl raw >"$work/second"
    has 'what was computed before is not computed again' "$(cat "$work/second")" '"type":"started".*"cached_tokens":[1-9]'
}

stop() {
    local from
    begin_reply "$work/stop" 900 || return
    from=$(now)
    check 'it stops in the middle of a reply' systemctl stop halod.socket "$service"
    if [ $(($(now) - from)) -le 40 ]; then ok 'in time'; else not_ok "in time: $(($(now) - from)) s"; fi
    is 'without a failure' "$(show ActiveState) $(show Result)" 'inactive success'
    check 'the reply ended with it' until_true 60 bash -c "! kill -0 $reply"
    is 'with one terminal event also' "$(terminal "$work/stop")" 1
    is 'nothing is left' "$(pgrep -u halod | wc -l) $(systemctl show "$service" -P NRestarts | grep -c .) $(ls "$HALO_SOCKET" 2>/dev/null | wc -l)" '0 1 0'
}

remove_package() {
    systemctl start halod.socket
    as alice haloctl ping >/dev/null 2>&1
    check 'the package is removed' dpkg -r halod
    is 'and nothing of it runs' "$(pgrep -u halod | wc -l) $(ls "$HALO_SOCKET" 2>/dev/null | wc -l)" '0 0'
    check 'models stay' test -f /var/lib/halod/models/fable.gguf
}

for step in install_package judge_units activate use_models confine use_devices survive lose_engine_to_oom read_journal upgrade stop remove_package; do
    from=$(now) bad=0
    $step
    echo "note: $step took $(($(now) - from)) s"
    if [ "$bad" = 1 ]; then said | tail -n 30 | sed 's/^/journal: /'; fi
done
echo END
