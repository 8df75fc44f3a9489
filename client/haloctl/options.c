/* options.c: the command line of a verb, from a table straight into the fields of its message. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <client/say.h>
#include <client/suggest.h>
#include <client/text.h>

#include "ctl_priv.h"

#define MAX_OPTIONS 32
#define HELP_VALUE 1000

static bool takes_value(enum halo_ctl_kind kind)
{
    return kind != HALO_CTL_TRUE && kind != HALO_CTL_FALSE;
}

static void print_help(const struct halo_ctl_option *options, const char *usage)
{
    printf("usage: haloctl %s\n", usage);
    for (const struct halo_ctl_option *o = options; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ", " : "  ", o->name, o->value_name ? " " : "", o->value_name ? o->value_name : "");
        printf("  %-34s %s\n", left, o->help);
    }
}

/* What a value has to be. */
static const char *wanted(enum halo_ctl_kind kind)
{
    switch (kind) {
    case HALO_CTL_INTEGER: return "a whole number in range";
    case HALO_CTL_SECONDS: return "a number of seconds, or a time like 90s, 5m, 1h or 2d";
    case HALO_CTL_BYTES: return "a number of bytes, or a size like 512M, 7.5GB or 8GiB";
    case HALO_CTL_NUMBER: return "a finite number";
    case HALO_CTL_KV: return "one of f32, f16, q8, q4";
    case HALO_CTL_TIERS: return "one of auto, memory, stream";
    case HALO_CTL_ROUTING: return "one of uniform, zipf";
    default: return "one of auto, cpu, hip";
    }
}

static bool store_string(const struct halo_ctl_option *o, const char *text, struct halo_ctl_strings *list)
{
    if (list->n == HALO_LIMIT_STOP_STRINGS) {
        halo_client_say("--%s may be given at most %d times", o->name, HALO_LIMIT_STOP_STRINGS);
        return false;
    }
    list->at[list->n++] = halo_str_of(text);
    return true;
}

static bool read_seconds(const char *text, int64_t *ret_s)
{
    static const char units[] = "smhd";
    static const int64_t seconds[] = {1, 60, 3600, 86400};
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : units;
    if (end == text || errno || !unit || (*end != '\0' && end[1] != '\0') || number > INT32_MAX)
        return false;
    *ret_s = number * seconds[unit - units];
    return true;
}

static bool read_bytes(const char *text, int64_t *ret_bytes)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    double number = strtod(text, &end);
    bool plain = end != text && (size_t)(end - text) == strspn(text, "0123456789."); /* no sign, nothing but decimals */
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    if (unit) {
        bool binary = end[1] == 'i';
        for (const char *u = units; u <= unit; u++)
            number *= binary ? 1024 : 1000;
        end += binary ? 2 : 1;
    }
    if (*end == 'B')
        end++;
    if (!plain || *end != '\0' || number > 0x1p53)
        return false;
    *ret_bytes = (int64_t)number;
    return true;
}

/* Stores one value; false after a message. */
static bool store(struct halo_ctl *ctl, const struct halo_ctl_option *o, const char *text, void *target)
{
    void *at = (char *)target + o->offset;
    char *end = NULL;
    bool good = true;
    if ((o->kind == HALO_CTL_STRING || o->kind == HALO_CTL_TEXT || o->kind == HALO_CTL_STRINGS) &&
        !halo_client_check_text(o->name, text, strlen(text)))
        return false;
    errno = 0;
    switch (o->kind) {
    case HALO_CTL_TRUE: *(bool *)at = true; break;
    case HALO_CTL_FALSE: *(bool *)at = false; break;
    case HALO_CTL_STRING: *(struct halo_str *)at = halo_str_of(text); break;
    case HALO_CTL_TEXT:
    case HALO_CTL_PATH: *(const char **)at = text; break;
    case HALO_CTL_MODEL:
        if (!halo_ctl_model(ctl, text, at))
            return false;
        break;
    case HALO_CTL_STRINGS:
        if (!store_string(o, text, at))
            return false;
        break;
    case HALO_CTL_INTEGER:
        *(int64_t *)at = strtoll(text, &end, 10);
        good = end != text && !*end && !errno;
        break;
    case HALO_CTL_SECONDS: good = read_seconds(text, at); break;
    case HALO_CTL_BYTES: good = read_bytes(text, at); break;
    case HALO_CTL_NUMBER:
        *(double *)at = strtod(text, &end);
        good = end != text && !*end && isfinite(*(double *)at);
        break;
    case HALO_CTL_KV:
        *(enum halo_wire_kv *)at = halo_word_from_name_wire_kv(text, strlen(text));
        good = *(enum halo_wire_kv *)at != HALO_WIRE_KV_UNKNOWN;
        break;
    case HALO_CTL_TIERS:
        *(enum halo_wire_tiers *)at = halo_word_from_name_wire_tiers(text, strlen(text));
        good = *(enum halo_wire_tiers *)at != HALO_WIRE_TIERS_UNKNOWN;
        break;
    case HALO_CTL_ROUTING:
        *(enum halo_wire_routing *)at = halo_word_from_name_wire_routing(text, strlen(text));
        good = *(enum halo_wire_routing *)at != HALO_WIRE_ROUTING_UNKNOWN;
        break;
    case HALO_CTL_DEVICE:
        *(enum halo_wire_device *)at = halo_word_from_name_wire_device(text, strlen(text));
        good = *(enum halo_wire_device *)at != HALO_WIRE_DEVICE_UNKNOWN;
        break;
    }
    if (!good)
        halo_client_say("--%s: '%s' is not %s", o->name, text, wanted(o->kind));
    else if (o->has != HALO_CTL_NO_HAS)
        *(bool *)((char *)target + o->has) = true;
    return good;
}

