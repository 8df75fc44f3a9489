/* lines.c: connections with everything that lies between a client's bytes and halod's policies: the real peers, cut
 * lines, shares of a turn, slow readers, half-closed sockets. Whatever a client writes, in whatever pieces, each of its
 * lines gets one terminal event.
 *
 * One thread: clients and loop take turns, drawn from a seed. Who answers is this file: most lines at once, some later.
 *
 *   lines [FIRST_SEED [N_SEEDS]]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <protocol/message.h>

#include <serve/client/clients.h>

#define CONNS 12
#define MOST_LINES 48
#define ROUNDS 200000
#define PAD 3000 /* bytes of an answer, at most */
#define N_LEVELS (sizeof(limits) / sizeof(limits[0]))

enum heard { SILENCE, LATER, ANSWERED, HEARD };

struct answer_later {
    struct halo_list_node open; /* in the client's list of open requests */
    struct halo_peer *peer;
    size_t index;
};

struct conn {
    int fd;                 /* the client's end */
    struct halo_peer *peer; /* halod's end; NULL: closed */
    char *text;
    size_t len, at; /* of text; written so far */
    size_t n_lines, n_taken;
    size_t line_len[MOST_LINES];
    enum heard heard[MOST_LINES];
    size_t n_heard;
    bool half, shut; /* ends its side after the last byte; has done so */
    bool ended;      /* halod has closed it */
    struct halo_line_reader events;
};

static const struct {
    int64_t line_bytes, user_bytes, output_high, output_low;
} limits[] = {
    {4096, 1 << 20, 1 << 20, 1 << 16},
    {256, 1024, 2048, 512},
    {100000, 150000, 100000, 0},
    {20000, 20000, 500, 0},
};

static uv_loop_t loop;
static struct halo_config config;
static struct halo_quota quota;
static struct halo_counters counters;
static struct halo_list touched;
static struct halo_clients clients;
static struct conn conns[CONNS];
static size_t n_conns;
static struct answer_later *later[CONNS * MOST_LINES];
static size_t n_later;
static uint64_t seed, drawn;
static char path[64];
static const char *const kinds[] = {"nothing", "the promise of an answer", "an answer", "an event"};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu: ", (unsigned long long)seed);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static void check(bool fine, const char *what)
{
    if (!fine)
        fail("%s: %s", what, strerror(errno));
}

static size_t draw(size_t n)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (size_t)(drawn >> 33) % n : 0;
}

/* ---- halod's side ---- */

static struct conn *conn_of(const struct halo_peer *peer)
{
    for (size_t i = 0; i < n_conns; i++)
        if (conns[i].peer == peer)
            return &conns[i];
    fail("a line of nobody");
}

static void answer(struct halo_peer *peer, size_t index)
{
    static char pad[PAD + 1];
    struct conn *conn = conn_of(peer);
    struct halo_id id = halo_id_of((int64_t)index);
    struct halo_ev ev;
    memset(pad, 'x', PAD);
    halo_ev_init(&ev, HALO_EV_TEXT, &id);
    ev.text.text = (struct halo_str){pad, draw(2) == 0 ? draw(PAD) : 0};
    check(halo_ev_encode(peer->client.out, &ev) == 0, "encode");
    halo_client_touch(&peer->client);
    conn->heard[index] = ANSWERED;
}

static void put_off(struct halo_peer *peer, size_t index)
{
    struct answer_later *late = calloc(1, sizeof(*late));
    check(late, "calloc");
    *late = (struct answer_later){.peer = peer, .index = index};
    halo_list_append(&peer->client.requests, &late->open);
    later[n_later++] = late;
    conn_of(peer)->heard[index] = LATER;
}

static void drop_later(size_t at)
{
    halo_list_remove(&later[at]->open);
    free(later[at]);
    later[at] = later[--n_later];
}

static void answer_one(void)
{
    size_t at = draw(n_later);
    if (n_later == 0)
        return;
    struct halo_peer *peer = later[at]->peer;
    answer(peer, later[at]->index);
    drop_later(at);
}

/* The next line of the connection, which is what was sent. */
static size_t next_line(struct conn *conn)
{
    if (conn->n_taken == conn->n_lines)
        fail("connection %zu: a line more than the %zu that were sent", (size_t)(conn - conns), conn->n_lines);
    return conn->n_taken++;
}

