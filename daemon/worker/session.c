/* session.c: the life of a session; takes requests apart and runs the operation. One thread. */
#include "session_priv.h"

#include <errno.h>
#include <stdlib.h>

static halo_session_op_fn *const operations[HALO_REMOTE_N_OPS] = {
#define X(ID, name) [HALO_REMOTE_AT_##ID] = halo_session_##name,
    HALO_SESSION_OPS(X)
#undef X
};

/* ---- lifecycle ---- */

static int init_handles(struct halo_session *s)
{
    const struct halo_session_limits *l = &s->limits;
    const uint32_t n[HALO_REMOTE_N_HANDLE_TYPES] = {
        [HALO_REMOTE_NULL] = 1,
        [HALO_REMOTE_STREAM] = l->n_streams,
        [HALO_REMOTE_EVENT] = l->n_events,
        [HALO_REMOTE_MODULE] = l->n_modules,
        [HALO_REMOTE_FUNCTION] = l->n_functions,
        [HALO_REMOTE_GRAPH] = l->n_graphs,
        [HALO_REMOTE_GRAPH_EXEC] = l->n_graphs,
        [HALO_REMOTE_BLOB] = 64,
    };
    for (int i = 0; i < HALO_REMOTE_N_HANDLE_TYPES; i++) {
        int r = halo_handles_init(&s->handles[i], (enum halo_remote_handle_type)i, n[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

int halo_session_create(struct halo_session **ret, const char *hip_lib, const struct halo_session_limits *limits,
                        const struct halo_session_ops *ops, struct halo_fault *fault)
{
    struct halo_session *s = calloc(1, sizeof(*s));
    if (!s)
        return halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for a session");
    s->limits = *limits;
    s->ops = *ops;
    s->current = -1;
    int r = init_handles(s);
    if (r == 0)
        r = halo_ranges_init(&s->memory, limits->n_allocations);
    if (r == 0)
        r = halo_waits_init(&s->waits, limits->n_waits, limits->staging_bytes);
    if (r < 0)
        halo_fault_set(fault, HALO_FAULT_OUT_OF_MEMORY, "no memory for the tables of a session");
    else
        r = halo_worker_runtime_open(&s->rt, hip_lib, fault);
    if (r < 0) {
        halo_session_destroy(s);
        return r;
    }
    *ret = s;
    return 0;
}

void halo_session_keep_blobs(struct halo_session *s, struct halo_blob_store *store)
{
    s->blobs = store;
    halo_blob_jobs_init(&s->blob_jobs, store);
}

void halo_session_destroy(struct halo_session *s)
{
    if (!s)
        return;
    if (s->blobs)
        halo_blob_jobs_finish(&s->blob_jobs);
    if (s->rt.api.library)
        halo_session_free_all(s);
    halo_waits_finish(&s->waits, &s->rt);
    for (int i = 0; i < HALO_REMOTE_N_HANDLE_TYPES; i++)
        halo_handles_finish(&s->handles[i]);
    halo_ranges_finish(&s->memory);
    free(s); /* the runtime stays open: it has threads */
}

/* ---- requests ---- */

static int refuse(struct halo_fault *fault, const struct halo_remote_header *h, const struct halo_remote_field *field,
                  int error)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(h->op);
    const char *name = op ? op->name : "an unknown operation";
    if (field)
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "request %u, %s: the field %s is %s", h->id, name, field->name,
                       error == -ERANGE ? "out of range" : "cut");
    else
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST, "request %u, %s: %s", h->id, name,
                       error == -ERANGE ? "its fields contradict each other" : "its length is wrong");
    return -EBADMSG;
}

/* Other requests come behind the copies before them. */
static int keep_order(struct halo_session *s, uint16_t op)
{
    return op == HIP_OP_MEMCPY_FROM_BLOB || op == HIP_OP_MEMCPY_TO_BLOB ? 0 : halo_session_finish_blobs(s, true);
}

int halo_session_request(struct halo_session *s, const struct halo_remote_header *h, const uint8_t *payload,
                         struct halo_fault *fault)
{
    union halo_remote_request q;
    union halo_remote_reply a = {0};
    const struct halo_remote_field *field;
    if (s->is_open == (h->op == HIP_OP_INIT)) {
        halo_fault_set(fault, HALO_FAULT_BAD_REQUEST,
                       s->is_open ? "a second HIP_OP_INIT" : "the first frame is not HIP_OP_INIT");
        return -EPROTO;
    }
    int r = halo_remote_request_decode(h, payload, &q, &field);
    if (r == -ENOSYS)
        return halo_session_answer(s, h, &a, HALO_WORKER_NOT_SUPPORTED);
    if (r < 0)
        return refuse(fault, h, field, r);
    if (h->op == HIP_OP_SHUTDOWN)
        return HALO_SESSION_E_END;
    r = keep_order(s, h->op);
    if (r < 0)
        return r;
    struct halo_session_call c = {.h = h, .q = &q, .a = &a};
    int error = halo_session_choose_device(s, &c);
    halo_session_op_fn *run = operations[halo_remote_op_find(h->op) - halo_remote_ops];
    if (error == 0)
        error = run ? run(s, &c) : HALO_WORKER_NOT_SUPPORTED;
    if (s->fatal < 0) {
        halo_fault_set(fault, HALO_FAULT_DEVICE_HANG, "request %u waited for the GPU in vain", h->id);
        return s->fatal;
    }
    return error == HALO_SESSION_LATER ? 0 : halo_session_answer(s, h, &a, error);
}

int halo_session_poll(struct halo_session *s, struct halo_fault *fault)
{
    int r = s->fatal < 0 ? s->fatal : halo_session_finish_blobs(s, false);
    return r < 0 ? r : halo_session_poll_waits(s, fault);
}
