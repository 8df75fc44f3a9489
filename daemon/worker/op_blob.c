/* op_blob.c: bytes that are larger than a frame, sent in pieces and checked against their SHA-256, or read from the
 * store of earlier sessions. One thread. */
#include <stdlib.h>
#include <string.h>

#include <hip_tls/tls.h>

#include "session_priv.h"
#include "store_priv.h"

struct halo_session_blob {
    uint8_t *bytes;
    uint64_t n, n_filled;
    uint8_t sha256[HALO_BLOB_HASH_BYTES];
    bool is_complete;
};

void halo_session_blob_drop(struct halo_session *s, struct halo_session_blob *blob)
{
    s->code_bytes -= blob->n;
    free(blob->bytes);
    free(blob);
}

const void *halo_session_blob_bytes(const struct halo_session_blob *blob, uint64_t *ret_n)
{
    *ret_n = blob->n;
    return blob->is_complete ? blob->bytes : NULL;
}

int halo_session_blob_open(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_blob_open *q = &c->q->blob_open;
    int error = halo_handles_check_new(&s->handles[HALO_REMOTE_BLOB], q->blob);
    if (error)
        return error;
    if (q->size > s->limits.code_bytes - s->code_bytes)
        return HALO_WORKER_NO_MEMORY;
    struct halo_session_blob *blob = calloc(1, sizeof(*blob));
    uint8_t *bytes = malloc(q->size);
    if (!blob || !bytes) {
        free(blob);
        free(bytes);
        return HALO_WORKER_NO_MEMORY;
    }
    *blob = (struct halo_session_blob){.bytes = bytes, .n = q->size};
    memcpy(blob->sha256, q->sha256, sizeof(blob->sha256));
    if (s->blobs && halo_blob_store_get(s->blobs, blob->sha256, bytes, blob->n) == 0) {
        blob->is_complete = true;
        c->a->blob_open.is_complete = 1;
    }
    s->code_bytes += blob->n;
    halo_handles_put(&s->handles[HALO_REMOTE_BLOB], q->blob, blob);
    return 0;
}

static bool has_hash(const struct halo_session_blob *blob)
{
    uint8_t is[HALO_BLOB_HASH_BYTES];
    return halo_remote_tls.sha256(blob->bytes, blob->n, is) && memcmp(is, blob->sha256, sizeof(is)) == 0;
}

int halo_session_blob_write(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_blob_write *q = &c->q->blob_write;
    struct halo_session_blob *blob = halo_handles_get(&s->handles[HALO_REMOTE_BLOB], q->blob);
    if (!blob)
        return HALO_WORKER_INVALID_HANDLE;
    if (blob->is_complete || q->offset != blob->n_filled || q->data.n > blob->n - blob->n_filled)
        return HALO_WORKER_INVALID_VALUE;
    memcpy(blob->bytes + blob->n_filled, q->data.at, q->data.n);
    blob->n_filled += q->data.n;
    if (blob->n_filled < blob->n)
        return 0;
    if (!has_hash(blob)) {
        blob->n_filled = 0;
        return HALO_WORKER_INVALID_VALUE;
    }
    blob->is_complete = true;
    if (s->blobs)
        (void)halo_blob_store_put(s->blobs, blob->sha256, blob->bytes, blob->n);
    return 0;
}

int halo_session_blob_close(struct halo_session *s, const struct halo_session_call *c)
{
    struct halo_session_blob *blob = halo_handles_take(&s->handles[HALO_REMOTE_BLOB], c->q->blob_close.blob);
    if (!blob)
        return HALO_WORKER_INVALID_HANDLE;
    halo_session_blob_drop(s, blob);
    return 0;
}
