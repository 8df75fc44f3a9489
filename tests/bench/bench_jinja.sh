#!/bin/sh
# bench_jinja.sh: the template engine beside the reference (python3-jinja2, when it is installed), on the same conversation.
#
# usage: bench_jinja.sh BUILD TEMPLATE.jinja [turns]
set -eu
build=$1 template=$2 turns=${3:-200}
"$build/tests/bench/bench_jinja" "$template" "$turns"
if ! python3 -c 'import jinja2' 2>/dev/null; then
    echo "reference: python3-jinja2 is not installed"
    exit 0
fi
python3 - "$template" "$turns" <<'PYTHON'
import sys, time
from jinja2.sandbox import ImmutableSandboxedEnvironment

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
env.globals["raise_exception"] = lambda message: 1 / 0
env.globals["strftime_now"] = time.strftime
text = ("the quick brown fox jumps over a lazy dog. " * 5)[:200]
turn = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
messages = [{"role": "system", "content": text}] + turn * int(sys.argv[2]) + [{"role": "user", "content": text}]
start = time.perf_counter()
template = env.from_string(open(sys.argv[1]).read())
compiled = time.perf_counter() - start
times = []
for _ in range(25):
    start = time.perf_counter()
    out = template.render(messages=messages, add_generation_prompt=True, tools=None, documents=None,
                          bos_token="<bos>", eos_token="<eos>")
    times.append(time.perf_counter() - start)
times.sort()
print("reference: compiled in %.3f ms; %d bytes in %.3f ms (best %.3f ms)"
      % (compiled * 1e3, len(out.encode()), times[12] * 1e3, times[0] * 1e3))
PYTHON
