/* main.c: haloctl, the thin client of halod: global options, the table of verbs. See haloctl(1). */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <protocol/standard_fds.h>

#include <client/say.h>
#include <client/suggest.h>

#include "ctl_priv.h"

static int show_help(struct halo_ctl *ctl, int argc, char **argv);
static int show_version(struct halo_ctl *ctl, int argc, char **argv);

static const struct verb {
    const char *name;
    int (*run)(struct halo_ctl *ctl, int argc, char **argv);
    const char *help;
} verbs[] = {
    {"generate", halo_ctl_generate, "continue a prompt, streaming the text"},
    {"chat", halo_ctl_chat, "talk to a model, turn by turn"},
    {"load", halo_ctl_load, "read a model into memory"},
    {"unload", halo_ctl_unload, "release its memory"},
    {"models", halo_ctl_models, "list the models that can be named"},
    {"status", halo_ctl_status, "what the daemon and its engine are doing"},
    {"stats", halo_ctl_stats, "counters and histograms"},
    {"tokenize", halo_ctl_tokenize, "text to token ids"},
    {"detokenize", halo_ctl_detokenize, "token ids to text"},
    {"template", halo_ctl_template, "what the chat template makes of a conversation"},
    {"score", halo_ctl_score, "log-probabilities of a text"},
    {"plan", halo_ctl_plan, "what a load would need and how fast it would be"},
    {"bench", halo_ctl_bench, "measure prefill and decode"},
    {"profile", halo_ctl_profile, "measure memory and the drive of a model"},
    {"diag", halo_ctl_diag, "build, device and driver facts"},
    {"reset", halo_ctl_reset, "forget cached prompt prefixes"},
    {"ping", halo_ctl_ping, "whether the daemon answers"},
    {"raw", halo_ctl_raw, "pipe protocol lines in and events out"},
    {"help", show_help, "this list, or the options of a verb"},
    {"version", show_version, "the version of haloctl and of the protocol"},
};
#define N_VERBS (sizeof(verbs) / sizeof(*verbs))

static void print_usage(FILE *out)
{
    fputs("usage: haloctl [--socket PATH] [--json] [--quiet | --verbose] VERB [OPTION...] [ARGUMENT...]\n\nverbs:\n",
          out);
    for (size_t i = 0; i < N_VERBS; i++)
        fprintf(out, "  %-11s %s\n", verbs[i].name, verbs[i].help);
    fputs(
        "\n`haloctl help VERB` lists the options of a verb; haloctl(1) has the rest.\n"
        "exit status: 0 done, 1 failed, 2 usage, 3 refused, 4 no daemon, 5 cut off at the context's end, 6 deadline,\n"
        "             130 interrupted, 141 nobody reads the output\n",
        out);
}

static const struct verb *find_verb(const char *name)
{
    const char *names[N_VERBS];
    char text[256];
    for (size_t i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i].name;
        if (strcmp(name, verbs[i].name) == 0)
            return &verbs[i];
    }
    halo_client_did_you_mean(name, names, N_VERBS, text, sizeof(text));
    halo_client_say("unknown verb '%s'%s (try: haloctl help)", name, text);
    return NULL;
}

static int show_help(struct halo_ctl *ctl, int argc, char **argv)
{
    char option[] = "--help";
    bool of_verb = argc > 1 && strcmp(argv[1], option) != 0 && strcmp(argv[1], "-h") != 0;
    const struct verb *verb = of_verb ? find_verb(argv[1]) : NULL;
    if (of_verb && !verb)
        return HALO_CTL_USAGE;
    if (verb && verb->run != show_help && verb->run != show_version)
        return verb->run(ctl, 2, (char *[]){argv[1], option, NULL});
    print_usage(stdout);
    return HALO_CTL_OK;
}

static int show_version(struct halo_ctl *ctl, int argc, char **argv)
{
    printf("haloctl %s, protocol %d\n", HALO_VERSION, HALO_PROTOCOL_VERSION);
    return HALO_CTL_OK;
}

/* Takes the options before the verb. Returns the index of the verb, or a negative exit status less one. */
static int parse_globals(struct halo_ctl *ctl, int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            ctl->json = true;
        } else if (strcmp(argv[i], "--quiet") == 0 || strcmp(argv[i], "-q") == 0) {
            ctl->quiet = true;
        } else if (strcmp(argv[i], "--verbose") == 0 || strcmp(argv[i], "-v") == 0) {
            ctl->verbose = true;
        } else if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc) {
            ctl->socket_path = argv[++i];
        } else if (strcmp(argv[i], "--socket") == 0) {
            halo_client_say("--socket needs a value (try: haloctl help)");
            return -HALO_CTL_USAGE - 1;
        } else if (strncmp(argv[i], "--socket=", 9) == 0) {
            ctl->socket_path = argv[i] + 9;
        } else if (strcmp(argv[i], "--version") == 0 || strcmp(argv[i], "-V") == 0) {
            return -show_version(ctl, 0, NULL) - 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_usage(stdout);
            return -HALO_CTL_OK - 1;
        } else {
            halo_client_say("unknown option %s (try: haloctl help)", argv[i]);
            return -HALO_CTL_USAGE - 1;
        }
    }
    if (i == argc) {
        print_usage(stderr);
        return -HALO_CTL_USAGE - 1;
    }
    return i;
}

/* What is typed and shown is UTF-8, whatever locale the environment names; numbers are written as in C. */
static void set_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

/* SIGPIPE ends this process at once, unless whoever started it ignores that signal. */
static int end_output(struct halo_ctl *ctl, int status)
{
    halo_ctl_flush(ctl);
    return halo_client_output_status(ctl->out_error, status, HALO_CTL_FAILED);
}

int main(int argc, char **argv)
{
    halo_client_set_name("haloctl");
    if (halo_standard_fds_open() < 0)
        return HALO_CTL_FAILED;
    set_locale();
    struct halo_ctl ctl = {.fd = -1, .out_is_tty = isatty(STDOUT_FILENO), .err_is_tty = isatty(STDERR_FILENO)};
    int at = parse_globals(&ctl, argc, argv);
    if (at < 0)
        return end_output(&ctl, -at - 1);
    const struct verb *verb = find_verb(argv[at]);
    if (!verb)
        return HALO_CTL_USAGE;
    halo_ctl_catch_signals();
    halo_json_init(&ctl.out);
    int status = verb->run(&ctl, argc - at, argv + at);
    if (status == HALO_CTL_USAGE && halo_ctl_interrupts() > 0) /* while it read its input */
        status = HALO_CTL_INTERRUPTED;
    halo_ctl_disconnect(&ctl);
    halo_json_finish(&ctl.out);
    halo_ctl_forget_kept(&ctl);
    return end_output(&ctl, status);
}
