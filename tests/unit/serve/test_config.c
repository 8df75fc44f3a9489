/* test_config.c: halod.conf and the command line: what is taken, what is refused and at which line, and that the
 * documentation lists every key with its default. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <serve/config.h>
#include <serve/options.h>

static int read_text(struct halo_config *config, const char *text, size_t len, struct halo_fault *fault)
{
    char path[] = "/tmp/halo-conf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    close(fd);
    assert_int_equal(halo_config_init(config), 0);
    int r = halo_config_read(config, path, fault);
    unlink(path);
    return r;
}

static void takes_everything(void **state)
{
    static const char text[] =
        "# comment\n; another\n[daemon]\nsocket = /run/x.sock\nlog_level = debug\ndrain_ms = 1234\n"
        "[models]\ndir = /a b\ndir = /c\n"
        "[engine]\n  device = cpu\n\tthreads = 3\r\nheartbeat_ms=700\n"
        "[defaults]\nnormalize = no\nemit_token_ids = on\n[limits]\nstall_ms = 50 ; a comment\n";
    struct halo_config config;
    struct halo_fault fault = {0};
    if (read_text(&config, text, sizeof(text) - 1, &fault) != 0)
        fail_msg("%s", fault.text);
    assert_string_equal(config.socket_path, "/run/x.sock");
    assert_int_equal(config.log_level, HALO_LOG_DEBUG);
    assert_int_equal(config.drain_ms, 1234);
    assert_int_equal(config.n_model_dirs, 2);
    assert_string_equal(config.model_dirs[0], "/a b");
    assert_string_equal(config.model_dirs[1], "/c");
    assert_string_equal(config.device, "cpu");
    assert_int_equal(config.threads, 3);
    assert_int_equal(config.heartbeat_ms, 700);
    assert_false(config.normalize);
    assert_true(config.emit_token_ids);
    assert_int_equal(config.stall_ms, 50);
    assert_int_equal(config.connections, 256);
    assert_int_equal(halo_config_check(&config, &fault), 0);
    halo_config_finish(&config);
}

static void refuses(void **state)
{
    static const struct {
        const char *text;
        const char *says; /* after the path */
    } cases[] = {
        {"[daemon]\nsockt = /x\n", ":2: unknown key 'sockt' in section [daemon]"},
        {"\n\n[demon]\nsocket = /x\n", ":4: unknown section [demon]"},
        {"socket = /x\n", ":1: 'socket' stands before the first [section]"},
        {"[daemon\ndrain_ms = 5\n", ":2: 'drain_ms' stands before the first [section]"},
        {"[engine]\ndevice = gpu\n", ":2: device: 'gpu' is not one of"},
        {"[engine]\nthreads = many\n", ":2: threads: 'many' is not a whole number"},
        {"[engine]\nthreads = 3x\n", ":2: threads: '3x'"},
        {"[engine]\nthreads = 99999\n", ":2: threads: 99999 is not between 0 and 1024"},
        {"[engine]\nthreads = 99999999999999999999\n", ":2: threads: '99999999999999999999'"},
        {"[limits]\nconnections = 0\n", ":2: connections: 0 is not between 1"},
        {"[defaults]\nnormalize = maybe\n", ":2: normalize: 'maybe' is neither"},
        {"[daemon]\nlog_level = loud\n", ":2: log_level: 'loud'"},
        {"[daemon]\nsocket =\n", ":2: socket: has no value"},
        {"[daemon]\nsocket = /234567890123456789012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789\n",
         ":2: socket: the path has 109 bytes, at most 107 are allowed"},
        {"[daemon]\nwhat is this\n", ":2: neither"},
        {"[daemon\n", ":1: neither"},
        {"[daemon]\nsocket = /x\n    /y\n", ":3: neither"}, /* an indented line continues nothing */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_config config;
        struct halo_fault fault = {0};
        assert_int_equal(read_text(&config, cases[i].text, strlen(cases[i].text), &fault), -EINVAL);
        if (!strstr(fault.text, cases[i].says))
            fail_msg("case %zu says '%s', wanted '%s'", i, fault.text, cases[i].says);
        halo_config_finish(&config);
    }
}

