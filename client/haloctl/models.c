/* models.c: `haloctl load`, `unload`, `models`, `reset`. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "ctl_priv.h"

#define PARAM(name, kind, field, value, help)                                                                          \
    {                                                                                                                  \
        name, 0, HALO_CTL_##kind, offsetof(struct halo_part_load_params, field),                                       \
            offsetof(struct halo_part_load_params, has_##field), value, help                                           \
    }
#define PARAM_DEF(name, kind, field, value, help)                                                                      \
    {                                                                                                                  \
        name, 0, HALO_CTL_##kind, offsetof(struct halo_part_load_params, field), HALO_CTL_NO_HAS, value, help          \
    }

static const struct halo_ctl_option load_options[] = {
    PARAM("context", INTEGER, context, "N", "tokens per sequence (default: the model's)"),
    PARAM("kv-tokens", INTEGER, kv_tokens, "N", "tokens in the whole KV pool (default: 4 contexts, as memory allows)"),
    PARAM("kv", KV, kv, "TYPE", "type of the KV cache: f32 f16 q8 (default f16)"),
    PARAM_DEF("device", DEVICE, device, "NAME", "auto cpu hip (default auto)"),
    PARAM("pin", TRUE, pin, NULL, "never evict it to make room"),
    PARAM("keep-alive", INTEGER, keep_alive_s, "SECONDS", "unload after this long without a request"),
    {NULL, 0, HALO_CTL_TRUE, 0, 0, NULL, NULL},
};

static const struct halo_ctl_option no_options[] = {{NULL, 0, HALO_CTL_TRUE, 0, 0, NULL, NULL}};

static void on_load_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json)
        return;
    if (ev->type != HALO_EV_LOADED) {
        halo_ctl_print_event(ctl, ev);
        return;
    }
    const struct halo_ev_loaded *l = &ev->loaded;
    char weights[32], kv[32];
    halo_ctl_progress_clear(ctl);
    printf("loaded %.*s (%.*s) on %.*s: %s of weights, %s of KV cache, context %lld, in %.0f ms (%.2f GB/s)\n",
           (int)l->model.len, l->model.at, (int)l->arch.len, l->arch.at, (int)l->device.len, l->device.at,
           halo_ctl_bytes(l->weights_bytes, weights), halo_ctl_bytes(l->kv_bytes, kv), (long long)l->context,
           l->load_ms, l->gb_s);
    for (size_t i = 0; i < l->changes.n; i++)
        fprintf(stderr, "haloctl: changed: %.*s\n", (int)l->changes.at[i].len, l->changes.at[i].at);
    fflush(stdout);
}

/* The one argument of load, unload and reset. */
static const char *only_argument(int argc, char **argv, int at, const char *verb)
{
    if (argc - at == 1)
        return argv[at];
    fprintf(stderr, "haloctl %s: takes exactly one model, got %d\n", verb, argc - at);
    return NULL;
}

int halo_ctl_load(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_LOAD);
    int at = halo_ctl_parse(argc, argv, load_options, &msg.load.params, "load [OPTION...] MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    const char *model = only_argument(argc, argv, at, "load");
    if (!model)
        return HALO_CTL_USAGE;
    msg.load.model = halo_str_of(model);
    return halo_ctl_run(ctl, &msg, on_load_event, NULL);
}

static void on_unloaded(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    char freed[32];
    if (!ctl->json && ev->type == HALO_EV_UNLOADED) {
        printf("unloaded %.*s, %s freed\n", (int)ev->unloaded.model.len, ev->unloaded.model.at,
               halo_ctl_bytes(ev->unloaded.freed_bytes, freed));
        if (ev->unloaded.has_prefixes_not_saved)
            fprintf(stderr, "haloctl: its cached prefixes are not saved: %.*s\n",
                    (int)ev->unloaded.prefixes_not_saved.len, ev->unloaded.prefixes_not_saved.at);
    } else if (!ctl->json && ev->type == HALO_EV_RESET)
        printf("%lld pages freed\n", (long long)ev->reset.freed_pages);
}

int halo_ctl_unload(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_UNLOAD);
    int at = halo_ctl_parse(argc, argv, no_options, NULL, "unload MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    const char *model = only_argument(argc, argv, at, "unload");
    if (!model)
        return HALO_CTL_USAGE;
    msg.unload.model = halo_str_of(model);
    return halo_ctl_run(ctl, &msg, on_unloaded, NULL);
}

int halo_ctl_reset(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_RESET);
    int at = halo_ctl_parse(argc, argv, no_options, NULL, "reset MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    const char *model = only_argument(argc, argv, at, "reset");
    if (!model)
        return HALO_CTL_USAGE;
    msg.reset.model = halo_str_of(model);
    return halo_ctl_run(ctl, &msg, on_unloaded, NULL);
}

static void on_models(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json || ev->type != HALO_EV_MODELS)
        return;
    printf("%-32s %-10s %-8s %10s %9s %8s  %s\n", "NAME", "ARCH", "QUANT", "SIZE", "PARAMS", "CONTEXT", "");
    for (size_t i = 0; i < ev->models.models.n; i++) {
        const struct halo_part_model_info *m = &ev->models.models.at[i];
        char size[32], params[32] = "-", context[32] = "-";
        if (m->has_params)
            snprintf(params, sizeof params, m->params >= 1000000000 ? "%.1f B" : "%.1f M",
                     (double)m->params / (m->params >= 1000000000 ? 1e9 : 1e6));
        if (m->has_context)
            snprintf(context, sizeof context, "%lld", (long long)m->context);
        printf("%-32.*s %-10.*s %-8.*s %10s %9s %8s  %s%.*s\n", (int)m->name.len, m->name.at,
               (int)(m->has_arch ? m->arch.len : 1), m->has_arch ? m->arch.at : "-",
               (int)(m->has_quant ? m->quant.len : 1), m->has_quant ? m->quant.at : "-", halo_ctl_bytes(m->bytes, size),
               params, context, m->loaded ? "loaded" : "", (int)(m->has_fault ? m->fault.len : 0),
               m->has_fault ? m->fault.at : "");
    }
}

int halo_ctl_models(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_MODELS);
    int at = halo_ctl_parse(argc, argv, no_options, NULL, "models");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_models, NULL);
}