/* getopt_long's tables of the options. */
static void make_tables(const struct halo_ctl_option *options, struct option longs[MAX_OPTIONS + 2],
                        char shorts[2 * MAX_OPTIONS + 4])
{
    int n = 0;
    strcpy(shorts, ":h"); /* a colon first: a missing value is told from an unknown option */
    for (; options && options[n].name; n++) {
        if (n == MAX_OPTIONS)
            abort(); /* a table in this program is too long */
        int has_arg = takes_value(options[n].kind) ? required_argument : no_argument;
        longs[n] = (struct option){options[n].name, has_arg, NULL, n + 1};
        if (options[n].letter) {
            char letter[3] = {options[n].letter, has_arg == required_argument ? ':' : '\0', '\0'};
            strcat(shorts, letter);
        }
    }
    longs[n] = (struct option){"help", no_argument, NULL, HELP_VALUE};
    longs[n + 1] = (struct option){NULL, 0, NULL, 0};
}

/* What getopt_long() did not take; `argument`: the one before `optind`. */
static void complain(const char *verb, int value, const char *argument, const struct option *longs)
{
    const char *names[MAX_OPTIONS + 1];
    char word[64], text[256] = "";
    const char *what = value == ':' ? "needs a value" : "takes no value";
    if (optopt == 0) { /* a long one that is unknown, or short for several */
        size_t n = 0;
        for (; longs[n].name; n++)
            names[n] = longs[n].name;
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
        halo_client_did_you_mean(word, names, n, text, sizeof(text));
        halo_client_say("%s: unknown option --%s%s (try: haloctl %s --help)", verb, word, text, verb);
    } else if (optopt == HELP_VALUE || optopt <= MAX_OPTIONS) {
        halo_client_say("%s: --%s %s (try: haloctl %s --help)", verb,
                        optopt == HELP_VALUE ? "help" : longs[optopt - 1].name, what, verb);
    } else if (value == ':') {
        halo_client_say("%s: -%c %s (try: haloctl %s --help)", verb, optopt, what, verb);
    } else {
        halo_client_say("%s: unknown option -%c (try: haloctl %s --help)", verb, optopt, verb);
    }
}

int halo_ctl_parse(struct halo_ctl *ctl, int argc, char **argv, const struct halo_ctl_option *options, void *target,
                   const char *usage)
{
    struct option longs[MAX_OPTIONS + 2];
    char shorts[2 * MAX_OPTIONS + 4];
    make_tables(options, longs, shorts);
    optind = 0;
    opterr = 0;
    for (;;) {
        int value = getopt_long(argc, argv, shorts, longs, NULL);
        if (value == -1)
            return optind;
        if (value == HELP_VALUE || value == 'h') {
            print_help(options, usage);
            return -2;
        }
        if (value == '?' || value == ':') {
            complain(argv[0], value, argv[optind - 1], longs);
            return -1;
        }
        int index = value - 1;
        if (value > MAX_OPTIONS) /* a letter */
            for (index = 0; options[index].letter != value; index++)
                ;
        if (!store(ctl, &options[index], optarg, target))
            return -1;
    }
}

bool halo_ctl_only_model(struct halo_ctl *ctl, int argc, char **argv, int at, struct halo_str *ret)
{
    if (argc - at == 1)
        return halo_ctl_model(ctl, argv[at], ret);
    halo_client_say("%s: takes exactly one model, got %d", argv[0], argc - at);
    return false;
}
