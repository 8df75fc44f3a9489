/* chaos.c: many clients, an engine that is killed again and again, connections that break, readers that stop, cancels.
 *
 * First each kind of request runs once undisturbed. Then clients send a random mix of them while the engine is killed
 * at random moments. Each request must end exactly once (the fixture aborts at a second end, at a gap or a repeat of
 * ids) and one that was neither cancelled nor cut off must give what it gave undisturbed: ids, text, rows. A cancelled
 * one must have a prefix of it. At the end nothing may be left: no descriptor, no zombie, no open request, no sequence.
 *
 * e2e_chaos [CLIENTS REQUESTS KILLS [SEED]]: prints what was checked, and the time from the engine's death to the next
 * token.
 */
#include "daemon_fixture.h"

#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stddef.h>
#include <cmocka.h>

#define M "\"model\":\"fable-Q4_K_M\""
#define IDS ",\"emit_token_ids\":true"
#define MAX_CLIENTS 64
#define MAX_KILLS 1000
#define OPEN_EACH 3
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 4 /* a start and a load take longer: the time between two kills follows */
#else
#define SLOWNESS 1
#endif
#define QUIET_MS 120000

static const char config[] = "[engine]\nwait_ms = 60000\nrestart_max_ms = 500\nbreaker_deaths = 100\n"
                             "[limits]\noutput_high_bytes = 4096\noutput_low_bytes = 1024\nstall_ms = 20000\n";

struct kind {
    const char *type, *members;
};

static const struct kind kinds[] = {
    {"generate", M ",\"prompt\":\"Once upon a time\",\"max_tokens\":60,\"temperature\":0" IDS},
    {"generate", M ",\"prompt\":\"Once upon a time\",\"max_tokens\":90,\"seed\":1,\"ignore_eos\":true" IDS},
    {"generate", M ",\"prompt\":\"Once upon a time there was a "
                   "king\",\"max_tokens\":40,\"seed\":2,\"temperature\":1.3,\"top_k\":0" IDS},
    {"generate",
     M ",\"prompt\":\"The wolf\",\"max_tokens\":80,\"seed\":3,\"repeat_penalty\":1.3,\"presence_penalty\":0.4" IDS},
    {"generate",
     M ",\"prompt\":\"Es war einmal\",\"max_tokens\":50,\"seed\":4,\"frequency_penalty\":0.5,\"ignore_eos\":true"},
    {"generate", M ",\"prompt\":\"\xe6\x98\x94\xe3\x80\x85\",\"max_tokens\":50,\"seed\":5,\"temperature\":2,\"min_p\":"
                   "0,\"ignore_eos\":true" IDS},
    {"generate",
     M ",\"prompt\":\"The king had three daughters\",\"max_tokens\":100,\"seed\":6,\"stop\":[\" and\",\"The\"]" IDS},
    {"generate", M ",\"prompt\":\"A poor miller\",\"max_tokens\":40,\"seed\":7,\"logprobs\":4"},
    {"generate", M ",\"prompt\":\"In the deep forest\",\"max_tokens\":40,\"seed\":8,\"stream\":false"},
    {"generate",
     M ",\"prompt\":\"In the deep forest\",\"max_tokens\":40,\"seed\":8,\"stream\":false,\"cache_prompt\":false" IDS},
    {"generate", M ",\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a tale.\\n\\n\\n\\nA short "
                   "one.\"}],\"max_tokens\":60,\"seed\":9" IDS},
    {"generate",
     M ",\"tokens\":[2126,699,2126,699,2126,699],\"max_tokens\":70,\"seed\":10,\"logit_bias\":{\"5\":2.5}" IDS},
    {"generate", M ",\"prompt\":\"Long ago\",\"max_tokens\":1,\"seed\":11" IDS},
    {"generate",
     M ",\"prompt\":\"Long ago\",\"max_tokens\":300,\"seed\":12,\"ignore_eos\":true,\"deadline_ms\":600000" IDS},
    {"score",
     M ",\"text\":\"The king had three daughters, and the youngest was the most beautiful of all.\",\"top\":3"},
    {"score", M ",\"text\":\"Far out in the sea the water is as blue as the petals of the cornflower.\",\"from\":5"},
    {"tokenize", M ",\"text\":\"Once upon a time\""},
    {"load", M ",\"params\":{\"context\":1024}"},
    {"models", ""},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

enum fate { PLAIN, CANCELLED, ENDED };

struct chaos_client {
    struct client client;
    size_t kind[CLIENT_MAX_REQUESTS];
    enum fate fate[CLIENT_MAX_REQUESTS];
    int64_t cancel_at[CLIENT_MAX_REQUESTS]; /* 0: not */
    int64_t stalled_until, cut_at; /* 0: not */
};

static int n_clients = 8, n_requests = 160, n_kills = 12;
static uint64_t seed = 1;
static struct daemon_fixture fixture;
static struct client quiet;
static struct chaos_client clients[MAX_CLIENTS];
static struct {
    int sent, plain, cancelled, late_cancels, cut, lost, ids, kills, stalls, cuts;
} n;
static double waits_ms[MAX_KILLS];
static int n_waits;

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

/* ---- what the system says of the daemon ---- */

static int n_descriptors(void)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", fixture.pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Its children, zombies too; the last one's pid and state. */
static int children(pid_t *ret_pid, char *ret_state)
{
    char path[300], text[512];
    int count = 0, pid, parent;
    char state;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));) {
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        size_t len = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[len] = '\0';
        const char *rest = strrchr(text, ')');
        if (!rest || sscanf(text, "%d", &pid) != 1 || sscanf(rest + 1, " %c %d", &state, &parent) != 2 ||
            parent != fixture.pid)
            continue;
        count++;
        *ret_pid = pid;
        *ret_state = state;
    }
    closedir(dir);
    return count;
}

