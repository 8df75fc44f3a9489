/* bounds.c: reads the table of bounds. One thread; a line that is not understood fails the whole: a misspelt set,
 * device or prompt would belong to no run of the gate. */
#include "bounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_file.h"

#define N_WORDS(table) (sizeof(table) / sizeof((table)[0]))

static const char *const sets[] = {"tree", "quick", "full", "gpu"};
static const char *const devices[] = {"cpu", "hip"};
static const char *const kv_types[] = {"f32", "f16", "q8", "q4"};

/* Whether each of the comma-separated words of `list` is one of the table. */
static bool are_known(const char *list, const char *const *table, size_t n_table)
{
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ","), i = 0;
        while (i < n_table && !(strlen(table[i]) == n && memcmp(table[i], at, n) == 0))
            i++;
        at += n;
        if (i == n_table || *at == '\0')
            return i < n_table;
    }
}

/* 1: a row, 0: nothing on this line, -1: bad. */
static int row_parse(const char *line, struct halo_bound *ret)
{
    char rest[2];
    if (line[strspn(line, " \t\r\n")] == '\0' || line[strspn(line, " \t")] == '#')
        return 0;
    int n = sscanf(line, "%15s %31s %7s %7s %63s %lf %lf %lf %1s", ret->set, ret->model, ret->device, ret->kv,
                   ret->prompts, &ret->mean, &ret->worst, &ret->top1, rest);
    /* Written so that NaN fails. */
    bool good = n == 8 && are_known(ret->set, sets, N_WORDS(sets)) &&
                are_known(ret->device, devices, N_WORDS(devices)) && are_known(ret->kv, kv_types, N_WORDS(kv_types)) &&
                are_known(ret->prompts, halo_golden_prompts, HALO_GOLDEN_PROMPTS) && ret->mean > 0 && ret->mean < 1 &&
                ret->worst >= ret->mean && ret->worst < 20 && ret->top1 > 0.5 && ret->top1 <= 1;
    return good ? 1 : -1;
}

bool halo_bounds_read(struct halo_bounds *ret, const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    bool good = file != NULL;
    *ret = (struct halo_bounds){0};
    for (int number = 1; good && fgets(line, sizeof(line), file); number++) {
        struct halo_bound row = {0};
        int r = row_parse(line, &row);
        if (r < 0)
            fprintf(stderr, "%s:%d: no bound: %s", path, number, line);
        if (r == 0)
            continue;
        struct halo_bound *more = r < 0 ? NULL : realloc(ret->at, (ret->n + 1) * sizeof(*more));
        good = more != NULL;
        if (good) {
            ret->at = more;
            ret->at[ret->n++] = row;
        }
    }
    if (!file)
        perror(path);
    else
        fclose(file);
    if (!good)
        halo_bounds_finish(ret);
    return good;
}

void halo_bounds_finish(struct halo_bounds *bounds)
{
    free(bounds->at);
    *bounds = (struct halo_bounds){0};
}
