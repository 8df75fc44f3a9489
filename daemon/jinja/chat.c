/* chat.c: messages to prompt text, by the chat template of the model.
 *
 * Created once with its model, immutable afterwards, any thread may render. The template is a program in
 * the Jinja language (jinja.h). Messages, tools and variables are the user's text: what comes of them is content, so
 * that they cannot spell a control token; the model's own bos_token and eos_token are template. Fails with UNSUPPORTED
 * (no template, or one that does not parse), BAD_REQUEST (the template refuses the conversation) and OUT_OF_MEMORY.
 */
#include <jinja/chat.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <jinja/jinja.h>

#include "chat_shape_priv.h"

#define MAX_VARS 64

struct template
{
    struct halo_jinja *jinja; /* NULL: there is none, or it does not parse */
    struct halo_fault fault;  /* why not */
    bool present;             /* the file has it */
    struct halo_chat_shape shape;
};

struct halo_chat {
    struct template plain, tools; /* tools: for conversations that have some; most files have only one for all */
    char *bos, *eos;              /* their texts; NULL: the file names none */
    struct halo_remarks remarks;
};

/* ---- variables ---- */

struct vars {
    struct halo_jinja_var at[MAX_VARS];
    size_t n;
};

static void add_var(struct vars *vars, const char *name, struct halo_jinja_value value)
{
    assert(vars->n < MAX_VARS);
    vars->at[vars->n++] = (struct halo_jinja_var){name, value};
}

static int add_token(struct vars *vars, struct halo_arena *arena, const char *name, const char *text)
{
    struct halo_jinja_value value;
    if (!text)
        return 0;
    if (halo_jinja_string_template(arena, &value, text, strlen(text)) < 0)
        return -ENOMEM;
    add_var(vars, name, value);
    return 0;
}

static int add_tokens(const struct halo_chat *chat, struct halo_arena *arena, struct vars *vars)
{
    int r = add_token(vars, arena, "bos_token", chat->bos);
    return r < 0 ? r : add_token(vars, arena, "eos_token", chat->eos);
}

/* ---- templates ---- */

static int copy_text(struct halo_span text, char **ret)
{
    *ret = text.bytes ? strndup(text.bytes, text.n) : NULL;
    return text.bytes && !*ret ? -ENOMEM : 0;
}

/* -ENOMEM, or 0: a template that does not parse is kept with its reason. */
static int compile(struct halo_chat *chat, struct halo_span text, struct template *ret)
{
    struct halo_arena arena;
    struct vars vars = {.n = 0};
    ret->present = text.bytes;
    if (!ret->present)
        return 0;
    int r = halo_jinja_compile(&ret->jinja, text.bytes, text.n, &ret->fault);
    if (r < 0)
        return ret->fault.code == HALO_FAULT_OUT_OF_MEMORY ? -ENOMEM : 0;
    halo_arena_init(&arena, 0);
    r = add_tokens(chat, &arena, &vars);
    if (r == 0)
        r = halo_chat_shape_probe(ret->jinja, vars.at, vars.n, &ret->shape);
    halo_arena_finish(&arena);
    return r;
}

/* A template whose output does not depend on what is said is a mistake of the file. */
static void remark(struct halo_chat *chat)
{
    if (chat->plain.shape.swallows_user)
        halo_remarks_add(&chat->remarks, "tokenizer.chat_template: it omits every user message; send `prompt`");
    if (chat->tools.shape.swallows_user)
        halo_remarks_add(&chat->remarks, "tokenizer.chat_template.tool_use: it omits every user message");
}

int halo_chat_create(struct halo_chat **ret, const struct halo_chat_source *source, struct halo_fault *fault)
{
    struct halo_chat *chat = calloc(1, sizeof(*chat));
    *ret = NULL;
    if (chat && copy_text(source->bos, &chat->bos) == 0 && copy_text(source->eos, &chat->eos) == 0 &&
        compile(chat, source->template, &chat->plain) == 0 && compile(chat, source->tool_template, &chat->tools) == 0) {
        remark(chat);
        *ret = chat;
        return 0;
    }
    halo_chat_destroy(chat);
    return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the chat template");
}

void halo_chat_destroy(struct halo_chat *chat)
{
    if (!chat)
        return;
    halo_jinja_destroy(chat->plain.jinja);
    halo_jinja_destroy(chat->tools.jinja);
    free(chat->bos);
    free(chat->eos);
    free(chat);
}

const char *halo_chat_problem(const struct halo_chat *chat)
{
    if (chat->plain.present && !chat->plain.jinja)
        return chat->plain.fault.text;
    return chat->tools.present && !chat->tools.jinja ? chat->tools.fault.text : NULL;
}

const struct halo_remarks *halo_chat_remarks(const struct halo_chat *chat)
{
    return &chat->remarks;
}

/* ---- the conversation ---- */

