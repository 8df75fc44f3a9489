/* save_write.c: a chunk of prefixes from memory to a file. The io thread. */
#include <engine/keep.h>

#include <string.h>

/* The path without the folder that it is in. */
static const char *below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void halo_save_write(struct halo_save *save, const char *state_dir)
{
    const char *fingerprint = halo_gguf_fingerprint(save->instance->model->gguf);
    uint8_t header[HALO_PREFIX_HEADER_BYTES];
    uint64_t at = 0;
    int r = 0;
    bool first = save->n_done == save->n_chunk;
    if (save->fault.code == HALO_FAULT_NONE && first)
        r = halo_prefix_writer_open(&save->writer, state_dir, fingerprint);
    for (uint32_t i = 0; i < save->n_chunk; i++) /* here, not where other models wait for their next step */
        at += halo_prefix_record_seal(save->chunk + at, &save->key);
    if (r == 0 && save->fault.code == HALO_FAULT_NONE)
        r = halo_prefix_writer_append(&save->writer, save->chunk, at);
    if (r == 0 && save->fault.code == HALO_FAULT_NONE && save->over) {
        halo_prefix_header_seal(header, &save->key, save->save_id, save->n_done, save->file_bytes);
        r = halo_prefix_writer_finish(&save->writer, header);
        halo_prefix_disk_trim(state_dir, save->all_bytes, save->coming);
    }
    if (r < 0)
        halo_fault_errno(&save->fault, HALO_FAULT_INTERNAL, r, "%.160s in the state folder cannot be written",
                         below(save->writer.part, state_dir)); /* clients read it: the folder is the daemon's */
    if (save->fault.code != HALO_FAULT_NONE && save->writer.path[0])
        halo_prefix_writer_abort(&save->writer);
}
