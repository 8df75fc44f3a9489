/* main.c: coherence-probe: is what the model says still right? See coherence-probe(1).
 *
 * Three sources (standard input, a daemon, an engine of its own), one judge. Every read has a deadline; an `error`
 * event is a row in the report, not its end.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/standard_fds.h>

#include "probe_priv.h"

struct options {
    const char *socket, *engine, *device, *model, *prompt_file, *messages_file, *tools_file, *prompt;
    bool from_stdin, self_check;
    enum probe_form form;
    int wait_ms;
    long stall_ids;
    int64_t max_tokens, seed;
    double temperature;
};

static const struct option longs[] = {{"stdin", no_argument, NULL, 'i'},
                                      {"self-check", no_argument, NULL, 'c'},
                                      {"socket", required_argument, NULL, 's'},
                                      {"engine", required_argument, NULL, 'e'},
                                      {"device", required_argument, NULL, 'd'},
                                      {"model", required_argument, NULL, 'm'},
                                      {"prompt-file", required_argument, NULL, 'f'},
                                      {"messages", required_argument, NULL, 'g'},
                                      {"tools", required_argument, NULL, 'l'},
                                      {"json", no_argument, NULL, 'j'},
                                      {"markdown", no_argument, NULL, 'k'},
                                      {"wait-ms", required_argument, NULL, 'w'},
                                      {"stall-ids", required_argument, NULL, 'a'},
                                      {"max-tokens", required_argument, NULL, 'n'},
                                      {"seed", required_argument, NULL, 'r'},
                                      {"temperature", required_argument, NULL, 't'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static void usage(FILE *out)
{
    fputs(
        "usage: coherence-probe --stdin [OPTION...] < EVENTS\n"
        "       coherence-probe --socket PATH [--model NAME] [OPTION...] [PROMPT]\n"
        "       coherence-probe --engine PATH --model FILE [OPTION...] [PROMPT]\n"
        "       coherence-probe --self-check\n"
        "options: --prompt-file FILE  --messages FILE  --tools FILE  --max-tokens N (200)  --temperature X (0)\n"
        "         --seed N (0)  --device auto|cpu|hip (auto)  --wait-ms N (120000)  --stall-ids N  --json  --markdown\n"
        "exit status: 0 clean, 1 broken, 2 could not run, 3 nothing was judged\n",
        out);
}

static bool number(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (end != text && !*end && errno == 0 && *ret >= 0)
        return true;
    fprintf(stderr, "coherence-probe: '%s' is no number from 0 on\n", text);
    return false;
}

static bool set(struct options *o, int letter, const char *value)
{
    int64_t n = 0;
    char *end = NULL;
    switch (letter) {
    case 'i': o->from_stdin = true; return true;
    case 'c': o->self_check = true; return true;
    case 's': o->socket = value; return true;
    case 'e': o->engine = value; return true;
    case 'd': o->device = value; return true;
    case 'm': o->model = value; return true;
    case 'f': o->prompt_file = value; return true;
    case 'g': o->messages_file = value; return true;
    case 'l': o->tools_file = value; return true;
    case 'j': o->form = PROBE_JSON; return true;
    case 'k': o->form = PROBE_MARKDOWN; return true;
    case 'w':
        if (!number(value, &n) || n > INT32_MAX)
            return false;
        o->wait_ms = (int)n;
        return true;
    case 'a':
        if (!number(value, &n))
            return false;
        o->stall_ids = (long)n;
        return true;
    case 'n': return number(value, &o->max_tokens);
    case 'r': return number(value, &o->seed);
    case 't': o->temperature = strtod(value, &end); return end != value && !*end;
    default: return false;
    }
}

static char *read_file(const char *path, size_t *ret_n)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    ssize_t n = file ? getdelim(&text, &room, EOF, file) : -1;
    if (file && n < 0 && feof(file))
        n = 0;
    if (!file || n < 0 || !text) {
        fprintf(stderr, "coherence-probe: cannot read %s: %s\n", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (file && file != stdin)
        fclose(file);
    *ret_n = n > 0 ? (size_t)n : 0;
    return text;
}

/* ---- what is judged ---- */

static int report_all(struct probe_record *records, const struct probe_context *context, const struct options *o)
{
    size_t n_judged = 0;
    int status = PROBE_CLEAN;
    for (struct probe_record *record = records; record; record = record->next) {
        if (probe_report(record, context, o->form, &n_judged) == HALO_VERDICT_FAIL)
            status = PROBE_BROKEN;
        if (record->next && o->form != PROBE_JSON)
            putchar('\n');
    }
    if (n_judged == 0 && status == PROBE_CLEAN) {
        fprintf(stderr, "coherence-probe: nothing was judged\n");
        status = PROBE_NOTHING;
    }
    return status;
}

static bool belongs_to_reply(enum halo_ev_type type)
{
    return type == HALO_EV_STARTED || type == HALO_EV_COMMITTED || type == HALO_EV_TOKEN || type == HALO_EV_DONE ||
           type == HALO_EV_NOTICE || type == HALO_EV_ERROR;
}

