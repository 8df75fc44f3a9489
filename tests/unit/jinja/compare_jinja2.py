#!/usr/bin/env python3
"""Renders conversations that nobody recorded with every published template, here and with Jinja2, and compares.

usage: compare_jinja2.py JINJA_RENDER [SEED [CONVERSATIONS]]

The templates are those of the reference folder (HALO_SHARED, or ../shared beside the tree). Exits 77 without them or
without python3-jinja2, 1 when a text or the kind of a failure differs.
"""
import datetime
import json
import os
import random
import subprocess
import sys

SKIP = 77
try:
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    print("skipped: python3-jinja2 is not installed")
    sys.exit(SKIP)

shared = os.environ.get("HALO_SHARED") or os.path.join(os.environ.get("HALO_SOURCE_ROOT", "."), "../shared")
folder = os.path.join(shared, "templates")
if not os.path.isdir(folder):
    print(f"skipped: {folder} is not there")
    sys.exit(SKIP)


class Raised(Exception):
    pass


class Generation(Extension):
    """{% generation %} renders its body, as transformers does it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = to_json
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = datetime.datetime(2026, 1, 15, 12).strftime


def reference(template, variables):
    """What Jinja2 makes of it, in the form of jinja_render's answers."""
    try:
        return {"text": template.render(**variables)}
    except Raised as error:
        return {"kind": "raise_exception", "error": str(error)}
    except jinja2.exceptions.SecurityError as error:
        return {"kind": "security", "error": str(error)}
    except jinja2.exceptions.UndefinedError as error:
        return {"kind": "undefined", "error": str(error)}
    except jinja2.exceptions.TemplateRuntimeError as error:
        return {"kind": "runtime", "error": str(error)}
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, KeyError, IndexError) as error:
        return {"kind": "type_error", "error": str(error)}


# ---- conversations ----

TEXTS = ["", " ", "\n", "Hello", "  padded \n", "two\n\nlines", "ünï 漢字 🙂", 'quotes " and \' and \\', "<b>&amp;</b>",
         "{{ x }} {% if %}", "<think>idea</think>answer", "</think>\n\nanswer", "a </think> b <think> c", "[TOOL_CALLS]",
         "<|im_end|>", "/no_think", "1", "null", '{"a": [1, 2.5, null]}', "```json\n{}\n```", "x" * 300]
VALUES = ["", "Oslo", "a \"b\" <c>", 0, -7, 12345678901234567890, 1.0, 2.5, 1e-7, 1e21, True, False, None, [], {}, [1, "a", None],
          {"deep": {"er": [True, {"x": "y"}]}}, "ligne\nnouvelle", "é漢"]
SCHEMAS = [
    {"type": "object", "properties": {}},
    {},
    {"type": "object", "properties": {"city": {"type": "string", "description": "Where <it> is \"really\"", "minLength": 1},
                                      "unit": {"type": "string", "enum": ["c", "f", None], "default": "c"}},
     "required": ["city"], "additionalProperties": False},
    {"type": "object", "required": ["rows", "mode"], "properties": {
        "rows": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {
            "id": {"type": "integer", "minimum": 0}, "tags": {"type": "array", "items": {"type": "string"}},
            "sub": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}}}},
        "mode": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"$ref": "#/$defs/mode"}], "default": 3},
        "flag": {"type": "boolean", "default": False, "nullable": True}, "any": {"description": "anything"},
        "when": {"type": "string", "format": "date-time", "title": "When"}},
     "$defs": {"mode": {"const": 1.5}}},
    {"type": "object", "properties": {"map": {"type": "object", "additionalProperties": {"type": "array", "items": {
        "type": "array", "items": {"type": "number"}}}}, "items": {"type": "array"}, "keys": {"type": "string"}}},
    {"type": "object", "properties": {"x": {"oneOf": [{"type": "null"}, {"allOf": [{"type": "string"}, {"enum": ["1", 1]}]}]}}},
]
KWARGS = [{}, {}, {"enable_thinking": True}, {"enable_thinking": False}, {"thinking": True}, {"thinking": False},
          {"reasoning_effort": "low"}, {"reasoning_effort": "medium"}, {"reasoning_effort": "high"}, {"reasoning_effort": "none"},
          {"preserve_thinking": True}, {"clear_thinking": False}, {"clear_thinking": True}, {"add_vision_id": True},
          {"thinking_budget": 512}, {"tools_in_user_message": False}, {"date_string": "1 Jan 2026"},
          {"model_identity": "You are a test."}, {"builtin_tools": ["browser", "python"]},
          {"documents": [{"title": "T", "text": "body"}]}, {"custom_tools": None}, {"keep_past_thinking": True}]


def pick(rng, *weighted):
    return rng.choices([w[0] for w in weighted], [w[1] for w in weighted])[0]


def tools(rng):
    kind = pick(rng, ("none", 4), ("absent", 1), ("empty", 1), ("some", 8))
    if kind == "none":
        return {"tools": None}
    if kind == "absent":
        return {}
    made = []
    for i in range(0 if kind == "empty" else rng.randint(1, 3)):
        function = {"name": ["get_weather", "add", "a-b.c", "search::all"][(i + rng.randrange(2)) % 4]}
        if rng.random() < 0.85:
            function["description"] = rng.choice(["Does it.", "", "Line one.\nLine \"two\" <x> 漢"])
        if rng.random() < 0.9:
            function["parameters"] = rng.choice(SCHEMAS)
        if rng.random() < 0.15:
            function["strict"] = True
        if rng.random() < 0.15:
            function["return"] = {"type": "string", "description": "what it gives"}
        made.append({"type": "function", "function": function} if rng.random() < 0.92 else function)
    return {"tools": made}