static void on_line(struct halo_peer *peer, const char *line, size_t len)
{
    struct conn *conn = conn_of(peer);
    size_t index = next_line(conn);
    if (len != conn->line_len[index] || strtoul(line, NULL, 10) != index)
        fail("connection %zu: line %zu of %zu bytes came as %zu bytes: %.20s", (size_t)(conn - conns), index,
             conn->line_len[index], len, line);
    if (len > (size_t)config.line_bytes)
        fail("a line of %zu bytes came, %lld are allowed", len, (long long)config.line_bytes);
    if (draw(4) == 0)
        put_off(peer, index);
    else
        answer(peer, index);
}

static void on_dropped(struct halo_peer *peer, enum halo_error code, struct halo_numbers numbers, const char *message)
{
    struct conn *conn = conn_of(peer);
    size_t index = next_line(conn);
    bool is_long = conn->line_len[index] > (size_t)config.line_bytes;
    if (code != HALO_ERROR_LINE_TOO_LONG && code != HALO_ERROR_TOO_MANY_REQUESTS)
        fail("dropped: %s", message);
    if (code == HALO_ERROR_LINE_TOO_LONG && !is_long)
        fail("a line of %zu bytes is too long", conn->line_len[index]);
    answer(peer, index);
}

static void on_pressure(struct halo_peer *peer, enum halo_pressure pressure)
{
}

static void on_gone(struct halo_peer *peer)
{
    for (size_t at = n_later; at-- > 0;)
        if (later[at]->peer == peer)
            drop_later(at);
    conn_of(peer)->peer = NULL;
}

static const struct halo_peer_ops ops = {on_line, on_dropped, on_pressure, on_gone};

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
    halo_clients_take(&clients);
    halo_clients_flush(&clients);
}

/* ---- the clients' side ---- */

