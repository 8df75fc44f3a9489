/* layers.c: runs cut plans on two devices, one after the other, and compares their logits. One thread. */
#include "layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rows {
    float *at; /* [n][n_vocab] */
    uint32_t n, n_vocab, n_layers;
};

static void row_keep(void *ud, uint32_t pos, const float *logits)
{
    struct rows *rows = ud;
    memcpy(rows->at + (size_t)pos * rows->n_vocab, logits, rows->n_vocab * sizeof(*logits));
    rows->n++;
}

/* The logits of all ids on a model of so many layers. */
static int rows_run(struct rows *ret, const char *path, const struct halo_golden_settings *settings, uint32_t n_layers,
                    const int32_t *tokens, uint32_t n_tokens, struct halo_fault *fault)
{
    struct halo_golden_settings cut = *settings;
    struct halo_golden_host host;
    int r;

    *ret = (struct rows){0};
    cut.n_layers = n_layers;
    if ((r = halo_golden_host_open(&host, path, &cut, fault)) < 0)
        return r;
    ret->n_vocab = host.plan.n_vocab;
    ret->n_layers = host.model->hparams.n_layers;
    ret->at = malloc((size_t)n_tokens * ret->n_vocab * sizeof(*ret->at));
    r = ret->at ? halo_golden_host_feed(&host, tokens, 0, n_tokens, HALO_GOLDEN_ROWS, 0, row_keep, ret, fault)
                : halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the logits of %u rows", n_tokens);
    halo_golden_host_close(&host);
    if (r < 0)
        free(ret->at);
    return r;
}

/* NaN when a number of `a` is not finite. */
static double cosine(const float *a, const float *b, uint32_t n)
{
    double ab = 0, aa = 0, bb = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(a[i]))
            return NAN;
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

static struct halo_layer rows_compare(const struct rows *device, const struct rows *oracle)
{
    struct halo_layer layer = {.n = device->n, .mean = 0, .worst = NAN};
    uint32_t n = 0;

    for (uint32_t pos = 0; pos < device->n; pos++) {
        size_t at = (size_t)pos * device->n_vocab;
        double c = cosine(device->at + at, oracle->at + at, device->n_vocab);
        if (isnan(c)) {
            layer.n_broken++;
            continue;
        }
        layer.mean += c;
        n++;
        if (!(layer.worst <= c)) {
            layer.worst = c;
            layer.worst_pos = pos;
        }
    }
    layer.mean = n > 0 ? layer.mean / n : NAN;
    return layer;
}

static int layer_run(struct halo_layers *layers, uint32_t n_layers, const char *path,
                     const struct halo_golden_settings *settings, const struct halo_golden_settings *oracle,
                     const int32_t *tokens, uint32_t n_tokens, struct halo_fault *fault)
{
    struct rows ours, theirs;
    int r = rows_run(&theirs, path, oracle, n_layers, tokens, n_tokens, fault);

    if (r < 0)
        return r;
    if ((r = rows_run(&ours, path, settings, n_layers, tokens, n_tokens, fault)) == 0) {
        struct halo_layer *more = realloc(layers->at, n_layers * sizeof(*more));
        if (more) {
            layers->at = more;
            layers->at[layers->n++] = rows_compare(&ours, &theirs);
            r = ours.n_layers > n_layers; /* there are more */
        } else {
            r = halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for %u layers", n_layers);
        }
        free(ours.at);
    }
    free(theirs.at);
    return r;
}

int halo_layers_compare(struct halo_layers *ret, const char *path, const struct halo_golden_settings *settings,
                        const struct halo_golden_settings *oracle, const int32_t *tokens, uint32_t n_tokens,
                        double least, struct halo_fault *fault)
{
    int r = 1;

    *ret = (struct halo_layers){0};
    for (uint32_t n_layers = 1; r > 0; n_layers++)
        r = layer_run(ret, n_layers, path, settings, oracle, tokens, n_tokens, fault);
    if (r < 0) {
        halo_layers_finish(ret);
        return r;
    }
    /* Written so that NaN differs. */
    while (ret->first < ret->n && ret->at[ret->first].n_broken == 0 && ret->at[ret->first].worst >= least)
        ret->first++;
    return 0;
}

void halo_layers_finish(struct halo_layers *layers)
{
    free(layers->at);
    *layers = (struct halo_layers){0};
}
