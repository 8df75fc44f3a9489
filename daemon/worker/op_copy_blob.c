/* op_copy_blob.c: copies to the device by the hash of their bytes, from the store of earlier sessions or to it. Other
 * threads hash the bytes; the copies are made here, in the order of their requests. One thread.
 */
#include "session_priv.h"
#include "store_priv.h"

/* Makes a copy whose bytes were hashed. */
static int copy_blob(struct halo_session *s, const struct halo_session_call *c, uint64_t to, uint64_t bits,
                     struct halo_remote_bytes data)
{
    struct halo_session_copy copy = {.to = to, .size = data.n, .kind = HIP_COPY_TO_DEVICE, .data = data.at};
    int error = halo_session_copy_stream(s, bits, copy.kind, &copy.stream);
    return error ? error : halo_session_copy(s, c, &copy);
}

static int finish_from_blob(struct halo_session *s, const struct halo_session_call *c, const struct halo_blob_job *job)
{
    const struct halo_remote_memcpy_from_blob *q = &c->q->memcpy_from_blob;
    if (job->r < 0)
        return 0; /* it was not kept */
    c->a->memcpy_from_blob.was_kept = 1;
    return copy_blob(s, c, q->to, q->stream, (struct halo_remote_bytes){job->bytes, (uint32_t)q->size});
}

static int finish_to_blob(struct halo_session *s, const struct halo_session_call *c, const struct halo_blob_job *job)
{
    const struct halo_remote_memcpy_to_blob *q = &c->q->memcpy_to_blob;
    int error = job->r < 0 ? HALO_WORKER_INVALID_VALUE : copy_blob(s, c, q->to, q->stream, q->data);
    if (error)
        return error;
    c->a->memcpy_to_blob.was_kept = halo_blob_store_has(s->blobs, q->sha256, q->data.n);
    if (!c->a->memcpy_to_blob.was_kept)
        (void)halo_blob_store_put(s->blobs, q->sha256, q->data.at, q->data.n);
    return 0;
}

/* ---- in their order ---- */

static int finish_first_blob(struct halo_session *s)
{
    const struct halo_blob_job *job = halo_blob_jobs_await(&s->blob_jobs);
    const struct halo_remote_header h = job->h;
    union halo_remote_reply a = {0};
    struct halo_session_call c = {.h = &h, .q = &job->q, .a = &a};
    int error = halo_session_choose_device(s, &c);
    if (error == 0)
        error = (job->h.op == HIP_OP_MEMCPY_TO_BLOB ? finish_to_blob : finish_from_blob)(s, &c, job);
    halo_blob_jobs_drop_first(&s->blob_jobs);
    if (s->fatal < 0)
        return s->fatal;
    return error == HALO_SESSION_LATER ? 0 : halo_session_answer(s, &h, &a, error);
}

int halo_session_finish_blobs(struct halo_session *s, bool all)
{
    int r = 0;
    while (r == 0 && s->blobs && s->blob_jobs.n > 0 && (all || halo_blob_jobs_is_first_done(&s->blob_jobs)))
        r = finish_first_blob(s);
    return r;
}

static int add_job(struct halo_session *s, const struct halo_session_call *c)
{
    int r = 0;
    if (c->h->op == HIP_OP_MEMCPY_FROM_BLOB && halo_blob_jobs_will_store(&s->blob_jobs, c->q->memcpy_from_blob.sha256))
        r = halo_session_finish_blobs(s, true);
    else if (halo_blob_jobs_is_full(&s->blob_jobs))
        r = finish_first_blob(s);
    if (r < 0) {
        s->fatal = r;
        return HALO_WORKER_UNKNOWN;
    }
    return halo_blob_jobs_add(&s->blob_jobs, c->h, c->q) < 0 ? HALO_WORKER_NO_MEMORY : HALO_SESSION_LATER;
}

int halo_session_memcpy_from_blob(struct halo_session *s, const struct halo_session_call *c)
{
    return s->blobs ? add_job(s, c) : HALO_WORKER_NOT_SUPPORTED;
}

int halo_session_memcpy_to_blob(struct halo_session *s, const struct halo_session_call *c)
{
    return s->blobs ? add_job(s, c) : HALO_WORKER_NOT_SUPPORTED;
}