static void takes_paths_as_people_write_them(void **state)
{
    static const struct {
        const char *value, *path;
    } cases[] = {
        {"/a/b", "/a/b"},
        {"\"/a b\"", "/a b"},
        {"'/a'", "/a"},
        {"\"/a'", "\"/a'"},
        {"~", "/home/u"},
        {"~/m", "/home/u/m"},
        {"\"~/m\" # mine", "/home/u/m"},
        {"~other/m", "~other/m"}, /* halod looks up nobody's home */
        {"/a#b", "/a#b"},
        {"/a   # b # c", "/a"},
    };
    setenv("HOME", "/home/u", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_config config;
        struct halo_fault fault = {0};
        char text[128];
        snprintf(text, sizeof(text), "[models]\ndir = %s\n[daemon]\nstate_dir = %s\n", cases[i].value, cases[i].value);
        assert_int_equal(read_text(&config, text, strlen(text), &fault), 0);
        assert_string_equal(config.model_dirs[0], cases[i].path);
        assert_string_equal(config.state_dir, cases[i].path);
        halo_config_finish(&config);
    }
    struct halo_config config;
    struct halo_fault fault = {0};
    unsetenv("HOME");
    assert_int_equal(read_text(&config, "[models]\ndir = ~/m\n", 19, &fault), -EINVAL);
    assert_non_null(strstr(fault.text, ":2: dir: '~/m' needs HOME, which is not set"));
    halo_config_finish(&config);
    assert_int_equal(halo_config_init(&config), 0);
    for (int i = 0; i < HALO_CONFIG_MODEL_DIRS; i++)
        assert_int_equal(halo_config_set(&config, "models", "dir", "/a", &fault), 0);
    assert_int_equal(halo_config_set(&config, "models", "dir", "/a", &fault), -EINVAL);
    assert_string_equal(fault.text, "dir: more than 64 folders");
    halo_config_finish(&config);
}

static void takes_times_with_units(void **state)
{
    static const struct {
        const char *value;
        int64_t seconds; /* -2: refused */
    } cases[] = {
        {"0", 0},           {"-1", 0},
        {"300", 300},       {"90s", 90},
        {"5m", 300},        {"1h", 3600},
        {"2d", 172800},     {"m", -2},
        {"5x", -2},         {"5mm", -2},
        {"-2", -2},         {"5 m", -2},
        {"", -2},           {"1000000000", 1000000000},
        {"1000000001", -2}, {"999999999999d", -2},
        {"30000000h", -2},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_config config;
        struct halo_fault fault = {0};
        assert_int_equal(halo_config_init(&config), 0);
        config.keep_alive_s = 7;
        int r = halo_config_set(&config, "models", "keep_alive_s", cases[i].value, &fault);
        if (r != (cases[i].seconds == -2 ? -EINVAL : 0) || config.keep_alive_s != (r < 0 ? 7 : cases[i].seconds))
            fail_msg("'%s': %d, %lld", cases[i].value, r, (long long)config.keep_alive_s);
        halo_config_finish(&config);
    }
}

static void refuses_odd_lines(void **state)
{
    char text[1024];
    struct halo_config config;
    struct halo_fault fault = {0};
    memset(text, 'x', sizeof(text));
    memcpy(text, "[daemon]\nsocket = /", 19);
    text[sizeof(text) - 1] = '\n';
    assert_int_equal(read_text(&config, text, sizeof(text), &fault), -EINVAL);
    assert_non_null(strstr(fault.text, ":2: the line is longer than"));
    halo_config_finish(&config);
    assert_int_equal(read_text(&config, "[daemon]\nsock\0et = /x\n", 22, &fault), -EINVAL);
    assert_non_null(strstr(fault.text, ":2: the line holds a NUL byte"));
    halo_config_finish(&config);
    assert_int_equal(halo_config_init(&config), 0);
    assert_int_equal(halo_config_read(&config, "/nonexistent/halod.conf", &fault), -ENOENT);
    assert_non_null(strstr(fault.text, "/nonexistent/halod.conf"));
    assert_int_equal(halo_config_read(&config, "/", &fault), -EISDIR);
    assert_string_equal(fault.text, "cannot read /: Is a directory");
    halo_config_finish(&config);
}

static void checks_relations(void **state)
{
    struct halo_config config;
    struct halo_fault fault = {0};
    assert_int_equal(halo_config_init(&config), 0);
    config.output_low_bytes = config.output_high_bytes;
    assert_int_equal(halo_config_check(&config, &fault), -EINVAL);
    config.output_low_bytes = 1;
    config.restart_min_ms = config.restart_max_ms + 1;
    assert_int_equal(halo_config_check(&config, &fault), -EINVAL);
    config.restart_min_ms = 1;
    config.resume_user_bytes = config.resume_bytes + 1;
    assert_int_equal(halo_config_check(&config, &fault), -EINVAL);
    halo_config_finish(&config);
}

