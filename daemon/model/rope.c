/* rope.c: rotary frequencies: base, per-pair factors, linear scaling, YaRN.
 *
 * Plain: pair i turns by base^(-2i / n_rot) per position, divided by factor i where the file has factors.
 * Linear: all of it divided by the scaling factor s. YaRN (Peng et al. 2023, "YaRN: Efficient Context Window
 * Extension"): pairs that turn more than beta_fast times in the original context keep their frequency, those that turn
 * less than beta_slow times are divided by s, a ramp in between; cos and sin are multiplied by 1 + 0.1 ln(s), or by 1
 * when s is below 1, and by the file's yarn_attn_factor; with a log multiplier m they are divided by 1 + 0.1 m ln(s)
 * (Ministral 3: m = 1, which leaves them as they are). The ramp runs over pair indices, its ends rounded outwards.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>

#include "rope_priv.h"

static const double pi = 3.14159265358979323846;

/* The pair index, not rounded, whose wave turns n_turns times within the original context. */
static double turning_pair(const struct halo_hparams *h, double n_turns)
{
    return h->n_rot * log(h->rope_original_context / (n_turns * 2 * pi)) / (2 * log((double)h->rope_base));
}

/* 1 where YaRN keeps the frequency, 0 where it is divided by the factor. */
static double yarn_keep(const struct halo_hparams *h, uint32_t pair)
{
    double low = fmax(0, floor(turning_pair(h, h->rope_yarn_beta_fast)));
    double high = fmin(h->n_rot - 1, ceil(turning_pair(h, h->rope_yarn_beta_slow)));
    double ramp = (pair - low) / fmax(0.001, high - low);

    return (1 - fmin(1, fmax(0, ramp))) * h->rope_yarn_ext_factor;
}

/* What YaRN multiplies cos and sin with. */
static double yarn_scale(const struct halo_hparams *h)
{
    double grown = h->rope_yarn_ext_factor > 0 ? fmax(1, 1 + 0.1 * log(h->rope_factor)) : 1;
    if (h->rope_yarn_log_multiplier > 0)
        grown /= fmax(1, 1 + 0.1 * (double)h->rope_yarn_log_multiplier * log(h->rope_factor));
    return h->rope_yarn_attn_factor * grown;
}

void halo_rope_remark(const struct halo_hparams *h, const char *arch, struct halo_remarks *remarks)
{
    const struct {
        const char *suffix;
        float value, usual;
    } keys[] = {
        {"yarn_attn_factor", h->rope_yarn_attn_factor, 1},
        {"yarn_ext_factor", h->rope_yarn_ext_factor, 1},
        {"yarn_beta_fast", h->rope_yarn_beta_fast, HALO_YARN_BETA_FAST},
        {"yarn_beta_slow", h->rope_yarn_beta_slow, HALO_YARN_BETA_SLOW},
    };
    for (size_t i = 0; h->rope_scaling == HALO_ROPE_SCALING_YARN && i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].value != keys[i].usual)
            halo_remarks_add(remarks,
                             "%s.rope.scaling.%s: %.6g is applied; engines that ignore the key compute other logits",
                             arch, keys[i].suffix, (double)keys[i].value);
}

int halo_rope_make(struct halo_rope *ret, struct halo_arena *arena, const struct halo_hparams *h,
                   enum halo_rope_pairing pairing, const float *factors, uint32_t *ret_bad)
{
    uint32_t n = h->n_rot / 2;
    double *freqs = halo_arena_alloc(arena, n, sizeof(*freqs));
    double scale = h->rope_attn_factor;

    assert(h->n_rot >= 2 && h->n_rot % 2 == 0 && h->rope_factor > 0);
    if (!freqs)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        double factor = factors ? factors[i] : 1, keep = 1;
        if (!(factor > 0) || !isfinite(factor)) {
            *ret_bad = i;
            return -EINVAL;
        }
        freqs[i] = pow(h->rope_base, -2.0 * i / h->n_rot) / factor;
        if (h->rope_scaling == HALO_ROPE_SCALING_LINEAR)
            keep = 0;
        else if (h->rope_scaling == HALO_ROPE_SCALING_YARN)
            keep = yarn_keep(h, i);
        freqs[i] = freqs[i] * keep + freqs[i] / h->rope_factor * (1 - keep);
    }
    if (h->rope_scaling == HALO_ROPE_SCALING_YARN)
        scale *= yarn_scale(h);
    *ret = (struct halo_rope){.pairing = pairing, .n_rot = h->n_rot, .scale = (float)scale, .freqs = freqs};
    return 0;
}
