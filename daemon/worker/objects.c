/* objects.c: frees what a session owns, in the order in which one thing uses another. One thread. */
#include <stdlib.h>

#include "session_priv.h"

static void *take_at(struct halo_handles *h, uint32_t i)
{
    void *object = h->slots[i].object;
    h->slots[i].object = NULL;
    h->n_live -= object != NULL;
    return object;
}

/* Graphs before the modules and memory that they use. */
void halo_session_free_all(struct halo_session *s)
{
    struct halo_handles *h = s->handles;
    void *object;
    for (uint32_t i = 0; i < h[HALO_REMOTE_GRAPH_EXEC].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_GRAPH_EXEC], i)))
            s->rt.api.GraphExecDestroy(object);
    for (uint32_t i = 0; i < h[HALO_REMOTE_GRAPH].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_GRAPH], i)))
            s->rt.api.GraphDestroy(object);
    for (uint32_t i = 0; i < h[HALO_REMOTE_STREAM].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_STREAM], i))) {
            s->n_capturing -= ((struct halo_session_stream *)object)->is_capturing;
            s->rt.api.StreamDestroy(((struct halo_session_stream *)object)->hip);
            free(object);
        }
    for (uint32_t i = 0; i < h[HALO_REMOTE_EVENT].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_EVENT], i))) {
            halo_waits_drop_event(&s->waits, ((struct halo_session_event *)object)->hip);
            s->rt.api.EventDestroy(((struct halo_session_event *)object)->hip);
            free(object);
        }
    for (uint32_t i = 0; i < h[HALO_REMOTE_MODULE].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_MODULE], i)))
            (void)halo_session_module_drop(s, object);
    for (uint32_t i = 0; i < h[HALO_REMOTE_BLOB].n_used; i++)
        if ((object = take_at(&h[HALO_REMOTE_BLOB], i)))
            halo_session_blob_drop(s, object);
    while (s->memory.n > 0) {
        struct halo_range_entry entry;
        if (!halo_ranges_take(&s->memory, s->memory.entries[s->memory.n - 1].at, &entry))
            break;
        s->rt.api.Free((void *)(uintptr_t)entry.at);
    }
}
