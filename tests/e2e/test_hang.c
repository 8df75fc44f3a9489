/* test_hang.c: a thread of the engine hangs in each kind of work that has a deadline, while a reply is written.
 *
 * halod and the engine are the real ones; engine_hang.c stops a thread where this test says. In each case halod answers
 * all along, kills the engine at the deadline of that work, names thread and work in its log, and starts another
 * engine; the reply goes on there with the same ids, and the request that hung succeeds.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include "daemon_fixture.h"
#include "hang.h"

#define MODEL "fable-Q4_K_M"
#define PATIENCE_MS 240000 /* what is waited for comes, on a slow machine late */
#define COMMIT_MS 100      /* the reply outlasts every deadline of `config` */
#define N_TOKENS 150

/* A slow machine may exceed a deadline without a hang: then another engine dies, which changes no result. */
static const char config[] = "[engine]\nheartbeat_ms = 3000\nload_ms = 3000\nfirst_ms = 3000\nprefill_ms = 3000\n"
                             "step_ms = 3000\ntext_ms = 3000\nrequest_deaths = 100\nbreaker_deaths = 100\n";

static struct daemon_fixture fixture;
static struct hang_control *control;
static char dir[] = "/tmp/halod-hang-XXXXXX", control_path[64], other_path[64];
static struct client_request quiet; /* the reply when nothing hangs; its client stays open */

static const struct hang_case {
    enum hang where;
    const char *type, *rest; /* a request that gets there; NULL: the reply does. OTHER stands for the other model */
    enum halo_ev_type terminal;
    bool unload, load, run; /* the other model, before */
    const char *reason;
} cases[] = {
    {HANG_PORT, .reason = "the engine was silent for "},
    {HANG_TEXT, "tokenize", "\"model\":\"" MODEL "\",\"text\":\"The king\"", HALO_EV_TOKENS,
     .reason = " ms in preparing or reading text: preparing the text of a tokenize request"},
    {HANG_IO, "models", NULL, HALO_EV_MODELS, .reason = " ms in reading or writing files: reading "},
    {HANG_PREFETCH, "load", "OTHER", HALO_EV_LOADED,
     .reason = " ms in reading or writing files: reading the weights of other"},
    {HANG_MODEL, "load", "OTHER", HALO_EV_LOADED, .unload = true,
     .reason = " ms in allocating or freeing a model's memory: "},
    {HANG_FIRST, "generate", "OTHER,\"prompt\":\"Once\",\"max_tokens\":3", HALO_EV_DONE, .unload = true, .load = true,
     .reason = " ms in the first step of a model: "},
    {HANG_PREFILL, "generate", "OTHER,\"prompt\":\"The wolf and the seven little kids\",\"max_tokens\":3", HALO_EV_DONE,
     .run = true, .reason = " ms in a prefill step: "},
    {HANG_DECODE, .reason = " ms in a decode step: "},
    {HANG_STEP, .reason = " ms in a step: "},
};

/* ---- what engine and test share ---- */

static void *map_shared(void)
{
    int fd = open(control_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(*control)), 0);
    void *at = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    close(fd);
    return at;
}

static int begin(void **state)
{
    char command[1024];
    assert_non_null(mkdtemp(dir));
    snprintf(control_path, sizeof(control_path), "%s/control", dir);
    snprintf(other_path, sizeof(other_path), "%s/other.gguf", dir);
    snprintf(command, sizeof(command), "cp '%s/tests/models/" MODEL ".gguf' '%s'", getenv("HALO_SOURCE_ROOT"),
             other_path);
    assert_int_equal(system(command), 0);
    control = map_shared();
    setenv(HANG_VARIABLE, control_path, 1);
    daemon_start(&fixture, config);
    return 0;
}

static int end(void **state)
{
    char command[128];
    daemon_stop(&fixture, 60000);
    munmap(control, sizeof(*control));
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    return system(command);
}

/* ---- the log ---- */

