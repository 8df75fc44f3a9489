/* bringup.c: `halo-doctor bringup`: its options, and how its parts go together. See halo-doctor(1). */
#include "bringup.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hip/hip.h>

#include "bringup_priv.h"

#define STAGE_MS 30000
#define DECODE_MS 3000

struct command {
    struct halo_bringup_options options;
    const char *stage; /* this process is a cell */
    bool json, quiet;
};

static const struct option longs[] = {
    {"json", no_argument, NULL, 'j'},           {"markdown", no_argument, NULL, 'k'},
    {"quiet", no_argument, NULL, 'q'},          {"hip-lib", required_argument, NULL, 'l'},
    {"stage-ms", required_argument, NULL, 'm'}, {"decode-ms", required_argument, NULL, 'd'},
    {"variant", required_argument, NULL, 'v'},  {"stage", required_argument, NULL, 's'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};

static void usage(FILE *out)
{
    fputs("usage: halo-doctor bringup [OPTION...]\n"
          "options: --markdown       Markdown (default)\n"
          "         --json           one JSON object\n"
          "         --quiet          no progress on standard error\n"
          "         --variant NAME   only this row; may be repeated:",
          out);
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        fprintf(out, " %s", halo_bringup_variant_name(v));
    fprintf(out,
            "\n"
            "         --stage-ms N     deadline of a cell (%d)\n"
            "         --decode-ms N    how long to repeat decode steps (%d)\n"
            "         --hip-lib PATH   the HIP runtime\n"
            "exit status: 0 halod can run on the GPU, with the settings named if any, 1 it cannot,\n"
            "             2 could not run\n",
            STAGE_MS, DECODE_MS);
}

static bool number(const char *text, uint32_t *ret)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    *ret = (uint32_t)n;
    return end != text && !*end && *text != '-' && errno == 0 && n >= 1 && n <= 3600000;
}

static bool add_variant(const char *name, unsigned *variants)
{
    for (unsigned v = 0; v < HALO_BRINGUP_N_VARIANTS; v++)
        if (strcmp(name, halo_bringup_variant_name(v)) == 0) {
            *variants |= 1u << v;
            return true;
        }
    return false;
}

/* -1: go on; else an exit status. */
static int read_command(int argc, char **argv, struct command *ret)
{
    bool good = true;
    int letter;
    *ret = (struct command){.options = {.stage_ms = STAGE_MS, .decode_ms = DECODE_MS}};
    optind = 0;
    opterr = 0;
    while (good && (letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
        switch (letter) {
        case 'j': ret->json = true; break;
        case 'k': ret->json = false; break;
        case 'q': ret->quiet = true; break;
        case 'l': ret->options.hip_lib = optarg; break;
        case 's': ret->stage = optarg; break;
        case 'm': good = number(optarg, &ret->options.stage_ms); break;
        case 'd': good = number(optarg, &ret->options.decode_ms); break;
        case 'v': good = add_variant(optarg, &ret->options.variants); break;
        case 'h': usage(stdout); return 0;
        default: good = false;
        }
    }
    if (!good || optind < argc) {
        fprintf(stderr, "halo-doctor: bringup: unknown option or bad value: %s\n", argv[good ? optind : optind - 1]);
        usage(stderr);
        return 2;
    }
    if (ret->options.variants == 0)
        ret->options.variants = (1u << HALO_BRINGUP_N_VARIANTS) - 1;
    return -1;
}

int halo_doctor_bringup(int argc, char **argv)
{
    static struct halo_bringup_matrix matrix;
    struct command command;
    char program[512];
    int status = read_command(argc, argv, &command);
    if (status >= 0)
        return status;
    halo_hip_limit_queues(); /* as halod-engine does */
    if (command.stage)
        return halo_bringup_stage_run(command.stage, command.options.hip_lib, command.options.decode_ms);
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (n <= 0) {
        fprintf(stderr, "halo-doctor: /proc/self/exe: %s\n", strerror(errno));
        return 2;
    }
    program[n] = '\0';
    command.options.program = program;
    int r = halo_bringup_matrix_run(&command.options, &matrix, command.quiet ? NULL : stderr);
    if (r) {
        fprintf(stderr, "halo-doctor: no process could be started: %s\n", strerror(-r));
        return 2;
    }
    const struct halo_bringup_rule *rule = halo_bringup_decide(&matrix);
    r = command.json ? halo_bringup_write_json(stdout, &matrix, rule)
                     : halo_bringup_write_markdown(stdout, &matrix, rule);
    return r ? 2 : rule->works ? 0 : 1;
}
