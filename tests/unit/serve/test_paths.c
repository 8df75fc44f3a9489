/* test_paths.c: the default places, for a service and for a plain user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <serve/paths.h>

static char dir[64];

static void clear_env(void)
{
    static const char *const names[] = {"RUNTIME_DIRECTORY",
                                        "STATE_DIRECTORY",
                                        "XDG_RUNTIME_DIR",
                                        "XDG_DATA_HOME",
                                        "XDG_CONFIG_HOME",
                                        "XDG_STATE_HOME",
                                        "HOME"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static int set_up(void **state)
{
    snprintf(dir, sizeof(dir), "/tmp/halo-paths-XXXXXX");
    clear_env();
    return !mkdtemp(dir) || chmod(dir, 0777) != 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/halod", dir);
    rmdir(path);
    return rmdir(dir);
}

/* systemd tells the directories, and a list's first entry counts. */
static void service(void **state)
{
    struct halo_config config;
    struct halo_fault fault = {0};
    char text[160], wanted[160];
    snprintf(text, sizeof(text), "%s:/elsewhere", dir);
    setenv("RUNTIME_DIRECTORY", text, 1);
    setenv("STATE_DIRECTORY", "/var/lib/other", 1);
    assert_int_equal(halo_config_init(&config), 0);
    assert_int_equal(halo_paths_complete(&config, &fault), 0);
    snprintf(wanted, sizeof(wanted), "%s/halod.sock", dir);
    assert_string_equal(config.socket_path, wanted);
    assert_string_equal(config.model_dirs[0], "/var/lib/other/models");
    assert_string_equal(config.state_dir, "/var/lib/other");
    assert_non_null(strstr(config.engine_path, "halod-engine"));
    halo_config_finish(&config);
}

/* What the configuration says stays. */
static void keeps_what_is_set(void **state)
{
    struct halo_config config;
    struct halo_fault fault = {0};
    assert_int_equal(halo_config_init(&config), 0);
    assert_int_equal(halo_config_set(&config, "daemon", "socket", "/x/s", &fault), 0);
    assert_int_equal(halo_config_set(&config, "daemon", "state_dir", "/x/st", &fault), 0);
    assert_int_equal(halo_config_set(&config, "engine", "path", "/x/e", &fault), 0);
    assert_int_equal(halo_config_set(&config, "models", "dir", "/x/m", &fault), 0);
    assert_int_equal(halo_paths_complete(&config, &fault), 0);
    assert_string_equal(config.socket_path, "/x/s");
    assert_string_equal(config.engine_path, "/x/e");
    assert_int_equal(config.n_model_dirs, 1);
    halo_config_finish(&config);
}

/* 0 if all is as a plain user should see it; run in a child that gave up root. */
static int look_as_user(void)
{
    struct halo_config config;
    struct halo_fault fault = {0};
    char wanted[160], path[256];
    if (halo_config_init(&config) != 0 || halo_paths_complete(&config, &fault) == 0)
        return 1; /* without any variable there is no place for a socket */
    halo_config_finish(&config);
    if (!strstr(fault.text, "--socket"))
        return 2;
    setenv("XDG_RUNTIME_DIR", dir, 1);
    setenv("HOME", "/home/me", 1);
    if (halo_config_init(&config) != 0 || halo_paths_complete(&config, &fault) != 0)
        return 3;
    snprintf(wanted, sizeof(wanted), "%s/halod/halod.sock", dir);
    if (strcmp(config.socket_path, wanted) != 0 ||
        strcmp(config.model_dirs[0], "/home/me/.local/share/halod/models") != 0)
        return 4;
    *strrchr(wanted, '/') = '\0';
    struct stat st;
    if (stat(wanted, &st) != 0 || (st.st_mode & 0777) != 0700)
        return 5;
    rmdir(wanted);
    halo_config_finish(&config);
    if (halo_paths_config(path, sizeof(path)) != 0 || strcmp(path, "/home/me/.config/halod/halod.conf") != 0)
        return 6;
    setenv("XDG_DATA_HOME", "/data", 1);
    if (halo_config_init(&config) != 0 || halo_paths_complete(&config, &fault) != 0 ||
        strcmp(config.model_dirs[0], "/data/halod/models") != 0)
        return 7;
    rmdir(wanted);
    halo_config_finish(&config);
    return 0;
}

static void plain_user(void **state)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(geteuid() == 0 && setuid(12345) != 0 ? 99 : look_as_user());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(service), CASE(keeps_what_is_set), CASE(plain_user)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
