/* test_daemon_queues.c: a killed engine's hardware queues are gone before the next engine starts, or halod says that
 * they are not. The driver's list is a made-up folder. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "rig.h"

static struct rig rig;
static struct client client;
static char list[32];

static void path_of(char ret[static 96], pid_t pid, const char *rest)
{
    snprintf(ret, 96, "%s/%ld%s", list, (long)pid, rest);
}

/* The driver lists two queues of the process. */
static void queues_add(pid_t pid)
{
    char path[96];
    for (const char *const *rest = (const char *const[]){"", "/queues", "/queues/0", "/queues/3", NULL}; *rest;
         rest++) {
        path_of(path, pid, *rest);
        assert_int_equal(mkdir(path, 0700), 0);
    }
}

static void queues_remove(pid_t pid)
{
    char path[96];
    for (const char *const *rest = (const char *const[]){"/queues/3", "/queues/0", "/queues", "", NULL}; *rest;
         rest++) {
        path_of(path, pid, *rest);
        assert_int_equal(rmdir(path), 0);
    }
}

/* `ms`: how long halod waits for the queues. */
static void start(const char *ms)
{
    char dir[64], limit[64];
    if (strcmp(getenv("HALO_TEST_INJECT"), "1") != 0)
        skip();
    snprintf(list, sizeof(list), "/tmp/halo-queues-XXXXXX");
    assert_non_null(mkdtemp(list));
    snprintf(dir, sizeof(dir), "HALO_INJECT_QUEUES=%s", list);
    snprintf(limit, sizeof(limit), "HALO_INJECT_QUEUES_MS=%s", ms);
    rig_start(&rig, "[engine]\nheartbeat_ms = 20000\nwait_ms = 3600000\n", (const char *const[]){dir, limit, NULL});
    client_connect(&client, &rig);
}

static void stop(void)
{
    client_close(&client);
    rig_stop(&rig);
    assert_int_equal(rmdir(list), 0);
}

/* Begins a reply that the first engine does not finish, and kills that engine, whose pid it returns. */
static pid_t kill_in_the_middle(void)
{
    struct halo_ev ev;
    pid_t pid = rig_engine_pid(&rig);
    queues_add(pid);
    client_send(&client, "{\"type\":\"generate\",\"id\":1,\"prompt\":\"n=20 from=2\",\"emit_token_ids\":true}");
    client_event(&client, &ev);
    assert_int_equal(ev.type, HALO_EV_STARTED);
    halo_ev_finish(&ev);
    assert_int_equal(kill(pid, SIGKILL), 0);
    return pid;
}

/* Reads the reply to its end; what the notice of the restart says. */
static void read_reply(char *ret_notice, size_t room)
{
    bool over = false;
    ret_notice[0] = '\0';
    while (!over) {
        struct halo_ev ev;
        client_event(&client, &ev);
        assert_int_not_equal(ev.type, HALO_EV_ERROR);
        over = ev.type == HALO_EV_DONE;
        if (ev.type == HALO_EV_NOTICE)
            snprintf(ret_notice, room, "%s", ev.notice.message.at);
        halo_ev_finish(&ev);
    }
}

static bool status_tells_queues(void)
{
    struct halo_ev ev;
    client_send(&client, "{\"type\":\"status\",\"id\":7}");
    client_terminal(&client, 7, &ev);
    assert_int_equal(ev.type, HALO_EV_STATUS);
    bool tells = ev.status.has_more && strstr(ev.status.more.at, "\"queues_held\":2");
    halo_ev_finish(&ev);
    return tells;
}

static void the_next_engine_waits_for_them(void **state)
{
    char notice[512];
    start("3600000");
    pid_t pid = kill_in_the_middle();
    rig_wait_log(&rig, "waits for 2 hardware queues");
    assert_int_equal(rig_engine_starts(&rig), 1);
    queues_remove(pid);
    read_reply(notice, sizeof(notice));
    assert_string_not_equal(notice, "");
    assert_null(strstr(notice, "hardware queues"));
    assert_false(status_tells_queues());
    assert_false(rig_log_has(&rig, "starts beside them"));
    stop();
}

static void queues_that_stay_are_told(void **state)
{
    char notice[512];
    start("1");
    pid_t pid = kill_in_the_middle();
    read_reply(notice, sizeof(notice));
    assert_true(rig_log_has(&rig, "still has 2 hardware queues of the engine that died"));
    if (!strstr(notice, "the GPU's driver still had 2 of its hardware queues"))
        fail_msg("the notice says '%s'", notice);
    assert_true(status_tells_queues());
    queues_remove(pid);
    stop();
}

static void without_queues_nothing_waits(void **state)
{
    char notice[512];
    start("3600000");
    pid_t pid = kill_in_the_middle();
    queues_remove(pid); /* at once, or while it waits */
    read_reply(notice, sizeof(notice));
    assert_false(status_tells_queues());
    pid = rig_engine_pid(&rig);
    client_send(&client, "{\"type\":\"generate\",\"id\":2,\"prompt\":\"n=20 die=4\"}");
    read_reply(notice, sizeof(notice));
    assert_string_not_equal(notice, "");
    assert_false(status_tells_queues());
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_engine_waits_for_them),
        cmocka_unit_test(queues_that_stay_are_told),
        cmocka_unit_test(without_queues_nothing_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