static char *read_log(void)
{
    static char text[1 << 20];
    FILE *file = fopen(fixture.log_path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static void check_log(size_t from, const struct hang_case *c)
{
    const char *log = read_log() + from;
    const char *dead = strstr(log, c->reason);
    if (!dead)
        fail_msg("hang %d: no \"%s\" in:\n%s", c->where, c->reason, log);
}

/* ---- requests ---- */

static void expand(const char *rest, char ret[static 512])
{
    const char *other = rest ? strstr(rest, "OTHER") : NULL;
    if (other)
        snprintf(ret, 512, "%.*s\"model\":\"%s\"%s", (int)(other - rest), rest, other_path, other + strlen("OTHER"));
    else
        snprintf(ret, 512, "%s", rest ? rest : "");
}

static void does(const char *type, const char *rest, enum halo_ev_type wanted)
{
    struct client client;
    char members[512];
    expand(rest, members);
    client_open(&client, &fixture);
    client_send(&client, type, "%s", members);
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    if (client.requests[0].terminal != wanted)
        fail_msg("%s: %s", type, client.requests[0].message);
    client_close(&client);
}

static void send_reply(struct client *client)
{
    client_send(client, "generate",
                "\"model\":\"" MODEL "\",\"prompt\":\"Once upon a time\",\"max_tokens\":%d,\"seed\":5,"
                "\"ignore_eos\":true,\"emit_token_ids\":true",
                N_TOKENS);
}

static void poll_until(struct client *client, bool (*is)(const struct client *client), const char *what)
{
    uint64_t until_ms = halo_clock_ms() + PATIENCE_MS;
    while (!is(client)) {
        if (halo_clock_ms() >= until_ms)
            fail_msg("%s: not within %d ms; log:\n%s", what, PATIENCE_MS, read_log());
        client_poll(client, 10);
    }
}

static bool has_begun(const struct client *client)
{
    return client->requests[0].n_ids > 2;
}

static bool hangs(const struct client *client)
{
    return atomic_load(&control->where) == HANG_NOWHERE;
}

static bool goes_on(const struct client *client)
{
    const struct client_request *reply = &client->requests[0];
    if (reply->n_terminal > 0 && reply->n_restarts == 0)
        fail_msg("the reply ended in the engine that hangs, after %zu ids: %s\n%s", reply->n_ids, reply->message,
                 read_log());
    return reply->n_restarts > 0;
}

static void play(const struct hang_case *c)
{
    struct client client;
    char members[512];
    print_message("hang %d\n", c->where);
    if (c->unload)
        does("unload", "OTHER", HALO_EV_UNLOADED);
    if (c->load)
        does("load", "OTHER", HALO_EV_LOADED);
    if (c->run)
        does("generate", "OTHER,\"prompt\":\"Once\",\"max_tokens\":3", HALO_EV_DONE);
    client_open(&client, &fixture);
    atomic_store(&control->commit_ms, COMMIT_MS);
    send_reply(&client);
    poll_until(&client, has_begun, "the reply begins");
    size_t logged = strlen(read_log());
    atomic_store(&control->where, (int)c->where);
    expand(c->rest, members);
    if (c->type)
        client_send(&client, c->type, "%s", members);
    poll_until(&client, hangs, "a thread hangs");
    daemon_answers(&fixture);
    poll_until(&client, goes_on, "the reply goes on");
    atomic_store(&control->commit_ms, 0);
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    check_log(logged, c);
    const struct client_request *reply = &client.requests[0];
    assert_int_equal(reply->terminal, HALO_EV_DONE);
    assert_int_equal(reply->n_ids, quiet.n_ids);
    assert_memory_equal(reply->ids, quiet.ids, quiet.n_ids * sizeof(*quiet.ids));
    assert_int_equal(reply->n_text, quiet.n_text);
    assert_memory_equal(reply->text, quiet.text, quiet.n_text);
    if (c->type && client.requests[1].terminal != c->terminal)
        fail_msg("hang %d: %s: %s", c->where, c->type, client.requests[1].message);
    client_close(&client);
}

static void every_thread_and_work(void **state)
{
    struct client client;
    client_open(&client, &fixture);
    send_reply(&client);
    assert_true(client_wait(&client, 0, PATIENCE_MS));
    quiet = client.requests[0];
    assert_int_equal(quiet.n_ids, N_TOKENS);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        play(&cases[i]);
    client_close(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_thread_and_work)};
    return cmocka_run_group_tests(tests, begin, end);
}
