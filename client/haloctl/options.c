/* options.c: the command line of a verb, from a table straight into the fields of its message. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    for (const struct halo_ctl_option *o = options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
                 o->letter ? ", " : "  ", o->name, o->value_name ? " " : "", o->value_name ? o->value_name : "");
        printf("  %-34s %s\n", left, o->help);
    }
}

/* Stores one value; false after a message. */
static bool store(const struct halo_ctl_option *o, const char *text, void *target)
{
    char *at = (char *)target + o->offset;
    char *end = NULL;
    errno = 0;
    switch (o->kind) {
    case HALO_CTL_TRUE:
    case HALO_CTL_FALSE: *(bool *)(void *)at = o->kind == HALO_CTL_TRUE; break;
    case HALO_CTL_STRING: *(struct halo_str *)(void *)at = halo_str_of(text); break;
    case HALO_CTL_CSTRING: *(const char **)(void *)at = text; break;
    case HALO_CTL_INTEGER: *(int64_t *)(void *)at = strtoll(text, &end, 10); break;
    case HALO_CTL_NUMBER: *(double *)(void *)at = strtod(text, &end); break;
    case HALO_CTL_STRINGS: {
        struct halo_ctl_strings *list = (struct halo_ctl_strings *)(void *)at;
        if (list->n == HALO_LIMIT_STOP_STRINGS) {
            fprintf(stderr, "haloctl: --%s may be given at most %d times\n", o->name, HALO_LIMIT_STOP_STRINGS);
            return false;
        }
        list->at[list->n++] = halo_str_of(text);
        break;
    }
    case HALO_CTL_KV: {
        enum halo_wire_kv word = halo_word_from_name_wire_kv(text, strlen(text));
        *(enum halo_wire_kv *)(void *)at = word;
        if ((int)word < 0)
            end = (char *)(uintptr_t)text;
        break;
    }
    case HALO_CTL_DEVICE: {
        enum halo_wire_device word = halo_word_from_name_wire_device(text, strlen(text));
        *(enum halo_wire_device *)(void *)at = word;
        if ((int)word < 0)
            end = (char *)(uintptr_t)text;
        break;
    }
    }
    if (end && (end == text || *end || errno == ERANGE)) {
        fprintf(stderr, "haloctl: --%s: '%s' is not %s\n", o->name, text,
                o->kind == HALO_CTL_INTEGER  ? "a whole number in range"
                : o->kind == HALO_CTL_NUMBER ? "a number"
                : o->kind == HALO_CTL_KV     ? "one of f32 f16 q8"
                                             : "one of auto cpu hip");
        return false;
    }
    if (o->has != HALO_CTL_NO_HAS)
        *((bool *)(void *)((char *)target + o->has)) = true;
    return true;
}

int halo_ctl_parse(int argc, char **argv, const struct halo_ctl_option *options, void *target, const char *usage)
{
    struct option longs[MAX_OPTIONS + 2] = {0};
    char shorts[2 * MAX_OPTIONS + 4] = "+h";
    int n = 0;
    for (; options[n].name; n++) {
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
        int index = value - 1;
        if (value > MAX_OPTIONS)
            for (index = 0; options[index].name && options[index].letter != value; index++)
                ;
        if (value == '?' || !options[index].name) {
            fprintf(stderr, "haloctl %s: unknown option or missing value: %s (try --help)\n", argv[0],
                    argv[optind - 1]);
            return -1;
        }
        if (!store(&options[index], optarg, target))
            return -1;
    }
}
