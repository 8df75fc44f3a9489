/* mixed_load.c: see mixed_load.h. */
#include "mixed_load.h"

#include <dirent.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#define IDS ",\"emit_token_ids\":true"
#define OPEN_EACH 3

struct kind {
    const char *type, *members; /* beside the model; NULL: a request without one */
};

static const struct kind kinds[] = {
    {"generate", ",\"prompt\":\"Once upon a time\",\"max_tokens\":60,\"temperature\":0" IDS},
    {"generate", ",\"prompt\":\"Once upon a time\",\"max_tokens\":90,\"seed\":1,\"ignore_eos\":true" IDS},
    {"generate", ",\"prompt\":\"Once upon a time there was a "
                 "king\",\"max_tokens\":40,\"seed\":2,\"temperature\":1.3,\"top_k\":0" IDS},
    {"generate",
     ",\"prompt\":\"The wolf\",\"max_tokens\":80,\"seed\":3,\"repeat_penalty\":1.3,\"presence_penalty\":0.4" IDS},
    {"generate",
     ",\"prompt\":\"Es war einmal\",\"max_tokens\":50,\"seed\":4,\"frequency_penalty\":0.5,\"ignore_eos\":true"},
    {"generate", ",\"prompt\":\"\xe6\x98\x94\xe3\x80\x85\",\"max_tokens\":50,\"seed\":5,\"temperature\":2,\"min_p\":"
                 "0,\"ignore_eos\":true" IDS},
    {"generate",
     ",\"prompt\":\"The king had three daughters\",\"max_tokens\":100,\"seed\":6,\"stop\":[\" and\",\"The\"]" IDS},
    {"generate", ",\"prompt\":\"A poor miller\",\"max_tokens\":40,\"seed\":7,\"logprobs\":4"},
    {"generate", ",\"prompt\":\"In the deep forest\",\"max_tokens\":40,\"seed\":8,\"stream\":false"},
    {"generate",
     ",\"prompt\":\"In the deep forest\",\"max_tokens\":40,\"seed\":8,\"stream\":false,\"cache_prompt\":false" IDS},
    {"generate", ",\"messages\":[{\"role\":\"user\",\"content\":\"Tell me a tale.\\n\\n\\n\\nA short "
                 "one.\"}],\"max_tokens\":60,\"seed\":9" IDS},
    {"generate", ",\"tokens\":[126,69,126,69,126,69],\"max_tokens\":70,\"seed\":10,\"logit_bias\":{\"5\":2.5}" IDS},
    {"generate", ",\"prompt\":\"Long ago\",\"max_tokens\":1,\"seed\":11" IDS},
    {"generate",
     ",\"prompt\":\"Long ago\",\"max_tokens\":300,\"seed\":12,\"ignore_eos\":true,\"deadline_ms\":3600000" IDS},
    {"score", ",\"text\":\"The king had three daughters, and the youngest was the most beautiful of all.\",\"top\":3"},
    {"score", ",\"text\":\"Far out in the sea the water is as blue as the petals of the cornflower.\",\"from\":5"},
    {"tokenize", ",\"text\":\"Once upon a time\""},
    {"load", ",\"params\":{\"context\":1024}"},
    {"models", NULL},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

int64_t load_now_us(void)
{
    return (int64_t)halo_clock_us();
}

uint64_t load_draw(struct mixed_load *load, uint64_t below)
{
    load->seed ^= load->seed << 13;
    load->seed ^= load->seed >> 7;
    load->seed ^= load->seed << 17;
    return load->seed % below;
}

/* ---- what the system says of the daemon ---- */

static int n_descriptors(const struct mixed_load *load)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", load->fixture->pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

int load_children(const struct mixed_load *load, pid_t *ret_pid, char *ret_state)
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
            parent != load->fixture->pid)
            continue;
        count++;
        *ret_pid = pid;
        *ret_state = state;
    }
    closedir(dir);
    return count;
}

static size_t send_kind(struct mixed_load *load, struct client *client, size_t kind)
{
    const struct kind *each = &kinds[kind];
    if (!each->members)
        return client_send(client, each->type, "%s", "");
    return client_send(client, each->type, "\"model\":\"%s\"%s", load->model, each->members);
}

/* ---- comparing ---- */

static void compare_ids(struct mixed_load *load, const struct client_request *got, size_t kind, bool prefix)
{
    const struct client_request *wanted = &load->quiet.requests[kind];
    if (prefix ? got->n_ids > wanted->n_ids : got->n_ids != wanted->n_ids)
        fail_msg("%s %zu: %zu ids and finish reason %d, undisturbed %zu and %d; %d restarts", kinds[kind].type, kind,
                 got->n_ids, got->finish, wanted->n_ids, wanted->finish, got->n_restarts);
    if (got->n_ids > 0)
        assert_memory_equal(got->ids, wanted->ids, got->n_ids * sizeof *got->ids);
    assert_true(prefix ? got->n_text <= wanted->n_text : got->n_text == wanted->n_text);
    if (got->n_text > 0)
        assert_memory_equal(got->text, wanted->text, got->n_text);
    assert_true(prefix ? got->n_rows <= wanted->n_rows : got->n_rows == wanted->n_rows);
    load->ids += (int)got->n_ids;
}

