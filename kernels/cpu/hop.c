/* hop.c: what a stage takes from the one before, what it leaves, and the digests of both. Device thread. */
#include <kernels/digest.h>

#include "device_priv.h"

static uint64_t sum_of(const void *words, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, (const uint8_t *)words + i * sizeof(word), sizeof(word));
        sum += halo_digest_word(word, (uint32_t)i);
    }
    return sum;
}

/* Of the values as they lie in the device's memory, whose rows are apart. */
static uint64_t digest_of(const struct halo_device_model *model, const struct halo_hop *hop)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < hop->n; i++) {
        const struct halo_cpu_value *v = &model->scratch.values[hop->value[i]];
        uint64_t sum = 0;
        for (uint32_t row = 0; row < model->n_rows; row++)
            for (uint32_t k = 0; k < v->width; k++) {
                uint32_t word;
                memcpy(&word, &v->data[(size_t)row * v->stride + k], sizeof(word));
                sum += halo_digest_word(word, row * v->width + k);
            }
        digest = halo_digest_join(digest, sum);
    }
    return digest;
}

void halo_cpu_hop_take(struct halo_device_model *model)
{
    const struct halo_hop *hop = &model->plan->takes;
    const struct halo_batch *batch = model->batch;
    const float *from = batch->taken;
    for (uint32_t i = 0; i < hop->n; i++) {
        const struct halo_cpu_value *v = &model->scratch.values[hop->value[i]];
        for (uint32_t row = 0; row < model->n_rows; row++, from += v->width)
            memcpy(&v->data[(size_t)row * v->stride], from, v->width * sizeof(float));
    }
    if (!batch->digests)
        return;
    batch->digests->taken = digest_of(model, hop);
    uint64_t rows = sum_of(batch->token, model->n_rows);
    rows = halo_digest_join(rows, sum_of(batch->pos, model->n_rows));
    batch->digests->rows = halo_digest_join(rows, sum_of(batch->seq, model->n_rows));
}

void halo_cpu_hop_leave(struct halo_device_model *model)
{
    const struct halo_hop *hop = &model->plan->leaves;
    const struct halo_batch *batch = model->batch;
    float *to = batch->left;
    for (uint32_t i = 0; i < hop->n; i++) {
        const struct halo_cpu_value *v = &model->scratch.values[hop->value[i]];
        for (uint32_t row = 0; row < model->n_rows; row++, to += v->width)
            memcpy(to, &v->data[(size_t)row * v->stride], v->width * sizeof(float));
    }
    if (batch->digests)
        batch->digests->left = digest_of(model, hop);
}