/* ---- comparing ---- */

static void compare_ids(const struct client_request *got, const struct client_request *wanted, bool prefix)
{
    assert_true(prefix ? got->n_ids <= wanted->n_ids : got->n_ids == wanted->n_ids);
    if (got->n_ids > 0)
        assert_memory_equal(got->ids, wanted->ids, got->n_ids * sizeof *got->ids);
    assert_true(prefix ? got->n_text <= wanted->n_text : got->n_text == wanted->n_text);
    if (got->n_text > 0)
        assert_memory_equal(got->text, wanted->text, got->n_text);
    assert_true(prefix ? got->n_rows <= wanted->n_rows : got->n_rows == wanted->n_rows);
    n.ids += (int)got->n_ids;
}

static void check(const struct chaos_client *chaos, size_t i)
{
    const struct client_request *got = &chaos->client.requests[i], *wanted = &quiet.requests[chaos->kind[i]];
    bool ended_cancelled = got->terminal == HALO_EV_DONE && got->finish == HALO_WIRE_FINISH_CANCELLED;
    assert_int_equal(got->n_terminal, 1);
    if (chaos->fate[i] == CANCELLED && ended_cancelled) {
        compare_ids(got, wanted, true);
        n.cancelled++;
        return;
    }
    if (got->terminal == HALO_EV_ERROR && got->error == HALO_ERROR_ENGINE_LOST) {
        print_message("lost: %s\n", got->message);
        compare_ids(got, wanted, true);
        n.lost++;
        return;
    }
    if (got->terminal != wanted->terminal)
        fail_msg("%s %zu ended with %s: %s", kinds[chaos->kind[i]].type, chaos->kind[i],
                 halo_ev_type_name(got->terminal), got->message);
    n.late_cancels += chaos->fate[i] == CANCELLED;
    compare_ids(got, wanted, false);
    assert_int_equal(got->n_started, wanted->n_started);
    assert_int_equal(got->finish, wanted->finish);
    assert_true(fabs(got->nll - wanted->nll) <= 1e-8 * fabs(wanted->nll));
    n.plain++;
}

