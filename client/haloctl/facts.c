/* facts.c: a JSON object of the daemon as lines for a person, and stages of a model.
 *
 * What stands in `status.memory`, `stats` and `diag` is told by its shape: an object is a heading, a histogram is its
 * count, mean and quantiles, a member called "..._bytes" is a size. New members of a newer daemon show by themselves.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <client/show.h>

#include "ctl_priv.h"

#define KEY_COLUMNS 28
#define DEPTH_MAX 8

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* The bound of the bucket that holds the given share of the samples; false: it is above the last. */
static bool quantile(const json_t *bounds, const json_t *counts, double n, double share, double *ret)
{
    double seen = 0;
    for (size_t i = 0; i < json_array_size(bounds); i++) {
        seen += json_number_value(json_array_get(counts, i));
        *ret = json_number_value(json_array_get(bounds, i));
        if (seen >= share * n)
            return true;
    }
    return false;
}

static bool print_histogram(const json_t *value)
{
    const json_t *bounds = json_object_get(value, "bounds"), *counts = json_object_get(value, "counts");
    double n = json_number_value(json_object_get(value, "n")), bound = 0;
    if (!json_is_array(bounds) || !json_is_array(counts) || !json_is_number(json_object_get(value, "sum")))
        return false;
    printf("%.0f samples", n);
    if (n > 0) {
        printf(", mean %.4g", json_number_value(json_object_get(value, "sum")) / n);
        const double shares[] = {0.5, 0.99};
        for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
            bool within = quantile(bounds, counts, n, shares[i], &bound);
            printf(", p%.0f %s %.4g", shares[i] * 100, within ? "<=" : ">", bound);
        }
    }
    putchar('\n');
    return true;
}

/* A value that needs one line. */
static void print_scalar(const char *key, const json_t *value)
{
    char size[32];
    if (json_is_string(value))
        halo_client_show_line(stdout, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value) && ends_with(key, "_bytes"))
        fputs(halo_ctl_bytes(json_integer_value(value), size), stdout);
    else if (json_is_integer(value))
        printf("%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        printf("%.6g", json_real_value(value));
    else
        fputs(json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-", stdout);
}

static void print_list(const char *key, const json_t *list)
{
    size_t i;
    json_t *value;
    if (json_array_size(list) == 0)
        putchar('-');
    json_array_foreach((json_t *)(uintptr_t)list, i, value)
    {
        fputs(i ? ", " : "", stdout);
        if (json_is_object(value) || json_is_array(value)) {
            char *text = json_dumps(value, JSON_COMPACT);
            halo_client_show_line(stdout, text ? text : "?", text ? strlen(text) : 1);
            free(text);
        } else {
            print_scalar(key, value);
        }
    }
}

static void print_object(const json_t *object, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int indent = 2 * depth;
        printf("%*s", indent, "");
        if (json_is_object(value) && !json_object_get(value, "counts") && depth < DEPTH_MAX) {
            halo_client_print_line(stdout, "%s", key);
            print_object(value, depth + 1);
            continue;
        }
        halo_client_show_cell(stdout, key, strlen(key), (size_t)(KEY_COLUMNS - indent > 0 ? KEY_COLUMNS - indent : 0));
        putchar(' ');
        if (json_is_object(value) && print_histogram(value))
            continue;
        if (json_is_array(value))
            print_list(key, value);
        else
            print_scalar(key, value);
        putchar('\n');
    }
}

void halo_ctl_print_facts(const char *title, struct halo_raw raw)
{
    json_t *json = json_loadb(raw.at ? raw.at : "", raw.len, JSON_DECODE_ANY, NULL);
    puts(title);
    if (json_is_object(json) && json_object_size(json) > 0) {
        print_object(json, 1);
    } else {
        fputs("  ", stdout);
        if (json_is_array(json))
            print_list(title, json);
        else
            print_scalar(title, json);
        putchar('\n');
    }
    json_decref(json);
}

static void print_stage(const struct halo_part_stage_info *s, size_t number)
{
    char layers[48] = "no layers", weights[32], kv[32], room[32], memory[32];
    if (s->has_first_layer && s->has_last_layer)
        snprintf(layers, sizeof(layers), "layers %lld to %lld", (long long)s->first_layer, (long long)s->last_layer);
    halo_client_print_line(stdout, "stage %-4zu %s, %s of weights, %s of KV cache on %.*s%s%.*s, %s of %s free", number,
                           layers, halo_ctl_bytes(s->weights_bytes, weights), halo_ctl_bytes(s->kv_bytes, kv),
                           (int)s->device.len, s->device.at, s->has_worker ? " of " : "",
                           s->has_worker ? (int)s->worker.len : 0, s->has_worker ? s->worker.at : "",
                           halo_ctl_bytes(s->free_bytes, room), halo_ctl_bytes(s->memory_bytes, memory));
}

void halo_ctl_print_stages(const struct halo_part_stage_info_list *stages)
{
    for (size_t i = 0; i < stages->n; i++)
        print_stage(&stages->at[i], i + 1);
}