def content(rng, message, may_lack):
    kind = pick(rng, ("text", 12), ("parts", 2), ("none", 2 if may_lack else 0), ("absent", 1 if may_lack else 0))
    if kind == "text":
        message["content"] = rng.choice(TEXTS)
    elif kind == "parts":
        message["content"] = [{"type": "text", "text": rng.choice(TEXTS)} for _ in range(rng.randint(0, 3))]
        if rng.random() < 0.2:
            message["content"].insert(0, {"type": "image"})
    elif kind == "none":
        message["content"] = None


def calls(rng):
    made = []
    for i in range(rng.choice([1, 1, 2, 3])):
        arguments = {key: rng.choice(VALUES) for key in rng.sample(["city", "unit", "rows", "x y", "é", "items"], rng.randint(0, 4))}
        call = {"function": {"name": rng.choice(["get_weather", "add", "a-b.c"]),
                             "arguments": arguments if rng.random() < 0.75 else json.dumps(arguments)}}
        if rng.random() < 0.8:
            call["type"] = "function"
        if rng.random() < 0.8:
            call["id"] = rng.choice(["call_1", "abcdefghi", "123456789", "functions.add:0"])
        made.append(call)
    return made


def assistant(rng, with_calls):
    message = {"role": "assistant"}
    content(rng, message, True)
    if rng.random() < 0.35:
        message["reasoning_content"] = rng.choice(TEXTS + [None])
    if rng.random() < 0.1:
        message[rng.choice(["reasoning", "thinking"])] = rng.choice(TEXTS)
    if with_calls:
        message["tool_calls"] = calls(rng)
    elif rng.random() < 0.1:
        message["tool_calls"] = rng.choice([[], None])
    return message


def tool_results(rng, n):
    made = []
    for _ in range(n):
        message = {"role": "tool"}
        content(rng, message, False)
        if rng.random() < 0.7:
            message["tool_call_id"] = rng.choice(["call_1", "abcdefghi", "123456789", "functions.add:0"])
        if rng.random() < 0.5:
            message["name"] = rng.choice(["get_weather", "add"])
        made.append(message)
    return made


def messages(rng):
    made = []
    if rng.random() < 0.5:
        made.append({"role": pick(rng, ("system", 8), ("developer", 1))})
        content(rng, made[-1], False)
    for _ in range(pick(rng, (0, 1), (1, 6), (2, 6), (3, 3), (8, 1))):
        made.append({"role": "user"})
        content(rng, made[-1], False)
        while rng.random() < 0.4:
            call = assistant(rng, True)
            made.append(call)
            made += tool_results(rng, pick(rng, (len(call["tool_calls"]), 8), (0, 1), (1, 1)))
        if rng.random() < 0.8:
            made.append(assistant(rng, False))
        if rng.random() < 0.1:
            made.append({"role": "system", "content": rng.choice(TEXTS)})
    if made and rng.random() < 0.5 and made[-1]["role"] == "assistant":
        made.append({"role": "user", "content": rng.choice(TEXTS)})
    return made


def conversation(rng):
    made = {"messages": messages(rng), "add_generation_prompt": rng.random() < 0.7, "documents": None,
            "bos_token": "<s>", "eos_token": "</s>"}
    made.update(tools(rng))
    made.update(rng.choice(KWARGS))
    return made


# ---- comparing ----

def compare(path, conversations, answers):
    with open(path, encoding="utf-8", newline="") as file:
        template = env.from_string(file.read())
    n_texts, different = 0, []
    for variables, answer in zip(conversations, answers):
        wanted = reference(template, json.loads(json.dumps(variables)))
        n_texts += "text" in wanted
        same = answer == wanted if wanted.get("kind") in (None, "raise_exception") else answer.get("kind") == wanted["kind"]
        if not same:
            different.append((variables, wanted, answer))
    return n_texts, different


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 40
    rng = random.Random(seed)
    conversations = [conversation(rng) for _ in range(n)]
    paths = sorted(os.path.join(folder, "templates", name) for name in os.listdir(os.path.join(folder, "templates")))
    texts_of = [{name: json.dumps(value) for name, value in variables.items()} for variables in conversations]
    requests = "".join(json.dumps({"template": path, "vars": texts}) + "\n" for path in paths for texts in texts_of)
    run = subprocess.run([sys.argv[1]], input=requests.encode(), stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in run.stdout.decode().split("\n")[:-1]]
    if not paths or len(answers) != len(paths) * n:
        print(f"{len(answers)} answers for {len(paths)} templates and {n} conversations")
        return 1
    n_texts = n_different = 0
    for i, path in enumerate(paths):
        texts, different = compare(path, conversations, answers[i * n:(i + 1) * n])
        n_texts += texts
        n_different += len(different)
        for variables, wanted, answer in different[:2]:
            print(f"---- {os.path.basename(path)}\n{json.dumps(variables, ensure_ascii=False)}\nwanted {wanted}\ngot    {answer}")
    print(f"{len(paths)} templates, {n} conversations, {n_texts} texts, {n_different} different")
    return 1 if n_different or n_texts < len(answers) // 3 else 0


sys.exit(main())