/* ---- the clients ---- */

static void open_one(struct chaos_client *chaos)
{
    memset(chaos, 0, sizeof *chaos);
    client_open(&chaos->client, &fixture);
}

static void cut(struct chaos_client *chaos)
{
    for (size_t i = 0; i < chaos->client.n_requests; i++)
        n.cut += chaos->fate[i] != ENDED && chaos->client.requests[i].n_terminal == 0;
    n.cuts++;
    client_close(&chaos->client);
    open_one(chaos);
}

static void send_one(struct chaos_client *chaos, int64_t now)
{
    size_t kind = draw(10) < 8 ? draw(16) : draw(N_KINDS);
    size_t i = client_send(&chaos->client, kinds[kind].type, "%s", kinds[kind].members);
    chaos->kind[i] = kind;
    chaos->fate[i] = PLAIN;
    n.sent++;
    if (kind < 16 && draw(10) == 0)
        chaos->cancel_at[i] = now + (int64_t)draw(300000);
    if (draw(25) == 0 && chaos->cut_at == 0)
        chaos->cut_at = now + (int64_t)draw(400000);
    if (draw(15) == 0) {
        chaos->stalled_until = now + 50000 + (int64_t)draw(800000);
        n.stalls++;
    }
}

/* Cancels are requests too; their answers are not compared. */
static void cancel_due(struct chaos_client *chaos, int64_t now)
{
    for (size_t i = 0; i < chaos->client.n_requests && chaos->client.n_requests < CLIENT_MAX_REQUESTS; i++) {
        if (chaos->cancel_at[i] == 0 || now < chaos->cancel_at[i] || chaos->client.requests[i].n_terminal > 0)
            continue;
        chaos->cancel_at[i] = 0;
        chaos->fate[i] = CANCELLED;
        chaos->fate[client_send(&chaos->client, "cancel", "\"target\":%zu", i + 1)] = ENDED;
    }
}

/* Requests are spread over the kills, so that there are some for the last one. */
static bool keeps_pace(void)
{
    return (int64_t)n.sent * n_kills <= (int64_t)(n.kills + 1) * n_requests;
}

static void tend(struct chaos_client *chaos, int64_t now)
{
    struct client *client = &chaos->client;
    for (size_t i = 0; i < client->n_requests; i++)
        if (chaos->fate[i] != ENDED && client->requests[i].n_terminal > 0) {
            check(chaos, i);
            chaos->fate[i] = ENDED;
        }
    if (chaos->cut_at != 0 && now >= chaos->cut_at)
        cut(chaos);
    cancel_due(chaos, now);
    if (client->n_requests + 2 * OPEN_EACH >= CLIENT_MAX_REQUESTS) { /* full: a new connection once all is over */
        if (client->n_open == 0) {
            client_close(client);
            open_one(chaos);
        }
        return;
    }
    while (n.sent < n_requests && client->n_open < OPEN_EACH && now >= chaos->stalled_until && keeps_pace())
        send_one(chaos, now);
}

static int read_all(int64_t now)
{
    struct pollfd fds[MAX_CLIENTS];
    int n_open = 0;
    for (int i = 0; i < n_clients; i++) {
        fds[i] = (struct pollfd){.fd = now < clients[i].stalled_until ? -1 : clients[i].client.fd, .events = POLLIN};
        n_open += clients[i].client.n_open;
    }
    poll(fds, (nfds_t)n_clients, 2);
    for (int i = 0; i < n_clients; i++)
        if (fds[i].fd >= 0 && fds[i].revents && !client_take(&clients[i].client))
            fail_msg("the daemon closed a connection");
    return n_open;
}

/* ---- the killer ---- */

