/* golden_gate.c: runs a model over its recordings and judges the figures. One thread. */
#include "golden_gate.h"

#include <math.h>
#include <string.h>

#define PREFILL_ROWS 64

/* A change of a logit that is rounding and no error of ours: what the peer shows, plus what an F32 evaluation in
 * another order does. */
static double rounding(const struct halo_golden_peer *peer, int prompt)
{
    return peer->prompt_max_abs_logit[prompt] + 2e-3;
}

/* The recordings belong to one file exactly. */
static int identity_check(const char *path, const struct halo_golden_file *file, struct halo_fault *fault)
{
    char sha256[HALO_SHA256_HEX];

    if (halo_sha256_file_hex(path, sha256) < 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s cannot be read", path);
    if (strcmp(sha256, file->model_sha256) != 0)
        return halo_fault_set(fault, HALO_FAULT_LOAD_FAILED, "%s is not the file that was recorded", path);
    return 0;
}

static int prompts_run(struct halo_golden_verdict *verdict, struct halo_golden_host *host,
                       const struct halo_golden_data *data, const struct halo_golden_model *model, const char *path,
                       unsigned prompts, struct halo_fault *fault)
{
    double peer_sum = 0;
    uint32_t n = 0;
    int r = 0;

    for (int i = 0; i < HALO_GOLDEN_PROMPTS && r == 0; i++) {
        struct halo_golden_file file;
        if (!(prompts & 1u << i))
            continue;
        if ((r = halo_golden_file_read(&file, data->recordings, model->stem, halo_golden_prompts[i], fault)) < 0)
            return r;
        if (n == 0)
            r = identity_check(path, &file, fault);
        if (r == 0)
            r = halo_golden_score_add(&verdict->score, host, &file, PREFILL_ROWS, rounding(&verdict->peer, i), fault);
        peer_sum += verdict->peer.prompt_mean[i] * file.n_steps;
        n += file.n_steps;
        halo_golden_file_finish(&file);
    }
    if (r < 0)
        return r;
    if (n == 0)
        return halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "no prompt to run");
    halo_golden_score_close(&verdict->score);
    if (model->experts) {
        verdict->figure = verdict->score.median;
        verdict->peer_figure = verdict->peer.median;
    } else {
        verdict->figure = verdict->score.mean;
        verdict->peer_figure = prompts == (1u << HALO_GOLDEN_PROMPTS) - 1 ? verdict->peer.mean : peer_sum / n;
    }
    return 0;
}

static double bound(const struct halo_golden_verdict *verdict, const struct halo_golden_model *model,
                    enum halo_kv_type kv)
{
    switch (kv) {
    case HALO_KV_F32: return verdict->peer_figure * (model->experts ? 1.5 : 1.1) + 1e-6;
    case HALO_KV_F16: return verdict->peer_figure * 2 + 1e-5;
    case HALO_KV_Q8: return verdict->peer_figure * 4 + 1e-3;
    default: return verdict->peer_figure * 4 + 1e-2;
    }
}

/* How many times the cost of an f16 cache one of q8 may have: README.md derives about 660 and lists what was measured.
 * Where keys of the cache choose which blocks are read, other blocks are chosen too. */
static double q8_per_f16(const struct halo_golden_model *model)
{
    return strcmp(model->stem, "tiny-deepseek4") == 0 ? 4500 : 1800;
}

/* One setting of the device: the figures, without a verdict. */
static int figures_of(struct halo_golden_verdict *ret, const struct halo_golden_data *data,
                      const struct halo_golden_model *model, const char *path, unsigned prompts,
                      const struct halo_golden_settings *settings, struct halo_fault *fault)
{
    struct halo_golden_host host;
    int r;

    memset(ret, 0, sizeof(*ret));
    r = halo_golden_peer_read(&ret->peer, data->peer, model->stem, settings->kv == HALO_KV_F32 ? "f32_kv" : "default",
                              fault);
    if (r < 0)
        return r;
    if ((r = halo_golden_host_open(&host, path, settings, fault)) < 0)
        return r;
    r = prompts_run(ret, &host, data, model, path, prompts, fault);
    halo_golden_host_close(&host);
    if (r < 0)
        halo_golden_gate_finish(ret);
    return r;
}

int halo_golden_gate_run(struct halo_golden_verdict *ret, const struct halo_golden_data *data,
                         const struct halo_golden_model *model, unsigned prompts,
                         const struct halo_golden_settings *settings, struct halo_fault *fault)
{
    struct halo_golden_verdict f16;
    struct halo_golden_settings finer = *settings;
    char path[HALO_GOLDEN_PATH];
    int r;

    memset(ret, 0, sizeof(*ret));
    if ((r = halo_golden_data_path(data, model, path, fault)) < 0)
        return r;
    if ((r = figures_of(ret, data, model, path, prompts, settings, fault)) < 0)
        return r;
    ret->bound = bound(ret, model, settings->kv);
    if (settings->kv == HALO_KV_Q8 &&
        ret->figure > ret->bound) { /* a model that any rounding of the cache costs more */
        finer.kv = HALO_KV_F16;
        if ((r = figures_of(&f16, data, model, path, prompts, &finer, fault)) < 0) {
            halo_golden_gate_finish(ret);
            return r;
        }
        ret->bound = f16.figure * q8_per_f16(model);
        halo_golden_gate_finish(&f16);
    }
    /* Written so that NaN fails. */
    ret->passed = ret->figure <= ret->bound && ret->score.n_broken == 0 &&
                  (settings->kv != HALO_KV_F32 || ret->score.n_greedy_wrong == 0);
    return 0;
}

void halo_golden_gate_finish(struct halo_golden_verdict *verdict)
{
    halo_golden_score_finish(&verdict->score);
}
