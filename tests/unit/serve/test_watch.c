/* test_watch.c: the service manager's watchdog is fed only while the engine gets on or is being replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/clock.h>

#include "daemon_priv.h"

#define SECOND 1000000000ull

static char dir[] = "/tmp/halo-watch-XXXXXX";
static int manager = -1;

static int begin(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!mkdtemp(dir))
        return -1;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    return bind(manager, (const struct sockaddr *)&address, sizeof(address));
}

static int end(void **state)
{
    char path[64];
    close(manager);
    snprintf(path, sizeof(path), "%s/notify", dir);
    unlink(path);
    return rmdir(dir);
}

/* What was told: "W" for each WATCHDOG=1, "S" for each STATUS. */
static void expect(struct halo_daemon *daemon, const char *wanted)
{
    char told[16] = "", text[1024];
    halo_watchdog_feed(daemon);
    for (ssize_t n; strlen(told) < 15 && (n = recv(manager, text, sizeof(text) - 1, 0)) >= 0;) {
        text[n] = '\0';
        strcat(told, strcmp(text, "WATCHDOG=1") == 0 ? "W" : strncmp(text, "STATUS=", 7) == 0 ? "S" : "?");
    }
    assert_string_equal(told, wanted);
}

static void feeds_the_healthy_only(void **state)
{
    struct halo_config config;
    struct halo_daemon *daemon = calloc(1, sizeof(*daemon));
    struct halo_engine *engine = &daemon->engine;
    assert_int_equal(halo_config_init(&config), 0);
    daemon->config = engine->config = &config;
    uint64_t now = halo_clock_ns();
    engine->state = HALO_ENGINE_DOWN; /* a start is scheduled */
    expect(daemon, "W");
    engine->state = HALO_ENGINE_STARTING;
    engine->spawned_ns = now;
    expect(daemon, "W");
    engine->spawned_ns = now - 61 * SECOND;
    expect(daemon, "S");
    expect(daemon, ""); /* said once */
    engine->state = HALO_ENGINE_UP;
    engine->heard_ns = now;
    expect(daemon, "W");
    engine->heard_ns = now - 21 * SECOND;
    expect(daemon, "S");
    engine->state = HALO_ENGINE_DYING; /* killed just now */
    engine->died_ns = now;
    expect(daemon, "W");
    engine->died_ns = now - 11 * SECOND; /* and still there */
    expect(daemon, "S");
    daemon->state = HALO_DAEMON_DRAINING; /* the end has time limits of its own */
    expect(daemon, "W");
    halo_config_finish(&config);
    free(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(feeds_the_healthy_only)};
    const char *systemd = getenv("HALO_TEST_SYSTEMD");
    if (!systemd || strcmp(systemd, "1") != 0) {
        fprintf(stderr, "skipped: built without libsystemd\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, begin, end);
}
