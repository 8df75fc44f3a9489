/* models.c: `haloctl load`, `unload`, `models`, `reset`. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <client/say.h>
#include <client/show.h>

#include "ctl_priv.h"

#define PARAM(option, type, field, flag, value, text)                                                                  \
    {                                                                                                                  \
        .name = option, .kind = HALO_CTL_##type, .offset = offsetof(struct halo_part_load_params, field), .has = flag, \
        .value_name = value, .help = text                                                                              \
    }
#define HAS(field) offsetof(struct halo_part_load_params, has_##field)

static const struct halo_ctl_option load_options[] = {
    PARAM("context", INTEGER, context, HAS(context), "N", "tokens per sequence (default: the model's)"),
    PARAM("kv-tokens", INTEGER, kv_tokens, HAS(kv_tokens), "N",
          "tokens in the whole KV pool (default: 4 contexts, as memory allows)"),
    PARAM("kv", KV, kv, HAS(kv), "TYPE", "type of the KV cache: f32, f16, q8 or q4 (default f16)"),
    PARAM("device", DEVICE, device, HALO_CTL_NO_HAS, "NAME", "auto, cpu or hip (default auto)"),
    PARAM("pin", TRUE, pin, HAS(pin), NULL, "never unload it to make room"),
    PARAM("keep-alive", SECONDS, keep_alive_s, HAS(keep_alive_s), "TIME",
          "unload after this long without a request: 300, 5m, 1h; -1: never"),
    PARAM("tiers", TIERS, tiers, HALO_CTL_NO_HAS, "WHERE",
          "memory: all weights in memory; stream: experts or layers from disk; auto (default): what does not fit"),
    PARAM("budget", BYTES, budget_bytes, HAS(budget_bytes), "SIZE",
          "memory that the model may take, like 8G (default: what there is room for)"),
    {.name = NULL},
};

static void on_load_event(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json || ev->type != HALO_EV_LOADED)
        return;
    const struct halo_ev_loaded *l = &ev->loaded;
    char weights[HALO_SIZE_TEXT], kv[HALO_SIZE_TEXT], took[64] = ", already in memory";
    if (l->load_ms > 0)
        snprintf(took, sizeof(took), ", in %.0f ms (%.2f GB/s)", l->load_ms, l->gb_s);
    halo_client_print_line(stdout, "loaded %.*s (%.*s) on %.*s: %s of weights, %s of KV cache, context %lld%s",
                           (int)l->model.len, l->model.at, (int)l->arch.len, l->arch.at, (int)l->device.len,
                           l->device.at, halo_ctl_bytes(l->weights_bytes, weights), halo_ctl_bytes(l->kv_bytes, kv),
                           (long long)l->context, took);
    halo_ctl_print_stages(&l->stages);
    for (size_t i = 0; i < l->changes.n && !ctl->quiet; i++)
        halo_client_say("changed: %.*s", (int)l->changes.at[i].len, l->changes.at[i].at);
}

int halo_ctl_load(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_LOAD);
    int at = halo_ctl_parse(ctl, argc, argv, load_options, &msg.load.params, "load [OPTION...] MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &msg.load.model))
        return HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_load_event, NULL);
}

static void on_unloaded(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    char freed[32];
    if (ctl->json || ev->type != HALO_EV_UNLOADED)
        return;
    halo_client_print_line(stdout, "unloaded %.*s, %s freed", (int)ev->unloaded.model.len, ev->unloaded.model.at,
                           halo_ctl_bytes(ev->unloaded.freed_bytes, freed));
    if (ev->unloaded.has_prefixes_not_saved)
        halo_client_say("its cached prefixes are not saved: %.*s", (int)ev->unloaded.prefixes_not_saved.len,
                        ev->unloaded.prefixes_not_saved.at);
}

int halo_ctl_unload(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_UNLOAD);
    int at = halo_ctl_parse(ctl, argc, argv, NULL, NULL, "unload MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &msg.unload.model))
        return HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_unloaded, NULL);
}

static void on_reset(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (!ctl->json && ev->type == HALO_EV_RESET)
        printf("%lld page%s freed\n", (long long)ev->reset.freed_pages, ev->reset.freed_pages == 1 ? "" : "s");
}

int halo_ctl_reset(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_RESET);
    int at = halo_ctl_parse(ctl, argc, argv, NULL, NULL, "reset MODEL");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (!halo_ctl_only_model(ctl, argc, argv, at, &msg.reset.model))
        return HALO_CTL_USAGE;
    return halo_ctl_run(ctl, &msg, on_reset, NULL);
}

/* Columns of the table of models: the longest names of architectures and mixtures in use fit. */
enum { NAME_WIDTH = 32, ARCH_WIDTH = 14, QUANT_WIDTH = 10 };

static void print_cell(bool has, struct halo_str text, size_t width)
{
    halo_client_show_cell(stdout, has ? text.at : "-", has ? text.len : 1, width);
    putchar(' ');
}

static void print_model(const struct halo_part_model_info *m)
{
    char size[32], params[32] = "-", context[32] = "-";
    if (m->has_params)
        snprintf(params, sizeof(params), m->params >= 1000000000 ? "%.1f B" : "%.1f M",
                 (double)m->params / (m->params >= 1000000000 ? 1e9 : 1e6));
    if (m->has_context)
        snprintf(context, sizeof(context), "%lld", (long long)m->context);
    print_cell(true, m->name, NAME_WIDTH);
    print_cell(m->has_arch, m->arch, ARCH_WIDTH);
    print_cell(m->has_quant, m->quant, QUANT_WIDTH);
    printf("%10s %9s %8s%s%s", halo_ctl_bytes(m->bytes, size), params, context, m->loaded ? "  loaded" : "",
           m->replaced ? "; its file was replaced, changed or removed since" : "");
    if (m->has_fault) {
        fputs("  ", stdout);
        halo_client_show_line(stdout, m->fault.at, m->fault.len);
    }
    putchar('\n');
}

static void on_models(struct halo_ctl *ctl, const struct halo_ev *ev, void *ud)
{
    (void)ud;
    if (ctl->json || ev->type != HALO_EV_MODELS)
        return;
    printf("%-*s %-*s %-*s %10s %9s %8s\n", NAME_WIDTH, "NAME", ARCH_WIDTH, "ARCH", QUANT_WIDTH, "QUANT", "SIZE",
           "PARAMS", "CONTEXT");
    for (size_t i = 0; i < ev->models.models.n; i++)
        print_model(&ev->models.models.at[i]);
    for (size_t i = 0; i < ev->models.folders.n; i++) {
        const struct halo_part_folder_info *folder = &ev->models.folders.at[i];
        halo_client_say("the folder of models %.*s cannot be read: %.*s", (int)folder->path.len, folder->path.at,
                        (int)folder->fault.len, folder->fault.at);
    }
}

int halo_ctl_models(struct halo_ctl *ctl, int argc, char **argv)
{
    struct halo_msg msg;
    halo_msg_init(&msg, HALO_MSG_MODELS);
    int at = halo_ctl_parse(ctl, argc, argv, NULL, NULL, "models");
    if (at < 0)
        return at == -2 ? HALO_CTL_OK : HALO_CTL_USAGE;
    if (at < argc) {
        halo_client_say("models: takes no argument, got '%s'", argv[at]);
        return HALO_CTL_USAGE;
    }
    return halo_ctl_run(ctl, &msg, on_models, NULL);
}