static void check(struct mixed_load *load, const struct load_client *each, size_t i)
{
    const struct client_request *got = &each->client.requests[i], *wanted = &load->quiet.requests[each->kind[i]];
    bool ended_cancelled = got->terminal == HALO_EV_DONE && got->finish == HALO_WIRE_FINISH_CANCELLED;
    assert_int_equal(got->n_terminal, 1);
    if (each->fate[i] == LOAD_CANCELLED && ended_cancelled) {
        compare_ids(load, got, each->kind[i], true);
        load->cancelled++;
        return;
    }
    if (got->terminal == HALO_EV_ERROR && got->error == HALO_ERROR_ENGINE_LOST) {
        print_message("lost: %s\n", got->message);
        compare_ids(load, got, each->kind[i], true);
        load->lost++;
        return;
    }
    if (got->terminal != wanted->terminal)
        fail_msg("%s %zu ended with %s: %s", kinds[each->kind[i]].type, each->kind[i], halo_ev_type_name(got->terminal),
                 got->message);
    load->late_cancels += each->fate[i] == LOAD_CANCELLED;
    compare_ids(load, got, each->kind[i], false);
    assert_int_equal(got->n_started, wanted->n_started);
    assert_int_equal(got->finish, wanted->finish);
    assert_true(fabs(got->nll - wanted->nll) <= 1e-8 * fabs(wanted->nll));
    load->plain++;
}

/* ---- the clients ---- */

static void open_one(struct mixed_load *load, struct load_client *each)
{
    memset(each, 0, sizeof *each);
    client_open(&each->client, load->fixture);
}

static void cut(struct mixed_load *load, struct load_client *each)
{
    for (size_t i = 0; i < each->client.n_requests; i++)
        load->cut += each->fate[i] != LOAD_ENDED && each->client.requests[i].n_terminal == 0;
    load->cuts++;
    client_close(&each->client);
    open_one(load, each);
}

static void send_one(struct mixed_load *load, struct load_client *each, int64_t now)
{
    size_t kind = load_draw(load, 10) < 8 ? load_draw(load, 16) : load_draw(load, N_KINDS);
    size_t i = send_kind(load, &each->client, kind);
    each->kind[i] = kind;
    each->fate[i] = LOAD_PLAIN;
    load->sent++;
    if (kind < 16 && load_draw(load, 10) == 0)
        each->cancel_at[i] = now + (int64_t)load_draw(load, 300000);
    if (load_draw(load, 25) == 0 && each->cut_at == 0)
        each->cut_at = now + (int64_t)load_draw(load, 400000);
    if (load_draw(load, 15) == 0) {
        each->stalled_until = now + 50000 + (int64_t)load_draw(load, 800000);
        load->stalls++;
    }
}

/* Cancels are requests too; their answers are not compared. */
static void cancel_due(struct mixed_load *load, struct load_client *each, int64_t now)
{
    for (size_t i = 0; i < each->client.n_requests && each->client.n_requests < CLIENT_MAX_REQUESTS; i++) {
        if (each->cancel_at[i] == 0 || now < each->cancel_at[i] || each->client.requests[i].n_terminal > 0)
            continue;
        each->cancel_at[i] = 0;
        each->fate[i] = LOAD_CANCELLED;
        each->fate[client_send(&each->client, "cancel", "\"target\":%zu", i + 1)] = LOAD_ENDED;
    }
}

static void tend(struct mixed_load *load, struct load_client *each, int64_t now, int max_sent)
{
    struct client *client = &each->client;
    for (size_t i = 0; i < client->n_requests; i++)
        if (each->fate[i] != LOAD_ENDED && client->requests[i].n_terminal > 0) {
            check(load, each, i);
            each->fate[i] = LOAD_ENDED;
        }
    if (each->cut_at != 0 && now >= each->cut_at)
        cut(load, each);
    cancel_due(load, each, now);
    if (client->n_requests + 2 * OPEN_EACH >= CLIENT_MAX_REQUESTS) { /* full: a new connection once all is over */
        if (client->n_open == 0) {
            client_close(client);
            open_one(load, each);
        }
        return;
    }
    while (load->sent < max_sent && client->n_open < OPEN_EACH && now >= each->stalled_until)
        send_one(load, each, now);
}

void load_tend(struct mixed_load *load, int64_t now, int max_sent)
{
    for (int i = 0; i < load->n_clients; i++)
        tend(load, &load->clients[i], now, max_sent);
}