static void connect_one(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct conn *conn = &conns[n_conns++];
    memcpy(to.sun_path, path, strlen(path) + 1);
    *conn = (struct conn){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    check(conn->fd >= 0 && connect(conn->fd, (struct sockaddr *)&to, sizeof(to)) == 0, "connect");
    halo_line_init(&conn->events, (size_t)1 << 30);
    size_t before = clients.peers.n;
    turn();
    check(clients.peers.n == before + 1, "accept");
    conn->peer = HALO_LIST_ITEM(clients.peers.last, struct halo_peer, node);
    uv_os_fd_t theirs;
    int bytes = (int)draw(20000); /* that fit into halod's socket, so that its own buffers fill */
    check(uv_fileno((uv_handle_t *)&conn->peer->pipe, &theirs) == 0, "uv_fileno");
    check(setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0, "setsockopt");
}

/* Short, about as long as the limit, or longer. */
static size_t draw_length(void)
{
    size_t limit = (size_t)config.line_bytes;
    switch (draw(6)) {
    case 0: return limit - 2 + draw(5);
    case 1: return limit + 1 + draw(2 * limit);
    case 2: return 3 + draw(limit - 3);
    default: return 3 + draw(40);
    }
}

static void write_story(struct conn *conn)
{
    conn->n_lines = 1 + draw(MOST_LINES);
    conn->half = draw(3) == 0;
    conn->text = malloc(conn->n_lines * (3 * (size_t)config.line_bytes + 48));
    check(conn->text, "malloc");
    for (size_t i = 0; i < conn->n_lines; i++) {
        size_t len = conn->line_len[i] = draw_length();
        char *at = conn->text + conn->len;
        memset(at, 'x', len);
        at[(size_t)snprintf(at, len, "%zu", i)] = ' ';
        conn->len += len;
        bool open = conn->half && i + 1 == conn->n_lines && draw(2) == 0; /* the last line may lack its newline */
        const char *end = open ? "" : draw(5) == 0 ? "\r\n\n" : "\n";
        memcpy(conn->text + conn->len, end, strlen(end));
        conn->len += strlen(end);
    }
}

static void write_some(struct conn *conn)
{
    size_t left = conn->len - conn->at, n = draw(3) == 0 ? draw(20) : draw(60000);
    ssize_t done =
        left == 0 || conn->ended ? 0 : send(conn->fd, conn->text + conn->at, n < left ? n : left, MSG_NOSIGNAL);
    check(done >= 0 || errno == EAGAIN, "send");
    conn->at += done > 0 ? (size_t)done : 0;
    if (conn->at == conn->len && conn->half && !conn->shut) {
        check(shutdown(conn->fd, SHUT_WR) == 0, "shutdown");
        conn->shut = true;
    }
}

static void hear(struct conn *conn, const char *line, size_t len)
{
    struct halo_refusal refusal;
    struct halo_ev ev;
    if (halo_ev_decode(&ev, line, len, 0, &refusal) != 0)
        fail("no event: %.*s", (int)len, line);
    size_t index = (size_t)ev.id.num;
    if (index >= conn->n_lines || conn->heard[index] != ANSWERED)
        fail("connection %zu: an event for line %zu of %zu, which has had %s", (size_t)(conn - conns), index,
             conn->n_lines, index < conn->n_lines ? kinds[conn->heard[index]] : "no chance");
    conn->heard[index] = HEARD;
    conn->n_heard++;
    halo_ev_finish(&ev);
}

static void read_some(struct conn *conn, size_t most)
{
    char bytes[4096];
    const char *line;
    size_t len;
    ssize_t n = conn->ended ? -1 : recv(conn->fd, bytes, most < sizeof(bytes) ? most : sizeof(bytes), 0);
    conn->ended = conn->ended || n == 0;
    if (n <= 0)
        return;
    check(halo_line_feed(&conn->events, bytes, (size_t)n) == 0, "feed");
    while (halo_line_next(&conn->events, &line, &len) == 0)
        hear(conn, line, len);
}

/* ---- a life ---- */

static void begin(void)
{
    struct halo_fault fault;
    drawn = seed;
    size_t level = draw(N_LEVELS);
    n_conns = n_later = 0;
    check(halo_config_init(&config) == 0 && halo_config_set_string(&config.socket_path, path) == 0, "config");
    config.line_bytes = limits[level].line_bytes;
    config.resume_user_bytes = limits[level].user_bytes;
    config.output_high_bytes = limits[level].output_high;
    config.output_low_bytes = limits[level].output_low;
    halo_list_init(&touched);
    check(uv_loop_init(&loop) == 0, "loop");
    clients = (struct halo_clients){
        .loop = &loop, .config = &config, .quota = &quota, .counters = &counters, .touched = &touched, .ops = &ops};
    halo_quota_init(&quota, &config, geteuid());
    if (halo_clients_start(&clients, -1, &fault) < 0)
        fail("%s", fault.text);
    for (size_t n = 1 + draw(CONNS); n_conns < n;) {
        connect_one();
        write_story(&conns[n_conns - 1]);
    }
}

static bool is_done(const struct conn *conn)
{
    return conn->n_heard == conn->n_lines && conn->at == conn->len && conn->ended == conn->half;
}

static void live(void)
{
    size_t n_open = n_conns;
    for (size_t round = 0; n_open > 0; round++) {
        struct conn *conn = &conns[draw(n_conns)];
        bool in_haste = round > ROUNDS / 2; /* everybody reads */
        if (draw(2) == 0)
            write_some(conn);
        if (draw(3) == 0 || in_haste)
            read_some(conn, 1 + draw(8192));
        if (draw(4) == 0)
            answer_one();
        turn();
        for (n_open = 0, conn = conns; conn < conns + n_conns; conn++)
            n_open += !is_done(conn);
        if (round < ROUNDS)
            continue;
        for (conn = conns; is_done(conn); conn++)
            ;
        for (size_t i = 0; i < conn->n_lines; i++)
            if (conn->heard[i] != HEARD)
                fail("connection %zu: line %zu of %zu, %zu bytes, has had %s", (size_t)(conn - conns), i, conn->n_lines,
                     conn->line_len[i], kinds[conn->heard[i]]);
        fail("connection %zu: all lines have their events, and it is %s", (size_t)(conn - conns),
             conn->ended ? "closed" : "open");
    }
}

static void end(void)
{
    for (size_t i = 0; i < n_conns; i++) {
        close(conns[i].fd);
        free(conns[i].text);
        halo_line_finish(&conns[i].events);
    }
    halo_clients_stop(&clients);
    halo_clients_close(&clients);
    halo_clients_close_handles(&clients);
    uv_run(&loop, UV_RUN_DEFAULT);
    check(uv_loop_close(&loop) == 0, "uv_loop_close");
    halo_clients_finish(&clients);
    halo_quota_finish(&quota);
    halo_config_finish(&config);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    size_t n_lines = 0;
    char lock[80];
    halo_log_set_level(HALO_LOG_ERROR);
    snprintf(path, sizeof(path), "/tmp/halo-lines-%ld", (long)getpid());
    snprintf(lock, sizeof(lock), "%s.lock", path);
    for (seed = first; seed < first + n; seed++) {
        begin();
        live();
        for (size_t i = 0; i < n_conns; i++)
            n_lines += conns[i].n_lines;
        end();
    }
    unlink(lock);
    printf("%llu lives, %zu lines, an event each; %llu pauses\n", (unsigned long long)n, n_lines,
           (unsigned long long)counters.pauses);
    return 0;
}
