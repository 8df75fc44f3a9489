/* options.c: the command line of halo-doctor. See halo-doctor(1). */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct option longs[] = {{"sysroot", required_argument, NULL, 's'},
                                      {"json", no_argument, NULL, 'j'},
                                      {"markdown", no_argument, NULL, 'k'},
                                      {"checks-only", no_argument, NULL, 'c'},
                                      {"tier", required_argument, NULL, 't'},
                                      {"hip-lib", required_argument, NULL, 'l'},
                                      {"engine", required_argument, NULL, 'e'},
                                      {"model", required_argument, NULL, 'm'},
                                      {"quick", no_argument, NULL, 'q'},
                                      {"wait-ms", required_argument, NULL, 'w'},
                                      {"from-tier", required_argument, NULL, 'f'},
                                      {"tier-ms", required_argument, NULL, 'd'},
                                      {"version", no_argument, NULL, 'v'},
                                      {"help", no_argument, NULL, 'h'},
                                      {NULL, 0, NULL, 0}};

static void usage(FILE *out)
{
    fputs("usage: halo-doctor [OPTION...]\n"
          "       halo-doctor bringup [OPTION...]\n"
          "options: --sysroot DIR   read /sys, /proc, /dev, /etc and so on below DIR\n"
          "         --json          one JSON object a line: each finding, then the summary\n"
          "         --markdown      Markdown\n"
          "         --checks-only   run the checks alone, without the tiers\n"
          "         --tier N        run the tiers up to N (0 to 7; default: all)\n"
          "         --quick         run the checks and tier 0: the GPU is not touched\n"
          "         --wait-ms N     deadline of all checks together (2000)\n"
          "         --from-tier N   skip the tiers below N\n"
          "         --tier-ms N     deadline of each tier (2000 to 120000, by tier)\n"
          "         --hip-lib PATH  the HIP runtime to use\n"
          "         --engine PATH   halod-engine, for tier 7\n"
          "         --model FILE    the model, for tier 7\n"
          "exit status: 0 nothing failed, 1 something failed, 2 could not run\n",
          out);
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "halo-doctor: %s: %s\n", what, value);
    usage(stderr);
    return HALO_DOCTOR_OPTIONS_WRONG;
}

/* The slashes at the end go: every path begins with one. */
static void trim(char *dir)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/')
        dir[--n] = '\0';
}

static bool number(const char *text, int max, int *ret)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    *ret = (int)n;
    return end != text && !*end && errno == 0 && n >= 0 && n <= max;
}

int halo_doctor_options_read(int argc, char **argv, struct halo_doctor_options *ret)
{
    int letter;
    struct stat st;
    *ret = (struct halo_doctor_options){
        .sysroot = "", .wait_ms = HALO_DOCTOR_CHECK_MS, .last_tier = HALO_DOCTOR_LAST_TIER};
    opterr = 0;
    optind = 0;
    while ((letter = getopt_long(argc, argv, "hV", longs, NULL)) != -1) {
        switch (letter) {
        case 's':
            if (!*optarg)
                return wrong("--sysroot needs a folder", "an empty name");
            if (stat(optarg, &st) != 0 || !S_ISDIR(st.st_mode))
                /* Else all would be missing, and look like findings. */
                return wrong("--sysroot is not a folder", optarg);
            trim(optarg);
            ret->sysroot = optarg;
            break;
        case 'j': ret->form = HALO_DOCTOR_JSON; break;
        case 'k': ret->form = HALO_DOCTOR_MARKDOWN; break;
        case 'c': ret->checks_only = true; break;
        case 'q': ret->quick = true; break;
        case 'l': ret->hip_lib = optarg; break;
        case 'e': ret->engine = optarg; break;
        case 'm': ret->model = optarg; break;
        case 't':
            if (!number(optarg, HALO_DOCTOR_LAST_TIER, &ret->last_tier))
                return wrong("--tier is a number from 0 to 7", optarg);
            break;
        case 'w':
            if (!number(optarg, 3600000, &ret->wait_ms))
                return wrong("--wait-ms is a number of milliseconds, 0 to 3600000", optarg);
            break;
        case 'f':
            if (!number(optarg, HALO_DOCTOR_LAST_TIER, &ret->first_tier))
                return wrong("--from-tier is a number from 0 to 7", optarg);
            break;
        case 'd':
            if (!number(optarg, 3600000, &ret->tier_ms) || ret->tier_ms < 1)
                return wrong("--tier-ms is a number of milliseconds, 1 to 3600000", optarg);
            break;
        case 'V':
        case 'v': puts("halo-doctor " HALO_VERSION); return HALO_DOCTOR_OPTIONS_DONE;
        case 'h': usage(stdout); return HALO_DOCTOR_OPTIONS_DONE;
        default: return wrong("unknown option or missing value", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return wrong("unknown argument (only `bringup`, `help` and `version` are known)", argv[optind]);
    if (ret->first_tier > ret->last_tier)
        return wrong("--from-tier is above --tier", "no tier would be tried");
    if (ret->quick)
        ret->last_tier = 0;
    return HALO_DOCTOR_OPTIONS_RUN;
}