static struct {
    enum { RESTING, WAITING_FOR_NOTICE, WAITING_FOR_TOKEN } state;
    int64_t killed_at, next_at, n_restarts, n_tokens;
    int64_t left, n_seen, quiet_since; /* tokens until the next kill; at the last look; when they last came */
} killer;

static void totals(int64_t *ret_restarts, int64_t *ret_tokens)
{
    *ret_restarts = *ret_tokens = 0;
    for (int i = 0; i < n_clients; i++) {
        *ret_restarts += clients[i].client.n_restarts;
        *ret_tokens += clients[i].client.n_tokens;
    }
}

/* Of four kills three come after some tokens, in the middle of replies, and one after some time, whatever the engine is
 * at. Where no tokens come any more one is due too, for the clients wait for kills as kills wait for them (keeps_pace). */
static bool kill_is_due(int64_t now, int64_t tokens)
{
    if (tokens != killer.n_seen)
        killer.quiet_since = now;
    if (tokens > killer.n_seen) /* a connection that was cut takes its count with it */
        killer.left -= tokens - killer.n_seen;
    killer.n_seen = tokens;
    return now >= killer.next_at || killer.left <= 0 || now - killer.quiet_since > SLOWNESS * 500000;
}

static void kill_engine(int64_t now)
{
    pid_t pid;
    char state;
    int64_t restarts, tokens;
    totals(&restarts, &tokens);
    if (!kill_is_due(now, tokens) || n.kills == n_kills || children(&pid, &state) == 0 || state == 'Z' ||
        kill(pid, SIGKILL) != 0)
        return;
    n.kills++;
    killer.n_restarts = restarts;
    killer.killed_at = killer.quiet_since = now_us();
    killer.state = WAITING_FOR_NOTICE;
    killer.left = 20 + (int64_t)draw(300);
    killer.next_at = draw(4) > 0 ? INT64_MAX : killer.killed_at + SLOWNESS * (150000 + (int64_t)draw(350000));
}

/* From the kill to the first token of a reply that went on. A connection that is cut meanwhile spoils the sums: no
 * sample. */
static void watch_restart(int64_t now)
{
    int64_t restarts, tokens;
    totals(&restarts, &tokens);
    if (killer.state == WAITING_FOR_NOTICE && restarts > killer.n_restarts) {
        killer.state = WAITING_FOR_TOKEN;
        killer.n_tokens = tokens;
    } else if (killer.state == WAITING_FOR_TOKEN && tokens > killer.n_tokens) {
        waits_ms[n_waits++] = (double)(now_us() - killer.killed_at) / 1e3;
        killer.state = RESTING;
    }
}

/* ---- the test ---- */

static void run_quietly(void)
{
    client_open(&quiet, &fixture);
    struct client loader;
    client_open(&loader, &fixture);
    client_send(&loader, "load", "%s", M ",\"params\":{\"context\":1024}");
    assert_true(client_wait(&loader, 0, 60000));
    client_close(&loader);
    for (size_t i = 0; i < N_KINDS; i++) {
        client_send(&quiet, kinds[i].type, "%s", kinds[i].members);
        assert_true(client_wait(&quiet, 0, 60000));
        if (quiet.requests[i].terminal == HALO_EV_ERROR)
            fail_msg("undisturbed: %s", quiet.requests[i].message);
    }
    quiet.n_tokens = 0;
}