int load_read(struct mixed_load *load, int64_t now)
{
    struct pollfd fds[LOAD_MAX_CLIENTS];
    int n_open = 0;
    for (int i = 0; i < load->n_clients; i++) {
        const struct load_client *each = &load->clients[i];
        fds[i] = (struct pollfd){.fd = now < each->stalled_until ? -1 : each->client.fd, .events = POLLIN};
        n_open += each->client.n_open;
    }
    poll(fds, (nfds_t)load->n_clients, 2);
    for (int i = 0; i < load->n_clients; i++)
        if (fds[i].fd >= 0 && fds[i].revents && !client_take(&load->clients[i].client))
            fail_msg("the daemon closed a connection");
    return n_open;
}

/* ---- before and after ---- */

static void run_quietly(struct mixed_load *load)
{
    client_open(&load->quiet, load->fixture);
    struct client loader;
    client_open(&loader, load->fixture);
    client_send(&loader, "load", "\"model\":\"%s\",\"params\":{\"context\":1024}", load->model);
    assert_true(client_wait(&loader, 0, 60000));
    client_close(&loader);
    for (size_t i = 0; i < N_KINDS; i++) {
        send_kind(load, &load->quiet, i);
        assert_true(client_wait(&load->quiet, 0, 60000));
        if (load->quiet.requests[i].terminal == HALO_EV_ERROR)
            fail_msg("undisturbed: %s", load->quiet.requests[i].message);
    }
    load->quiet.n_tokens = 0;
}

static void nothing_is_left(const struct mixed_load *load)
{
    struct client client;
    struct halo_ev ev;
    struct halo_refusal refusal;
    pid_t pid;
    char state;
    client_open(&client, load->fixture);
    int64_t end = load_now_us() + 60000000;
    for (bool clean = false; !clean && load_now_us() < end; usleep(20000)) {
        client_send(&client, "status", "%s", "");
        assert_true(client_wait(&client, 0, 60000));
        assert_int_equal(halo_ev_decode(&ev, client.last_line, strlen(client.last_line), 0, &refusal), 0);
        clean = ev.status.running == 0 && ev.status.queue == 0 && ev.status.connections == 2 &&
                ev.status.models.n == 1 && ev.status.models.at[0].sequences == 0 &&
                n_descriptors(load) == load->n_descriptors + 1;
        if (client.n_requests + 1 >= CLIENT_MAX_REQUESTS) {
            client_close(&client);
            client_open(&client, load->fixture);
        }
        if (!clean && load_now_us() + 100000 > end)
            print_message("%s\n%d descriptors, %d before\n", client.last_line, n_descriptors(load),
                          load->n_descriptors);
        halo_ev_finish(&ev);
        end = clean ? INT64_MAX : end;
    }
    assert_int_equal(end, INT64_MAX);
    assert_int_equal(load_children(load, &pid, &state), 1);
    assert_true(state != 'Z');
    client_close(&client);
}

/* What the engine itself says: no request, no sequence, no page of the KV cache. */
static void nothing_is_held(const struct mixed_load *load)
{
    static const char *const nothing[] = {"\"now_requests\":0,", "\"now_sequences\":0,", "\"now_kv_pages_held\":0}"};
    bool clean = false;
    for (int64_t end = load_now_us() + 60000000; !clean && load_now_us() < end; usleep(20000)) {
        struct client client;
        client_open(&client, load->fixture);
        client_send(&client, "stats", "%s", "");
        assert_true(client_wait(&client, 0, 60000));
        clean = true;
        for (int i = 0; i < 3; i++)
            clean = clean && strstr(client.last_line, nothing[i]);
        if (!clean && load_now_us() + 100000 > end)
            print_message("%s\n", client.last_line);
        client_close(&client);
    }
    assert_true(clean);
}

void load_start(struct mixed_load *load, struct daemon_fixture *fixture, const char *model, int n_clients,
                uint64_t seed)
{
    assert_in_range(n_clients, 1, LOAD_MAX_CLIENTS);
    memset(load, 0, sizeof *load);
    load->fixture = fixture;
    load->model = model;
    load->n_clients = n_clients;
    load->seed = seed;
    run_quietly(load);
    load->n_descriptors = n_descriptors(load);
    for (int i = 0; i < n_clients; i++)
        open_one(load, &load->clients[i]);
}

void load_finish(struct mixed_load *load)
{
    load_tend(load, INT64_MAX / 2, 0);
    for (int i = 0; i < load->n_clients; i++)
        client_close(&load->clients[i].client);
    nothing_is_left(load);
    nothing_is_held(load);
    client_close(&load->quiet);
    print_message("%d requests of %d clients: %d as undisturbed, %d cancelled (%d too late), %d cut off with %d "
                  "connections, %d lost; %d stalls; %d ids compared\n",
                  load->sent, load->n_clients, load->plain, load->cancelled, load->late_cancels, load->cut, load->cuts,
                  load->lost, load->stalls, load->ids);
    assert_int_equal(load->plain + load->cancelled + load->cut + load->lost, load->sent); /* each is accounted for */
    assert_true(load->plain > load->sent / 2);
}
