/* main.c: haloctl, the thin client of halod: global options, the table of verbs. See haloctl(1). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <protocol/standard_fds.h>

#include "ctl_priv.h"

static const struct verb {
    const char *name;
    int (*run)(struct halo_ctl *ctl, int argc, char **argv);
    const char *help;
} verbs[] = {
    {"generate", halo_ctl_generate, "continue a prompt, streaming the text"},
    {"chat", halo_ctl_chat, "talk with a model, line by line"},
    {"load", halo_ctl_load, "read a model into memory"},
    {"unload", halo_ctl_unload, "give its memory back"},
    {"models", halo_ctl_models, "list the models that can be named"},
    {"status", halo_ctl_status, "what the daemon and its engine are doing"},
    {"stats", halo_ctl_stats, "counters and histograms"},
    {"tokenize", halo_ctl_tokenize, "text to token ids"},
    {"detokenize", halo_ctl_detokenize, "token ids to text"},
    {"template", halo_ctl_template, "what the chat template makes of a conversation"},
    {"score", halo_ctl_score, "log-probabilities of a text"},
    {"plan", halo_ctl_plan, "what a load would need and how fast it would be"},
    {"bench", halo_ctl_bench, "measure prefill and decode"},
    {"diag", halo_ctl_diag, "build, device and driver facts"},
    {"reset", halo_ctl_reset, "forget cached prompt prefixes"},
    {"ping", halo_ctl_ping, "is the daemon there"},
    {"raw", halo_ctl_raw, "pipe protocol lines in and events out"},
};

static void print_usage(FILE *out)
{
    fputs("usage: haloctl [--socket PATH] [--json] [--quiet | --verbose] VERB [OPTION...] [ARGUMENT...]\n\nverbs:\n",
          out);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        fprintf(out, "  %-11s %s\n", verbs[i].name, verbs[i].help);
    fputs("\n`haloctl VERB --help` lists the options of a verb; haloctl(1) has the rest.\n"
          "exit status: 0 done, 1 failed, 2 usage, 3 refused, 4 no daemon, 130 interrupted\n",
          out);
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
        } else if (strncmp(argv[i], "--socket=", 9) == 0) {
            ctl->socket_path = argv[i] + 9;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("haloctl %s, protocol %d\n", HALO_VERSION, HALO_PROTOCOL_VERSION);
            return -HALO_CTL_OK - 1;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_usage(stdout);
            return -HALO_CTL_OK - 1;
        } else {
            fprintf(stderr, "haloctl: unknown option %s (try --help)\n", argv[i]);
            return -HALO_CTL_USAGE - 1;
        }
    }
    if (i == argc) {
        print_usage(stderr);
        return -HALO_CTL_USAGE - 1;
    }
    return i;
}

int main(int argc, char **argv)
{
    if (halo_standard_fds_open() < 0)
        return HALO_CTL_FAILED;
    struct halo_ctl ctl = {.fd = -1, .err_is_tty = isatty(STDERR_FILENO)};
    int at = parse_globals(&ctl, argc, argv);
    if (at < 0)
        return -at - 1;
    const struct verb *verb = NULL;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (strcmp(argv[at], verbs[i].name) == 0)
            verb = &verbs[i];
    if (!verb) {
        fprintf(stderr, "haloctl: unknown verb '%s' (try --help)\n", argv[at]);
        return HALO_CTL_USAGE;
    }
    halo_ctl_catch_signals();
    halo_json_init(&ctl.out);
    int status = verb->run(&ctl, argc - at, argv + at);
    halo_ctl_disconnect(&ctl);
    halo_json_finish(&ctl.out);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "haloctl: cannot write the output\n");
        return status == HALO_CTL_OK ? HALO_CTL_FAILED : status;
    }
    return status;
}
