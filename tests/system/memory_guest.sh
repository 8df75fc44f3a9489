#!/bin/bash
# What scripts/test-memory-limit does inside its virtual machine: see there and memory_runs.sh.
cd /
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
exec bash "$(dirname "$0")/memory_runs.sh" "$(cd "$(dirname "$0")" && pwd)" /sys/fs/cgroup/halod-test