/* The record of the event's request, made when it is the first. NULL: no memory. */
static struct probe_record *record_of(struct probe_record **records, const struct halo_id *id)
{
    while (*records && !halo_id_equal(&(*records)->id, id))
        records = &(*records)->next;
    if (!*records)
        *records = probe_record_create(id);
    return *records;
}

/* Reads events until the stream ends or `until` (NULL: none) has its terminal event. 0, PROBE_E_END, negative errno. */
static int collect(struct probe_source *source, int wait_ms, const struct halo_id *until, struct probe_record **records)
{
    const char *line;
    size_t len;
    int r;
    while ((r = probe_source_next(source, wait_ms, &line, &len)) == 0) {
        struct halo_refusal refusal;
        struct halo_ev ev;
        if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0) {
            fprintf(stderr, "coherence-probe: no event: %s\n", refusal.message);
            return -EPROTO;
        }
        bool last = until && halo_id_equal(&ev.id, until) && halo_ev_is_terminal(ev.type);
        struct probe_record *record = belongs_to_reply(ev.type) ? record_of(records, &ev.id) : NULL;
        if (belongs_to_reply(ev.type) && (!record || probe_record_take(record, &ev) < 0))
            r = -ENOMEM;
        halo_ev_finish(&ev);
        if (r < 0 || last)
            break;
    }
    return r;
}

static void destroy_all(struct probe_record *records)
{
    while (records) {
        struct probe_record *next = records->next;
        probe_record_destroy(records);
        records = next;
    }
}

static int from_stdin(const struct options *o, struct probe_context *context)
{
    struct probe_source source;
    struct probe_record *records = NULL;
    probe_source_stdin(&source);
    int r = collect(&source, o->wait_ms, NULL, &records);
    if (r < 0)
        fprintf(stderr, "coherence-probe: %s\n", strerror(-r));
    int status = r < 0 ? PROBE_FAILED : report_all(records, context, o);
    destroy_all(records);
    probe_source_close(&source);
    return status;
}

/* ---- asking ---- */

/* Sends a load and waits for its end; the device that it names. */
static int load(struct probe_source *source, const struct options *o, char *ret_device, size_t room)
{
    struct halo_msg msg;
    const char *line;
    size_t len;
    halo_msg_init(&msg, HALO_MSG_LOAD);
    msg.id = halo_id_of(1);
    msg.load.model = halo_str_of(o->model);
    int r = probe_source_send(source, &msg);
    while (r == 0 && (r = probe_source_next(source, o->wait_ms, &line, &len)) == 0) {
        struct halo_refusal refusal;
        struct halo_ev ev;
        if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
            return -EPROTO;
        bool ended = halo_ev_is_terminal(ev.type);
        if (ev.type == HALO_EV_LOADED)
            snprintf(ret_device, room, "%s", ev.loaded.device.at);
        if (ev.type == HALO_EV_ERROR) {
            fprintf(stderr, "coherence-probe: load: %s\n", ev.error.message.at);
            r = -EINVAL;
        }
        halo_ev_finish(&ev);
        if (ended)
            break;
    }
    return r;
}

/* Where the daemon runs the model of the reply. Nothing when it does not say: the report goes out all the same. */
static void device_of(struct probe_source *source, const struct options *o, const char *model, char *ret_device,
                      size_t room)
{
    struct halo_msg msg;
    const char *line;
    size_t len;
    bool over = false;
    halo_msg_init(&msg, HALO_MSG_STATUS);
    msg.id = halo_id_of(3);
    int r = probe_source_send(source, &msg);
    while (r == 0 && !over && probe_source_next(source, o->wait_ms, &line, &len) == 0) {
        struct halo_refusal refusal;
        struct halo_ev ev;
        if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
            return;
        for (size_t i = 0; ev.type == HALO_EV_STATUS && i < ev.status.models.n; i++)
            if (halo_str_is(ev.status.models.at[i].name, model) && ev.status.models.at[i].has_device)
                snprintf(ret_device, room, "%s", ev.status.models.at[i].device.at);
        over = halo_ev_is_terminal(ev.type) && halo_id_equal(&ev.id, &msg.id);
        halo_ev_finish(&ev);
    }
}