static void nothing_is_left(int n_before)
{
    struct client client;
    struct halo_ev ev;
    struct halo_refusal refusal;
    pid_t pid;
    char state;
    client_open(&client, &fixture);
    int64_t end = now_us() + 10000000;
    for (bool clean = false; !clean && now_us() < end; usleep(20000)) {
        client_send(&client, "status", "%s", "");
        assert_true(client_wait(&client, 0, 5000));
        assert_int_equal(halo_ev_decode(&ev, client.last_line, strlen(client.last_line), 0, &refusal), 0);
        clean = ev.status.running == 0 && ev.status.queue == 0 && ev.status.connections == 2 &&
                ev.status.models.n == 1 && ev.status.models.at[0].sequences == 0 && n_descriptors() == n_before + 1;
        if (client.n_requests + 1 >= CLIENT_MAX_REQUESTS) {
            client_close(&client);
            client_open(&client, &fixture);
        }
        if (!clean && now_us() + 100000 > end)
            print_message("%s\n%d descriptors, %d before\n", client.last_line, n_descriptors(), n_before);
        halo_ev_finish(&ev);
        end = clean ? INT64_MAX : end;
    }
    assert_int_equal(end, INT64_MAX);
    assert_int_equal(children(&pid, &state), 1);
    assert_true(state != 'Z');
    client_close(&client);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(double seconds)
{
    qsort(waits_ms, (size_t)n_waits, sizeof *waits_ms, by_size);
    print_message("chaos: %d clients, %d requests, %d kills in %.1f s\n", n_clients, n.sent, n.kills, seconds);
    print_message("chaos: %d as undisturbed, %d cancelled (%d too late), %d cut off with %d connections, %d lost; %d "
                  "stalls; %d ids "
                  "compared\n",
                  n.plain, n.cancelled, n.late_cancels, n.cut, n.cuts, n.lost, n.stalls, n.ids);
    if (n_waits > 0)
        print_message("chaos: from death to next token: median %.1f ms, worst %.1f ms of %d\n", waits_ms[n_waits / 2],
                      waits_ms[n_waits - 1], n_waits);
}

static void chaos(void **state)
{
    (void)state;
    daemon_start(&fixture, config);
    run_quietly();
    int n_before = n_descriptors();
    for (int i = 0; i < n_clients; i++)
        open_one(&clients[i]);
    int64_t begin = now_us(), last = begin;
    killer.next_at = begin + 100000;
    killer.left = INT64_MAX;
    killer.quiet_since = begin;
    for (int n_open = 1; n_open > 0 || n.sent < n_requests || n.kills < n_kills;) {
        int64_t now = now_us();
        n_open = read_all(now);
        watch_restart(now);
        int before = n.sent + n.plain + n.cancelled;
        for (int i = 0; i < n_clients; i++)
            tend(&clients[i], now);
        kill_engine(now);
        last = before != n.sent + n.plain + n.cancelled ? now : last;
        if (now - last > QUIET_MS * 1000ll)
            fail_msg("nothing happens any more: %d requests are open", n_open);
    }
    double seconds = (double)(now_us() - begin) / 1e6;
    for (int i = 0; i < n_clients; i++) {
        tend(&clients[i], INT64_MAX / 2); /* the last ones */
        client_close(&clients[i].client);
    }
    nothing_is_left(n_before);
    report(seconds);
    assert_int_equal(n.sent, n_requests);
    assert_int_equal(n.plain + n.cancelled + n.cut + n.lost, n.sent); /* each one is accounted for */
    assert_true(n.kills == n_kills && n_waits > 0 && n.plain > n_requests / 2 && n.cancelled > 0);
    assert_true(n.lost * 50 <= n.sent); /* killed thrice before it began: chance, not a rule */
    client_close(&quiet);
    daemon_stop(&fixture, 15000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chaos)};
    if (argc >= 4) {
        n_clients = atoi(argv[1]);
        n_requests = atoi(argv[2]);
        n_kills = atoi(argv[3]);
    }
    if (argc >= 5)
        seed = strtoull(argv[4], NULL, 10) | 1;
    if ((argc != 1 && argc != 4 && argc != 5) || n_clients < 1 || n_clients > MAX_CLIENTS || n_kills < 1 ||
        n_kills > MAX_KILLS || n_requests < 1) {
        fputs("usage: e2e_chaos [CLIENTS REQUESTS KILLS [SEED]]\n", stderr);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