static int make_messages(const struct halo_chat_message *messages, size_t n, struct halo_arena *arena,
                         struct halo_jinja_value *ret)
{
    struct halo_jinja_value message, text;
    int r = halo_jinja_list(arena, ret);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *role = messages[i].role;
        if ((r = halo_jinja_dict(arena, &message)) < 0 ||
            (r = halo_jinja_string(arena, &text, role, strlen(role))) < 0 ||
            (r = halo_jinja_dict_put(arena, message, "role", 4, text)) < 0 ||
            (r = halo_jinja_string(arena, &text, messages[i].content, messages[i].n_content)) < 0 ||
            (r = halo_jinja_dict_put(arena, message, "content", 7, text)) < 0)
            return r;
        r = halo_jinja_list_push(arena, *ret, message);
    }
    return r;
}

/* A list in JSON; without one, None. */
static int read_list(struct halo_span json, const char *what, struct halo_arena *arena, struct halo_jinja_value *ret,
                     struct halo_fault *fault)
{
    *ret = halo_jinja_none();
    if (json.n == 0)
        return 0;
    int r = halo_jinja_json(arena, ret, json.bytes, json.n, fault);
    if (r < 0)
        halo_fault_prefix(fault, "`%s`", what);
    else if (ret->kind != HALO_JINJA_LIST)
        r = halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "`%s` is not a list", what);
    return r;
}

/* The variables of the request. Those that the conversation itself makes cannot be given. */
static int add_given(struct vars *vars, struct halo_span json, struct halo_arena *arena, struct halo_fault *fault)
{
    static const char *const taken[] = {"messages",  "tools",    "documents", "add_generation_prompt",
                                        "bos_token", "eos_token"};
    struct halo_jinja_value given, value;
    const char *name;
    if (json.n == 0)
        return 0;
    int r = halo_jinja_json(arena, &given, json.bytes, json.n, fault);
    if (r < 0) {
        halo_fault_prefix(fault, "`template_vars`");
        return r;
    }
    if (given.kind != HALO_JINJA_DICT)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "`template_vars` is not an object");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (halo_jinja_dict_get(given, taken[i], &value))
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "`template_vars` cannot set `%s`", taken[i]);
    for (size_t i = 0; (name = halo_jinja_dict_at(arena, given, i, &value)); i++) {
        if (vars->n == MAX_VARS)
            return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "`template_vars` holds more than %zu variables", i);
        add_var(vars, name, value);
    }
    return 0;
}

static int set_vars(const struct halo_chat *chat, const struct halo_chat_input *input, struct halo_arena *arena,
                    struct vars *vars, bool *ret_has_tools, struct halo_fault *fault)
{
    struct halo_jinja_value messages, tools;
    int r = 0;
    if (input->messages_json.n)
        r = read_list(input->messages_json, "messages", arena, &messages, fault);
    else if (make_messages(input->messages, input->n_messages, arena, &messages) < 0)
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render %zu messages", input->n_messages);
    if (r == 0)
        r = read_list(input->tools_json, "tools", arena, &tools, fault);
    if (r < 0)
        return r;
    *ret_has_tools = tools.kind == HALO_JINJA_LIST && halo_jinja_list_n(tools) > 0;
    add_var(vars, "messages", messages);
    add_var(vars, "tools", tools);
    add_var(vars, "documents", halo_jinja_none());
    add_var(vars, "add_generation_prompt", halo_jinja_bool(input->add_generation_prompt));
    if (add_tokens(chat, arena, vars) < 0)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render a conversation");
    return add_given(vars, input->vars_json, arena, fault);
}

int halo_chat_render(const struct halo_chat *chat, const struct halo_chat_input *input, struct halo_arena *arena,
                     struct halo_chat_text *ret, struct halo_fault *fault)
{
    struct vars vars = {.n = 0};
    bool has_tools = false;
    *ret = (struct halo_chat_text){0};
    int r = set_vars(chat, input, arena, &vars, &has_tools, fault);
    const struct template *template = has_tools && chat->tools.present ? &chat->tools : &chat->plain;
    if (r == 0 && !template->present)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "the model has no chat template%s, so `messages` cannot be rendered; send `prompt`",
                              chat->tools.present ? " for conversations without tools" : "");
    if (r == 0 && !template->jinja)
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                              "the model's chat template cannot be used (%.140s); send `prompt`", template->fault.text);
    const struct halo_jinja_params params = {
        .vars = vars.at, .n_vars = vars.n, .now = input->now, .scratch = input->scratch, .turn = input->turn};
    const struct halo_jinja_value *messages = &vars.at[0].value;
    if (r == 0 && halo_chat_shape_apply(&template->shape, *messages, arena, input->changes) < 0)
        r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to render a conversation");
    if (r == 0)
        r = halo_jinja_render(template->jinja, &params, arena, ret, fault);
    if (r == 0 && input->changes && halo_chat_shape_lost(*messages, ret))
        halo_remarks_add(input->changes, "messages: the chat template omits the last user message");
    return r > 0 ? -EINVAL : r; /* the fault is BAD_REQUEST */
}
