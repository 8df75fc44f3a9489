/* op_graph.c: graphs and what they are replayed from. One thread. */
#include "session_priv.h"

static void *graph_of(const struct halo_session *s, uint64_t bits)
{
    return halo_handles_get(&s->handles[HALO_REMOTE_GRAPH], bits);
}

static void *exec_of(const struct halo_session *s, uint64_t bits)
{
    return halo_handles_get(&s->handles[HALO_REMOTE_GRAPH_EXEC], bits);
}

int halo_session_graph_instantiate(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_graph_instantiate *q = &c->q->graph_instantiate;
    void *graph = graph_of(s, q->graph), *exec = NULL;
    int error = halo_handles_check_new(&s->handles[HALO_REMOTE_GRAPH_EXEC], q->exec);
    if (!graph || error)
        return graph ? error : HALO_WORKER_INVALID_HANDLE;
    if (q->flags && !s->rt.GraphInstantiateWithFlags)
        return HALO_WORKER_NOT_SUPPORTED;
    error = q->flags ? s->rt.GraphInstantiateWithFlags(&exec, graph, q->flags)
                     : s->rt.api.GraphInstantiate(&exec, graph, NULL, NULL, 0);
    if (!error && !exec)
        error = HALO_WORKER_UNKNOWN;
    if (!error)
        halo_handles_put(&s->handles[HALO_REMOTE_GRAPH_EXEC], q->exec, exec);
    return error;
}

int halo_session_graph_launch(struct halo_session *s, const struct halo_session_call *c)
{
    void *exec = exec_of(s, c->q->graph_launch.exec), *stream;
    if (!exec || !halo_session_stream(s, c->q->graph_launch.stream, &stream, NULL))
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.api.GraphLaunch(exec, stream);
}

int halo_session_graph_destroy(struct halo_session *s, const struct halo_session_call *c)
{
    void *graph = halo_handles_take(&s->handles[HALO_REMOTE_GRAPH], c->q->graph_destroy.graph);
    return graph ? s->rt.api.GraphDestroy(graph) : HALO_WORKER_INVALID_HANDLE;
}

int halo_session_graph_exec_destroy(struct halo_session *s, const struct halo_session_call *c)
{
    void *exec = halo_handles_take(&s->handles[HALO_REMOTE_GRAPH_EXEC], c->q->graph_exec_destroy.exec);
    return exec ? s->rt.api.GraphExecDestroy(exec) : HALO_WORKER_INVALID_HANDLE;
}

int halo_session_graph_exec_update(struct halo_session *s, const struct halo_session_call *c)
{
    const struct halo_remote_graph_exec_update *q = &c->q->graph_exec_update;
    void *exec = exec_of(s, q->exec), *graph = graph_of(s, q->graph), *node = NULL;
    if (!exec || !graph)
        return HALO_WORKER_INVALID_HANDLE;
    return s->rt.GraphExecUpdate ? s->rt.GraphExecUpdate(exec, graph, &node, &c->a->graph_exec_update.result)
                                 : HALO_WORKER_NOT_SUPPORTED;
}
