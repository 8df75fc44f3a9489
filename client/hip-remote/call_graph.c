/* call_graph.c: graphs, which lie on the worker: a launch is one short message. */
#include "client_priv.h"

#define UPDATE_ERROR 1 /* of hipGraphExecUpdateResult */

static int instantiate(void **ret, uint64_t graph, uint64_t flags)
{
    struct halo_remote_handles *execs = &halo_client.handles[HALO_REMOTE_GRAPH_EXEC];
    struct halo_remote_graph_instantiate_reply a;
    uint64_t bits;
    if (!ret)
        return HIP_INVALID_VALUE;
    if (!halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_GRAPH], graph))
        return HIP_INVALID_HANDLE;
    struct halo_remote_slot *slot = halo_remote_handles_take(execs, &bits);
    if (!slot)
        return HIP_OUT_OF_MEMORY;
    int r = halo_remote_graph_instantiate(&halo_client.port,
                                          &(struct halo_remote_graph_instantiate){graph, bits, flags}, &a);
    int error = halo_client_status(r, &a.status);
    if (error)
        halo_remote_handles_drop(execs, slot);
    else
        *ret = halo_client_pointer(bits);
    return error;
}

int hipGraphInstantiate(void **ret, void *graph, void **ret_error_node, char *log, size_t log_bytes)
{
    int error = halo_client_enter();
    if (ret_error_node)
        *ret_error_node = NULL;
    if (log && log_bytes > 0)
        log[0] = '\0';
    if (!error)
        error = instantiate(ret, halo_client_bits(graph), 0);
    return halo_client_leave(error);
}

int hipGraphInstantiateWithFlags(void **ret, void *graph, unsigned long long flags)
{
    int error = halo_client_enter();
    if (!error)
        error = flags <= 15 ? instantiate(ret, halo_client_bits(graph), flags) : HIP_INVALID_VALUE;
    return halo_client_leave(error);
}

/* Which node could not be updated is not told: the program instantiates the graph again. */
int hipGraphExecUpdate(void *exec, void *graph, void **ret_node, int *ret_result)
{
    struct halo_remote_graph_exec_update_reply a;
    const struct halo_remote_graph_exec_update q = {halo_client_bits(exec), halo_client_bits(graph)};
    int error = halo_client_enter();
    if (!error && (!ret_node || !ret_result))
        error = HIP_INVALID_VALUE;
    if (!error && (!halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_GRAPH_EXEC], q.exec) ||
                   !halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_GRAPH], q.graph)))
        error = HIP_INVALID_HANDLE;
    if (!error) {
        int r = halo_remote_graph_exec_update(&halo_client.port, &q, &a);
        error = halo_client_status(r, &a.status);
        *ret_node = NULL;
        *ret_result = error ? UPDATE_ERROR : a.result;
    }
    return halo_client_leave(error);
}

/* A graph lies on the worker once it is instantiated. */
int hipGraphUpload(void *exec, void *stream)
{
    uint64_t bits;
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && (!halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_GRAPH_EXEC], halo_client_bits(exec)) ||
                   !halo_client_stream(stream, &bits, &slot)))
        error = HIP_INVALID_HANDLE;
    return halo_client_leave(error);
}

int hipGraphLaunch(void *exec, void *stream)
{
    uint64_t bits, of_exec = halo_client_bits(exec);
    struct halo_remote_slot *slot;
    int error = halo_client_enter();
    if (!error && (!halo_remote_handles_get(&halo_client.handles[HALO_REMOTE_GRAPH_EXEC], of_exec) ||
                   !halo_client_stream(stream, &bits, &slot)))
        error = HIP_INVALID_HANDLE;
    if (!error)
        error = halo_client_send(HIP_OP_GRAPH_LAUNCH, &(struct halo_remote_graph_launch){of_exec, bits});
    return halo_client_leave(error);
}

static int destroy(enum halo_remote_handle_type type, enum halo_remote_op op, uint64_t bits, const void *request)
{
    struct halo_remote_slot *slot = halo_remote_handles_get(&halo_client.handles[type], bits);
    if (!slot)
        return HIP_INVALID_HANDLE;
    halo_remote_handles_drop(&halo_client.handles[type], slot);
    return halo_client_send(op, request);
}

int hipGraphDestroy(void *graph)
{
    const struct halo_remote_graph_destroy q = {halo_client_bits(graph)};
    int error = halo_client_enter();
    if (!error)
        error = destroy(HALO_REMOTE_GRAPH, HIP_OP_GRAPH_DESTROY, q.graph, &q);
    return halo_client_leave(error);
}

int hipGraphExecDestroy(void *exec)
{
    const struct halo_remote_graph_exec_destroy q = {halo_client_bits(exec)};
    int error = halo_client_enter();
    if (!error)
        error = destroy(HALO_REMOTE_GRAPH_EXEC, HIP_OP_GRAPH_EXEC_DESTROY, q.exec, &q);
    return halo_client_leave(error);
}
