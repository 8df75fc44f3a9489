/* device_save.c: cached prefixes out of a page pool, a chunk at a time. Device thread. */
#include "device/device_priv.h"

static void make_key(struct halo_device_thread *t, struct halo_save *save)
{
    const struct halo_instance *instance = save->instance;
    uint64_t page_bytes[HALO_KV_GROUPS_MAX];
    halo_device_page_bytes(t, instance, page_bytes);
    halo_prefix_key_of(&instance->model->plan, halo_gguf_fingerprint(instance->model->gguf), save->stamp,
                       t->info.kv_layout, page_bytes, &save->key);
}

static void end_save(struct halo_device_thread *t, struct halo_save *save)
{
    halo_save_end(save);
    save->instance->saving = false;
    halo_note_post(t->port, &save->note, HALO_NOTE_SAVE_DONE);
}

void halo_device_save_pages(struct halo_device_thread *t, struct halo_save *save)
{
    halo_device_set_phase(t, "saving prefixes");
    if (save->over || save->fault.code != HALO_FAULT_NONE) {
        end_save(t, save);
        return;
    }
    if (!save->instance->saving) {
        save->instance->saving = true;
        make_key(t, save);
        if (halo_device_usable(t, &save->fault) && halo_save_begin(save) < 0)
            halo_fault_set(&save->fault, HALO_FAULT_OUT_OF_MEMORY, "no memory to save prefixes");
    }
    int r = save->fault.code == HALO_FAULT_NONE ? halo_save_fill(save, t->ops) : 0;
    if (r < 0)
        halo_device_on_failure(t, r);
    if (save->n_order == 0 || (save->over && save->n_done == 0))
        end_save(t, save); /* there is nothing to save, or no way to */
    else
        halo_note_post(t->io, &save->note, HALO_NOTE_SAVE_WRITE);
}