static void a_worker_has_an_address(void **state)
{
    static const struct {
        const char *remote, *key, *device, *says; /* says NULL: accepted */
    } cases[] = {
        {"gpu-server:18515", NULL, "auto", NULL},
        {"unix:/run/user/1000/hip-worker.sock", NULL, "hip", NULL},
        {"[::1]:18515", "/etc/halod/key", "hip", NULL},
        {"gpu-server", NULL, "auto", "neither unix:PATH nor HOST:PORT"},
        {"a:1, unix:/b", "/etc/halod/key", "auto", NULL},
        {"a:1, b", NULL, "auto", "' b' is neither unix:PATH nor HOST:PORT"},
        {"a:1,", NULL, "auto", "'' is neither unix:PATH nor HOST:PORT"},
        {"a:65536", NULL, "auto", "'a:65536' is neither unix:PATH nor HOST:PORT"},
        {"a:0", NULL, "auto", "'a:0' is neither"},
        {"a:", NULL, "auto", "'a:' is neither"},
        {"a:1x", NULL, "auto", "'a:1x' is neither"},
        {":1", NULL, "auto", "':1' is neither"},
        {"unix:", NULL, "auto", "'unix:' is neither"},
        {"tcp:a:1", NULL, "auto", NULL},
        {"[]:1", NULL, "auto", "'[]:1' is neither"},
        /* A path that the client has no room for: 104 bytes. */
        {"unix:/1234567890123456789012345678901234567890123456789/1234567890123456789012345678901234567890123456789/"
         "123",
         NULL, "auto", "is neither"},
        {"gpu-server:18515", NULL, "cpu", "device = cpu uses no worker"},
        {NULL, "/etc/halod/key", "auto", "no remote to use it for"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_config config;
        struct halo_fault fault = {0};
        assert_int_equal(halo_config_init(&config), 0);
        assert_int_equal(halo_config_set(&config, "engine", "device", cases[i].device, &fault), 0);
        if (cases[i].remote)
            assert_int_equal(halo_config_set(&config, "engine", "remote", cases[i].remote, &fault), 0);
        if (cases[i].key)
            assert_int_equal(halo_config_set(&config, "engine", "remote_key", cases[i].key, &fault), 0);
        assert_int_equal(halo_config_check(&config, &fault), cases[i].says ? -EINVAL : 0);
        if (cases[i].says && !strstr(fault.text, cases[i].says))
            fail_msg("%s", fault.text);
        halo_config_finish(&config);
    }
}

static void gpus_need_a_device_that_has_some(void **state)
{
    static const char *const devices[] = {"auto", "hip", "cpu"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct halo_config config;
        struct halo_fault fault = {0};
        assert_int_equal(halo_config_init(&config), 0);
        assert_int_equal(halo_config_set(&config, "engine", "device", devices[i], &fault), 0);
        assert_int_equal(halo_config_set(&config, "engine", "gpus", "2", &fault), 0);
        assert_int_equal(halo_config_check(&config, &fault), i == 2 ? -EINVAL : 0);
        assert_true(i < 2 || strstr(fault.text, "device = cpu uses no GPU"));
        halo_config_finish(&config);
    }
}

static void parses_flags(void **state)
{
    static const char *const argv[] = {
        "halod", "--socket",  "/s", "--model-dir=/a", "--model-dir", "/b",          "--device", "cpu",      "--engine",
        "/e",    "--hip-lib", "/h", "--log-level",    "warn",        "--state-dir", "/st",      "--config", "/c",
        NULL};
    struct halo_options options;
    struct halo_config config;
    struct halo_fault fault = {0};
    assert_int_equal(halo_options_parse(&options, 18, (char **)argv, &fault), 0);
    assert_string_equal(options.config_path, "/c");
    assert_int_equal(halo_config_init(&config), 0);
    assert_int_equal(halo_config_add_model_dir(&config, "/from-the-file"), 0);
    assert_int_equal(halo_options_apply(&options, &config, &fault), 0);
    assert_string_equal(config.socket_path, "/s");
    assert_int_equal(config.n_model_dirs, 2); /* flags replace the file's */
    assert_string_equal(config.model_dirs[1], "/b");
    assert_string_equal(config.device, "cpu");
    assert_string_equal(config.engine_path, "/e");
    assert_string_equal(config.hip_lib, "/h");
    assert_string_equal(config.state_dir, "/st");
    assert_int_equal(config.log_level, HALO_LOG_WARN);
    options.device = "tpu";
    assert_int_equal(halo_options_apply(&options, &config, &fault), -EINVAL);
    halo_config_finish(&config);
}

static void refuses_flags(void **state)
{
    static const char *const lines[][3] = {{"halod", "--sock", NULL},
                                           {"halod", "--nonsense", NULL},
                                           {"halod", "extra", NULL},
                                           {"halod", "--socket=", NULL},
                                           {"halod", "-x", NULL}};
    for (size_t i = 0; i < 5; i++) {
        struct halo_options options;
        struct halo_fault fault = {0};
        assert_int_equal(halo_options_parse(&options, 2, (char **)lines[i], &fault), HALO_OPTIONS_E_USAGE);
        assert_true(strlen(fault.text) > 10);
    }
    static const char *const empty[] = {"halod", "--device", "cpu", "--model-dir", "", NULL};
    struct halo_options options;
    struct halo_fault fault = {0};
    assert_int_equal(halo_options_parse(&options, 5, (char **)empty, &fault), HALO_OPTIONS_E_USAGE);
    assert_string_equal(fault.text, "empty value for '--model-dir' (halod --help lists the options)");
}

/* The sample file: what it has commented out are keys that exist, with the defaults. */
static void sample_is_true(void **state)
{
    static char text[1 << 14], active[1 << 14];
    char path[512];
    const char *root = getenv("HALO_SOURCE_ROOT");
    struct halo_config config, defaults;
    struct halo_fault fault = {0};
    struct halo_config_key_info info;
    assert_non_null(root);
    snprintf(path, sizeof(path), "%s/systemd/halod.conf", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    size_t n = 0, n_keys = 0;
    for (const char *at = text; *at != '\0'; at++) {
        bool starts = at == text || at[-1] == '\n';
        n_keys += starts && *at == ';';
        if (!(starts && *at == ';'))
            active[n++] = *at;
    }
    assert_true(n_keys > 10);
    if (read_text(&config, active, n, &fault) != 0)
        fail_msg("%s", fault.text);
    assert_int_equal(halo_config_init(&defaults), 0);
    assert_string_equal(config.device, defaults.device);
    assert_int_equal(config.log_level, defaults.log_level);
    assert_int_equal(config.normalize, defaults.normalize);
    for (size_t i = 0; halo_config_key_at(i, &info); i++)
        if (info.is_number)
            assert_int_equal(halo_config_number(&config, i), info.value);
    halo_config_finish(&config);
    halo_config_finish(&defaults);
}

/* docs/CONFIG.md has one table row for each key: | `key` | range | default | ... */
static char text[1 << 16];

static void read_doc(const char *name)
{
    char path[512];
    const char *root = getenv("HALO_SOURCE_ROOT");
    assert_non_null(root);
    snprintf(path, sizeof(path), "%s/docs/%s", root, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
}

/* In its section, with range and default. */
static void documented_in_the_man_page(void **state)
{
    struct halo_config_key_info info;
    size_t n_keys = 0, n_entries = 0;
    read_doc("halod.conf.5");
    for (; halo_config_key_at(n_keys, &info); n_keys++) {
        char heading[64], entry[256];
        snprintf(heading, sizeof(heading), "\n.SH \"[%s]\"\n", info.section);
        if (info.is_number)
            snprintf(entry, sizeof(entry), "\n.TP\n.B %s\n(%lld \\.\\|.\\|. %lld; default: %lld)\n", info.key,
                     (long long)info.min, (long long)info.max, (long long)info.value);
        else
            snprintf(entry, sizeof(entry), "\n.TP\n.B %s\n(", info.key);
        const char *section = strstr(text, heading), *at = section ? strstr(section, entry) : NULL;
        const char *next = section ? strstr(section + 1, "\n.SH ") : NULL;
        if (!at || (next && next < at))
            fail_msg("halod.conf(5) has no entry '%s' in [%s]", entry, info.section);
    }
    for (const char *at = text; (at = strstr(at, "\n.TP\n.B ")); at++)
        n_entries++;
    assert_true(n_keys > 20);
    assert_int_equal(n_entries, n_keys);
}

static void documented(void **state)
{
    struct halo_config_key_info info;
    size_t n_keys = 0;
    read_doc("CONFIG.md");
    for (; halo_config_key_at(n_keys, &info); n_keys++) {
        char row[256];
        if (info.is_number)
            snprintf(row, sizeof(row), "| `[%s]` | `%s` | %lld … %lld | %lld |", info.section, info.key,
                     (long long)info.min, (long long)info.max, (long long)info.value);
        else
            snprintf(row, sizeof(row), "| `[%s]` | `%s` |", info.section, info.key);
        if (!strstr(text, row))
            fail_msg("docs/CONFIG.md has no row '%s'", row);
    }
    size_t n_rows = 0;
    for (const char *at = text; (at = strstr(at, "\n| `[")); at++)
        n_rows++;
    assert_true(n_keys > 20);
    assert_int_equal(n_rows, n_keys); /* and no row for a key that is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_everything),
        cmocka_unit_test(refuses),
        cmocka_unit_test(takes_paths_as_people_write_them),
        cmocka_unit_test(takes_times_with_units),
        cmocka_unit_test(refuses_odd_lines),
        cmocka_unit_test(checks_relations),
        cmocka_unit_test(a_worker_has_an_address),
        cmocka_unit_test(gpus_need_a_device_that_has_some),
        cmocka_unit_test(parses_flags),
        cmocka_unit_test(refuses_flags),
        cmocka_unit_test(documented_in_the_man_page),
        cmocka_unit_test(documented),
        cmocka_unit_test(sample_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
