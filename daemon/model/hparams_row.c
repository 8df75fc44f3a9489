/* hparams_row.c: reads one hyper-parameter by its row of a family's table: one number, or one for each layer.
 *
 * Pure; any thread. Fails with: LOAD_FAILED (absent, wrong type, out of bounds), UNSUPPORTED (varies over the layers in
 * a way that the family does not compute).
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "hparams_priv.h"

void halo_hparams_key(char key[HALO_HPARAM_KEY_BYTES], const char *arch, const char *suffix)
{
    int n = snprintf(key, HALO_HPARAM_KEY_BYTES, "%s.%s", arch, suffix);
    assert(n > 0 && n < HALO_HPARAM_KEY_BYTES);
}

const char *halo_hparams_text(double value, char buf[static HALO_HPARAM_TEXT_BYTES])
{
    bool is_whole = value == floor(value) && fabs(value) < 1e15;
    snprintf(buf, HALO_HPARAM_TEXT_BYTES, is_whole ? "%.0f" : "%.9g", value);
    return buf;
}

/* The values of a row as the file or the default gives them, before they are checked. */
struct values {
    double one;     /* the common one; of layers that differ the first that has any */
    uint32_t first; /* the layer that has it */
    bool is_array, is_default;
    double of[HALO_MODEL_MAX_LAYERS]; /* by layer, unless spread is ONE */
};

/* An array's entry as a number of the row's kind. */
static int entry_read(struct halo_gguf_array *array, const struct halo_hparam *row, const char *key, double *ret,
                      struct halo_fault *fault)
{
    int64_t whole = 0;
    if (row->kind == HALO_HPARAM_REAL)
        return halo_gguf_next_f64(array, ret)
                   ? 0
                   : halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold numbers", key);
    bool ok = halo_gguf_next_i64(array, &whole);
    if (row->kind == HALO_HPARAM_FLAG && (!ok || whole < 0 || whole > 1))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold booleans", key);
    if (!ok)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s must hold integers", key);
    *ret = (double)whole; /* exact below 2^53, and every ceiling is far below that */
    return 0;
}

/* An array of another length than the layers is a contradiction, not a variation. */
static int array_read(struct halo_gguf_array *array, const struct halo_hparam *row, const char *key, uint32_t n_layers,
                      struct values *ret, struct halo_fault *fault)
{
    int r;
    if (array->n != n_layers)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s has %" PRIu64 " entries for %" PRIu32 " layers", key,
                              array->n, n_layers);
    ret->is_array = true;
    for (uint32_t i = 0; i < n_layers; i++)
        if ((r = entry_read(array, row, key, &ret->of[i], fault)) < 0)
            return r;
    while (row->spread == HALO_HPARAM_SOME && ret->first + 1 < n_layers && ret->of[ret->first] == 0)
        ret->first++;
    ret->one = ret->of[ret->first];
    return 0;
}

/* 0 with one number for all layers, HALO_GGUF_ABSENT, or negative. */
static int one_read(const struct halo_gguf *gguf, const struct halo_hparam *row, const char *key, double *ret,
                    struct halo_fault *fault)
{
    uint64_t count = 0;
    bool flag = false;
    int r;
    if (row->kind == HALO_HPARAM_REAL)
        return halo_gguf_get_f64(gguf, key, ret, fault);
    if (row->kind == HALO_HPARAM_FLAG) {
        r = halo_gguf_get_bool(gguf, key, &flag, fault);
        *ret = flag;
        return r;
    }
    r = halo_gguf_get_u64(gguf, key, &count, fault);
    *ret = (double)count;
    return r;
}

/* The gate of a number in the file. 3 is softmax over the chosen experts, which renormalised softmax is. */
static int gate_read(const struct halo_hparam *row, const char *key, double *value, struct halo_hparams *hparams,
                     struct halo_fault *fault)
{
    if (*value == 3)
        hparams->expert_normalise = 1;
    if (*value == 0)
        *value = row->value;
    else if (*value == 1 || *value == 3)
        *value = HALO_MOE_SOFTMAX;
    else if (*value == 2)
        *value = HALO_MOE_SIGMOID;
    else if (*value == 4)
        *value = HALO_MOE_SQRT_SOFTPLUS;
    else
        return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED, "%s is %.9g, which is no known gating function", key,
                              *value);
    return 0;
}

