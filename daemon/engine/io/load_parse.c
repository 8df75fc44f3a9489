/* load_parse.c: a model file's directory becomes the plan of an instance. The io thread. Fails with NOT_FOUND,
 * LOAD_FAILED, UNSUPPORTED, OUT_OF_MEMORY in load->fault. */
#include <string.h>

#include "io/io_priv.h"

static struct halo_span piece_of(const void *ud, int32_t id)
{
    return halo_tokenizer_piece(ud, id, false);
}

static bool is_end_of(const void *ud, int32_t id)
{
    return halo_tokenizer_is_end(ud, id);
}

void halo_load_parse(struct halo_load *load)
{
    struct halo_instance *instance = load->instance;
    struct halo_model_params params = {.context = load->wish.context,
                                       .kv_tokens = load->wish.kv_tokens,
                                       .kv = load->wish.kv,
                                       .max_rows = HALO_BATCH_ROWS,
                                       .max_outputs = HALO_BATCH_OUTPUTS};
    int r = halo_model_create(&instance->model, instance->path, &params, &load->fault);
    if (r == 0)
        r = halo_texts_create(&instance->texts, instance->model->gguf, instance->model->hparams.n_vocab, &load->fault);
    if (r < 0) {
        halo_model_destroy(instance->model);
        instance->model = NULL;
        if (load->fault.code == HALO_FAULT_NONE)
            halo_fault_errno(&load->fault, HALO_FAULT_LOAD_FAILED, r, "%s could not be loaded", instance->path);
        return;
    }
    halo_remarks_append(&load->changes, &instance->model->remarks);
    halo_remarks_append(&load->changes, halo_tokenizer_remarks(instance->texts.tokenizer));
    halo_remarks_append(&load->changes, halo_chat_remarks(instance->texts.chat));
    instance->pieces = (struct halo_pieces){instance->texts.tokenizer, piece_of, is_end_of,
                                            halo_tokenizer_max_piece_bytes(instance->texts.tokenizer)};
}

/* ---- stages ---- */

enum halo_load_stage halo_io_open(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_io_thread *io = threads->io;
    char path[HALO_MODEL_PATH_BYTES];
    if (halo_io_find(io, load->instance->path, path, &load->fault) == 0) {
        memcpy(load->instance->path, path, sizeof(path));
        halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", path);
        halo_load_parse(load);
    }
    return load->fault.code == HALO_FAULT_NONE ? HALO_LOAD_ADMIT : HALO_LOAD_DONE;
}

/* A file that cannot be used stays where it is, for whoever wants to know. */
enum halo_load_stage halo_io_take_prefixes(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_io_thread *io = threads->io;
    const struct halo_model *model = load->instance->model;
    const char *fingerprint = halo_gguf_fingerprint(model->gguf);
    struct halo_prefix_key key;
    char path[HALO_PREFIX_PATH_BYTES], stamp[HALO_GGUF_STAMP_BYTES];
    halo_phase_set(&io->phase, HALO_ACTIVITY_FILE, "reading saved prefixes of %s", load->instance->name);
    halo_gguf_stamp(model->gguf, stamp);
    halo_prefix_key_of(&model->plan, fingerprint, stamp, load->layout, load->page_bytes, &key);
    if (halo_prefix_disk_path(io->config.state_dir, fingerprint, path) == 0 &&
        halo_prefix_disk_take(path, &key, io->config.save_bytes, &load->image, &load->n_records, &load->prefix_fault) <
            0)
        halo_fault_prefix(&load->prefix_fault, "%.160s", path + strlen(io->config.state_dir) + 1); /* clients read it */
    return HALO_LOAD_RESTORE;
}
