/* linger.c: connections that were refused and only read why. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <base/log.h>

#include "clients_priv.h"

#define MOST 32 /* at once; more are closed without that care */
#define LINGER_MS 1000

struct refused_peer {
    struct halo_list_node node;
    uv_pipe_t pipe;
    uv_timer_t timer;
    unsigned n_handles;
};

static void handle_closed(uv_handle_t *handle)
{
    struct refused_peer *refused = handle->data;
    if (--refused->n_handles == 0)
        free(refused);
}

static void end(struct refused_peer *refused)
{
    if (!halo_list_is_linked(&refused->node))
        return;
    halo_list_remove(&refused->node);
    uv_close((uv_handle_t *)&refused->pipe, handle_closed);
    uv_close((uv_handle_t *)&refused->timer, handle_closed);
}

static void time_over(uv_timer_t *timer)
{
    end(timer->data);
}

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
    static char dropped[4096]; /* nobody looks at it */
    *ret_buf = uv_buf_init(dropped, sizeof(dropped));
}

static void drop(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    if (n < 0)
        end(stream->data);
}

void halo_linger(struct halo_clients *clients, int fd, const char *line, size_t len)
{
    if (send(fd, line, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        halo_log_limited(&clients->log_limit, HALO_LOG_DEBUG, "a refused client closed its connection already");
    struct refused_peer *refused = clients->refused.n < MOST ? calloc(1, sizeof(*refused)) : NULL;
    if (!refused || shutdown(fd, SHUT_WR) != 0) {
        free(refused);
        close(fd);
        return;
    }
    uv_pipe_init(clients->loop, &refused->pipe, 0);
    uv_timer_init(clients->loop, &refused->timer);
    refused->pipe.data = refused->timer.data = refused;
    refused->n_handles = 2;
    halo_list_append(&clients->refused, &refused->node);
    if (uv_pipe_open(&refused->pipe, fd) < 0) {
        close(fd);
        end(refused);
        return;
    }
    uv_timer_start(&refused->timer, time_over, LINGER_MS, 0);
    if (uv_read_start((uv_stream_t *)&refused->pipe, give_buffer, drop) < 0)
        end(refused);
}

void halo_linger_close_all(struct halo_clients *clients)
{
    while (clients->refused.first)
        end(HALO_LIST_ITEM(clients->refused.first, struct refused_peer, node));
}