/* How an array varies, against how it may. */
static int spread_check(const struct halo_hparam *row, const char *key, uint32_t n_layers, const struct values *values,
                        struct halo_fault *fault)
{
    char a[HALO_HPARAM_TEXT_BYTES], b[HALO_HPARAM_TEXT_BYTES], c[HALO_HPARAM_TEXT_BYTES];
    double other = values->one;
    for (uint32_t i = 0; i < n_layers && row->spread != HALO_HPARAM_ANY; i++) {
        double is = values->of[i];
        if (is == values->one || is == other || (row->spread == HALO_HPARAM_SOME && is == 0))
            continue;
        if (row->spread != HALO_HPARAM_TWO)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s varies by layer (layer %" PRIu32 ": %s, layer %" PRIu32
                                  ": %s), which is not supported",
                                  key, values->first, halo_hparams_text(values->one, a), i, halo_hparams_text(is, b));
        if (other != values->one)
            return halo_fault_set(fault, HALO_FAULT_UNSUPPORTED,
                                  "%s takes more than two values over the layers (%s, %s, %s), which is not supported",
                                  key, halo_hparams_text(values->one, a), halo_hparams_text(other, b),
                                  halo_hparams_text(is, c));
        other = is;
    }
    return 0;
}

static bool is_within(const struct halo_hparam *row, double value)
{
    return value >= row->min && value <= row->max; /* false for NaN */
}

static int bounds_check(const struct halo_hparam *row, const char *key, uint32_t n_layers, const struct values *values,
                        struct halo_fault *fault)
{
    char is[HALO_HPARAM_TEXT_BYTES], min[HALO_HPARAM_TEXT_BYTES], max[HALO_HPARAM_TEXT_BYTES];
    bool each = values->is_array && (row->spread == HALO_HPARAM_TWO || row->spread == HALO_HPARAM_ANY);
    for (uint32_t i = 0; i < n_layers && each; i++)
        if (!is_within(row, values->of[i]))
            return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is %s in layer %" PRIu32 ", allowed are %s to %s",
                                  key, halo_hparams_text(values->of[i], is), i, halo_hparams_text(row->min, min),
                                  halo_hparams_text(row->max, max));
    if (!is_within(row, values->one))
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is %s%s, allowed are %s to %s", key,
                              halo_hparams_text(values->one, is), values->is_default ? " by default" : "",
                              halo_hparams_text(row->min, min), halo_hparams_text(row->max, max));
    return 0;
}

static void put(struct halo_hparams *hparams, const struct halo_hparam *row, size_t at, double value)
{
    if (row->kind == HALO_HPARAM_REAL)
        *(float *)(void *)((char *)hparams + at) = (float)value;
    else
        *(uint32_t *)(void *)((char *)hparams + at) = (uint32_t)value;
}

static void store(struct halo_hparams *hparams, const struct halo_hparam *row, const struct values *values)
{
    _Static_assert(sizeof(float) == sizeof(uint32_t), "arrays of both have the same step");
    if (row->field != HALO_HPARAM_NOWHERE)
        put(hparams, row, row->field, values->one);
    for (uint32_t i = 0; i < hparams->n_layers && row->by_layer != HALO_HPARAM_NOWHERE; i++)
        put(hparams, row, row->by_layer + i * sizeof(uint32_t), values->is_array ? values->of[i] : values->one);
}

int halo_hparams_row_read(struct halo_hparams *hparams, const struct halo_gguf *gguf, const char *arch,
                          const struct halo_hparam *row, struct halo_fault *fault)
{
    char key[HALO_HPARAM_KEY_BYTES];
    struct halo_gguf_array array;
    struct values values;
    int r = HALO_GGUF_ABSENT;

    values.one = 0;
    values.first = 0;
    values.is_array = false;
    halo_hparams_key(key, arch, row->suffix ? row->suffix : "");
    if (row->suffix && row->spread != HALO_HPARAM_ONE && halo_gguf_get_array(gguf, key, &array, NULL) == 0)
        r = array_read(&array, row, key, hparams->n_layers, &values, fault);
    else if (row->suffix)
        r = one_read(gguf, row, key, &values.one, fault);
    if (r < 0)
        return r;
    values.is_default = r == HALO_GGUF_ABSENT;
    if (!values.is_default && row->kind == HALO_HPARAM_GATE &&
        (r = gate_read(row, key, &values.one, hparams, fault)) < 0)
        return r;
    if (values.is_default && row->required)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is missing", key);
    if (values.is_default)
        values.one = row->derive ? row->derive(hparams) : row->value;
    if (values.is_array && (r = spread_check(row, key, hparams->n_layers, &values, fault)) < 0)
        return r;
    if ((r = bounds_check(row, key, hparams->n_layers, &values, fault)) < 0)
        return r;
    store(hparams, row, &values);
    return 0;
}
