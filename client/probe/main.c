/* main.c: coherence-probe: is what the model says still right? See coherence-probe(1).
 *
 * Three sources (standard input, a daemon, an engine of its own), one judge. Every read has a deadline; an `error`
 * event is a row in the report, not its end.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/standard_fds.h>

#include <client/conversation.h>
#include <client/say.h>
#include <client/socket.h>
#include <client/text.h>

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
                                      {"version", no_argument, NULL, 'V'},
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
        "         --help  --version\n"
        "exit status: 0 no detector failed, 1 one did, 2 could not run, 3 nothing to judge\n",
        out);
}

static bool number(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoll(text, &end, 10);
    if (end != text && !*end && errno == 0 && *ret >= 0)
        return true;
    halo_client_say("'%s' is not a whole number of at least 0", text);
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
    case 't': o->temperature = strtod(value, &end); return end != value && !*end && isfinite(o->temperature);
    default: return false;
    }
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
        halo_client_say("there is nothing to judge");
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
            halo_client_say("a line is not an event: %s", refusal.message);
            return PROBE_E_SAID;
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
        halo_client_say("%s", strerror(-r));
    int status = r < 0 || r == PROBE_E_SAID ? PROBE_FAILED : report_all(records, context, o);
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
            halo_client_say("load: %s", ev.error.message.at);
            r = PROBE_E_SAID;
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

static int ask(struct probe_source *source, const struct options *o, const struct probe_context *context)
{
    struct halo_msg msg, talk;
    const struct halo_client_conversation given = {.messages = o->messages_file, .tools = o->tools_file};
    halo_msg_init(&msg, HALO_MSG_GENERATE);
    halo_msg_init(&talk, HALO_MSG_TEMPLATE);
    if (o->messages_file && halo_client_conversation_read(&given, &talk) < 0)
        return PROBE_E_SAID;
    msg.id = halo_id_of(2);
    msg.generate.has_messages = o->messages_file != NULL;
    msg.generate.messages = talk.template.messages;
    msg.generate.has_tools = talk.template.has_tools;
    msg.generate.tools = talk.template.tools;
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
    int r = probe_source_send(source, &msg);
    halo_msg_finish(&talk);
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
        char reason[400];
        halo_client_say("%s: %s", o->engine ? o->engine : o->socket,
                        o->engine ? strerror(-r) : halo_client_connect_reason(o->socket, r, reason, sizeof(reason)));
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
    if (r != 0 && r != PROBE_E_SAID)
        halo_client_say("%s", r == PROBE_E_END ? "the stream ended before the reply did" : strerror(-r));
    /* What was seen is reported, however it ended. */
    int status = records ? report_all(records, context, o) : PROBE_FAILED;
    destroy_all(records);
    probe_source_close(&source);
    return r != 0 && status == PROBE_CLEAN ? PROBE_FAILED : status;
}

static int run(struct options *o)
{
    struct probe_context context = {.stall_ids = (size_t)o->stall_ids};
    char *prompt = NULL, *tools = NULL, *model = NULL;
    int status = PROBE_FAILED;
    if (o->prompt) {
        context.prompt = o->prompt;
        context.n_prompt = strlen(o->prompt);
    }
    if (o->prompt_file)
        context.prompt = prompt = halo_client_read_file(o->prompt_file, &context.n_prompt);
    if (o->tools_file)
        context.tools = tools = halo_client_read_file(o->tools_file, &context.n_tools);
    bool have_all = (!o->prompt_file || prompt) && (!o->tools_file || tools);
    if (o->model) {
        model = halo_client_model(o->model);
        have_all = have_all && model;
        o->model = model;
    }
    if (!have_all || (context.prompt && !halo_client_check_text("the prompt", context.prompt, context.n_prompt)))
        status = PROBE_FAILED;
    else if (o->from_stdin)
        status = from_stdin(o, &context);
    else if (!context.prompt == !o->messages_file)
        halo_client_say("give one of PROMPT, --prompt-file and --messages");
    else
        status = from_model(o, &context);
    free(prompt);
    free(tools);
    free(model);
    return status;
}

/* Takes the command line. -1: go on; otherwise an exit status. */
static int parse(struct options *o, int argc, char **argv)
{
    int letter;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, "hVm:n:t:", longs, NULL)) != -1) {
        if (letter == 'h') {
            usage(stdout);
            return PROBE_CLEAN;
        }
        if (letter == 'V') {
            puts("coherence-probe " HALO_VERSION);
            return PROBE_CLEAN;
        }
        if (!set(o, letter, optarg)) {
            halo_client_say("unknown option or bad value: %s", argv[optind - 1]);
            usage(stderr);
            return PROBE_FAILED;
        }
    }
    o->prompt = optind < argc ? argv[optind] : NULL;
    bool no_source = o->from_stdin + (o->socket != NULL) + (o->engine != NULL) != 1;
    if (!o->self_check && (no_source || argc - optind > 1 || (o->engine && !o->model))) {
        usage(stderr);
        return PROBE_FAILED;
    }
    return -1;
}

int main(int argc, char **argv)
{
    char help[] = "--help", version[] = "--version";
    struct options o = {.device = "auto", .wait_ms = 120000, .max_tokens = 200};
    halo_client_set_name("coherence-probe");
    if (halo_standard_fds_open() < 0)
        return PROBE_FAILED;
    /* The words stand for the options of their name, as in haloctl. */
    if (argc == 2 && strcmp(argv[1], "help") == 0)
        argv[1] = help;
    else if (argc == 2 && strcmp(argv[1], "version") == 0)
        argv[1] = version;
    int status = parse(&o, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (status < 0)
        status = o.self_check ? probe_self_check() : run(&o);
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    return halo_client_output_status(!failed ? 0 : errno ? errno : EIO, status, PROBE_FAILED);
}
