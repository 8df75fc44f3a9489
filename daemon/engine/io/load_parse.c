/* load_parse.c: a model file's directory becomes the plan of an instance. The io thread. Fails with NOT_FOUND,
 * LOAD_FAILED, UNSUPPORTED, OUT_OF_MEMORY in load->fault. */
#include <string.h>
#include <time.h>

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

/* Whether a plain name means this file and no other. */
static bool is_own_stem(struct halo_io_thread *io, const char *path, const struct halo_file_id *id)
{
    char stem[HALO_MODEL_STEM_BYTES];
    struct halo_io_file file;
    struct halo_fault fault = {0};
    halo_model_stem(path, strlen(path), stem);
    int r = halo_io_find(io, stem, &file, &fault);
    return r == 0 ? halo_file_id_is_same(&file.id, id) : fault.code == HALO_FAULT_NOT_FOUND;
}

enum halo_load_stage halo_io_resolve(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_io_thread *io = threads->io;
    struct halo_instance *instance = load->instance;
    struct halo_io_file file;
    if (halo_io_find(io, instance->name, &file, &load->fault) < 0)
        return HALO_LOAD_DONE;
    load->stem_is_own = is_own_stem(io, file.path, &file.id);
    load->file_path = strdup(file.path);
    load->file_id = file.id;
    if (!load->file_path) {
        halo_fault_set(&load->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a path");
        return HALO_LOAD_DONE;
    }
    return HALO_LOAD_MATCH;
}

/* What the stored profile says of the drive that holds the file; with which device it was measured does not matter. Who
 * has measured nothing, or something else, reads with the defaults. */
static void find_read_sizes(struct halo_io_thread *io, struct halo_load *load)
{
    struct halo_profile here = {0};
    struct halo_profile_record record;
    const struct halo_profile *stored = &record.profile;
    const struct halo_instance *instance = load->instance;
    if (halo_io_stored_profile(io, instance->model->gguf, instance->path, &here, &record, &load->profile_fault) < 0) {
        halo_profile_advise(&load->profile_fault, instance->name);
        return;
    }
    memcpy(here.device, stored->device, sizeof(here.device));
    memcpy(here.kernels, stored->kernels, sizeof(here.kernels));
    if (!halo_profile_holds(stored, &here, instance->name, (int64_t)time(NULL), &load->profile_fault))
        return;
    load->read_block_bytes = stored->disk_block_bytes;
    load->read_depth = stored->disk_depth;
}

enum halo_load_stage halo_io_open(struct halo_load *load, const struct halo_load_threads *threads)
{
    struct halo_instance *instance = load->instance;
    halo_phase_set(&threads->io->phase, HALO_ACTIVITY_FILE, "reading the directory of %s", instance->path);
    halo_load_parse(load);
    if (load->fault.code != HALO_FAULT_NONE)
        return HALO_LOAD_DONE;
    const struct halo_file_id id = halo_gguf_id(instance->model->gguf);
    if (!halo_file_id_is_equal(&id, &instance->file_id)) {
        halo_fault_set(&load->fault, HALO_FAULT_LOAD_FAILED,
                       "%.150s was replaced or changed while the load waited; load it again", instance->path);
        return HALO_LOAD_DONE;
    }
    if (instance->model->hparams.n_expert > 0)
        find_read_sizes(threads->io, load);
    return HALO_LOAD_ADMIT;
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