/* The conversation in files, checked by the protocol's decoder. The caller finishes it. */
static int read_talk(const struct options *o, const struct probe_context *context, struct halo_msg *ret)
{
    struct halo_refusal refusal;
    struct halo_json w;
    size_t n;
    char *messages = read_file(o->messages_file, &n);
    if (!messages)
        return -EINVAL;
    halo_json_init(&w);
    halo_json_object_begin(&w);
    halo_json_key(&w, "type");
    halo_json_str(&w, "generate");
    halo_json_key(&w, "id");
    halo_json_i64(&w, 2);
    halo_json_key(&w, "messages");
    halo_json_raw(&w, messages, n);
    if (context->tools) {
        halo_json_key(&w, "tools");
        halo_json_raw(&w, context->tools, context->n_tools);
    }
    halo_json_object_end(&w);
    int r = halo_json_line_end(&w);
    if (r == 0)
        r = halo_msg_decode(ret, w.at, w.len - 1, HALO_ROLE_CLIENT, &refusal);
    if (r > 0)
        fprintf(stderr, "coherence-probe: %s: %s\n", o->messages_file, refusal.message);
    halo_json_finish(&w);
    free(messages);
    return r > 0 ? -EINVAL : r;
}

static int ask(struct probe_source *source, const struct options *o, const struct probe_context *context)
{
    struct halo_msg msg;
    int r = 0;
    if (o->messages_file)
        r = read_talk(o, context, &msg);
    else
        halo_msg_init(&msg, HALO_MSG_GENERATE);
    if (r < 0)
        return r;
    msg.id = halo_id_of(2);
    msg.generate.has_prompt = !o->messages_file;
    msg.generate.prompt = (struct halo_str){context->prompt, context->n_prompt};
    msg.generate.has_model = o->model && !o->engine;
    msg.generate.model = halo_str_of(o->model);
    msg.generate.has_max_tokens = true;
    msg.generate.max_tokens = o->max_tokens;
    msg.generate.temperature = o->temperature;
    msg.generate.has_seed = true;
    msg.generate.seed = o->seed;
    msg.generate.logprobs = 1;
    msg.generate.emit_token_ids = true;
    r = probe_source_send(source, &msg);
    halo_msg_finish(&msg);
    return r;
}

static int from_model(const struct options *o, struct probe_context *context)
{
    struct probe_source source;
    struct probe_record *records = NULL;
    struct halo_id id = halo_id_of(2);
    char device[128] = "";
    int r = o->engine ? probe_source_spawn(&source, o->engine, o->device) : probe_source_socket(&source, o->socket);
    if (r < 0) {
        fprintf(stderr, "coherence-probe: %s: %s\n", o->engine ? o->engine : o->socket, strerror(-r));
        return PROBE_FAILED;
    }
    if (o->engine)
        r = load(&source, o, device, sizeof device);
    if (r == 0)
        r = ask(&source, o, context);
    if (r == 0)
        r = collect(&source, o->wait_ms, &id, &records);
    if (r == 0 && o->socket && records)
        device_of(&source, o, records->model, device, sizeof device);
    context->device = device[0] ? device : NULL;
    if (r != 0)
        fprintf(stderr, "coherence-probe: %s\n",
                r == PROBE_E_END ? "the stream ended before the reply did" : strerror(-r));
    /* What was seen is reported, however it ended. */
    int status = records ? report_all(records, context, o) : PROBE_FAILED;
    destroy_all(records);
    probe_source_close(&source);
    return r != 0 && status == PROBE_CLEAN ? PROBE_FAILED : status;
}

static int run(struct options *o)
{
    struct probe_context context = {.stall_ids = (size_t)o->stall_ids};
    char *prompt = NULL, *tools = NULL;
    int status = PROBE_FAILED;
    if (o->prompt_file && !(prompt = read_file(o->prompt_file, &context.n_prompt)))
        return PROBE_FAILED;
    if (o->prompt) {
        context.prompt = o->prompt;
        context.n_prompt = strlen(o->prompt);
    }
    if (prompt)
        context.prompt = prompt;
    if (o->tools_file && (tools = read_file(o->tools_file, &context.n_tools)))
        context.tools = tools;
    if (o->tools_file && !tools)
        status = PROBE_FAILED;
    else if (o->from_stdin)
        status = from_stdin(o, &context);
    else if (!context.prompt == !o->messages_file)
        fprintf(stderr, "coherence-probe: give one of PROMPT, --prompt-file and --messages\n");
    else
        status = from_model(o, &context);
    free(prompt);
    free(tools);
    return status;
}

int main(int argc, char **argv)
{
    struct options o = {.device = "auto", .wait_ms = 120000, .max_tokens = 200};
    int letter;
    if (halo_standard_fds_open() < 0)
        return PROBE_FAILED;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, "hm:n:t:", longs, NULL)) != -1) {
        if (letter == 'h') {
            usage(stdout);
            return PROBE_CLEAN;
        }
        if (!set(&o, letter, optarg)) {
            fprintf(stderr, "coherence-probe: unknown option or bad value: %s\n", argv[optind - 1]);
            usage(stderr);
            return PROBE_FAILED;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    if (o.self_check)
        return probe_self_check();
    o.prompt = optind < argc ? argv[optind] : NULL;
    if (o.from_stdin + (o.socket != NULL) + (o.engine != NULL) != 1 || argc - optind > 1 || (o.engine && !o.model)) {
        usage(stderr);
        return PROBE_FAILED;
    }
    return run(&o);
}
