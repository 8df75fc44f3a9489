/* test_library.c: the library as the loader sees it: each function in its version node, nothing left after it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *path;
static int major;

static const struct {
    const char *symbol, *node;
    enum { LOCAL, SENT, ASKED, REFUSED } how;
} exports[] = {
#define HIP_EXPORT(node, how, symbol, result, arguments) {#symbol, "hip_" #node, how},
#define HIP_REFUSED(node, symbol) {#symbol, "hip_" #node, REFUSED},
#include "exports.def"
};
#define N_EXPORTS (sizeof(exports) / sizeof(*exports))

static bool is_exported(size_t i)
{
    return major < 7 || strncmp(exports[i].symbol, "hiprtc", 6) != 0;
}

/* What readelf says of the file: each symbol in its node, and no other. */
static void the_file_has_the_table_s_symbols(void **state)
{
    static bool found[N_EXPORTS];
    char command[1024], name[512];
    size_t n = 0;
    (void)state;
    snprintf(command, sizeof(command),
             "readelf -W --dyn-syms '%s' | awk '$7 != \"UND\" && $4 == \"FUNC\" && $8 !~ /^halo_/ { print $8 }'", path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    while (fscanf(in, "%511s", name) == 1) {
        char *at = strstr(name, "@@");
        size_t i = 0;
        if (!at)
            fail_msg("%s has no version", name);
        *at = '\0';
        while (i < N_EXPORTS && strcmp(exports[i].symbol, name) != 0)
            i++;
        if (i == N_EXPORTS || found[i] || !is_exported(i) || strcmp(exports[i].node, at + 2) != 0)
            fail_msg("%s@@%s is not in the table", name, at + 2);
        found[i] = true;
        n++;
    }
    assert_int_equal(pclose(in), 0);
    for (size_t i = 0; i < N_EXPORTS; i++)
        if (is_exported(i) && !found[i])
            fail_msg("the library lacks %s@@%s", exports[i].symbol, exports[i].node);
    assert_true(n > 500);
}

/* A program that was linked with AMD's library asks for these. */
static void each_node_exists(void **state)
{
    char command[1024], name[64], all[1024] = "", soname[64] = "";
    (void)state;
    snprintf(command, sizeof(command), "readelf -W -V '%s' | sed -n 's/.*Name: \\(hip_[0-9.]*\\).*/\\1/p' | uniq",
             path);
    FILE *in = popen(command, "r");
    assert_non_null(in);
    while (fscanf(in, "%63s", name) == 1 && strlen(all) + sizeof(name) < sizeof(all))
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s ", name);
    assert_int_equal(pclose(in), 0);
    assert_string_equal(all, "hip_4.2 hip_4.3 hip_4.4 hip_4.5 hip_5.0 hip_5.1 hip_5.2 hip_5.3 hip_5.5 hip_5.6 hip_6.0 "
                             "hip_6.1 hip_6.2 hip_6.4 hip_6.5 hip_7.1 hip_7.2 ");
    snprintf(command, sizeof(command), "readelf -W -d '%s' | sed -n 's/.*soname: \\[\\(.*\\)\\]/\\1/p'", path);
    in = popen(command, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%63s", soname), 1);
    assert_int_equal(pclose(in), 0);
    snprintf(name, sizeof(name), "libamdhip64.so.%d", major);
    assert_string_equal(soname, name);
}

/* As the loader binds them; what is refused answers so, and says so once. */
static void each_refused_function_answers(void **state)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    char said[256] = "";
    int ends[2], kept = dup(STDERR_FILENO);
    (void)state;
    if (!library)
        fail_msg("%s", dlerror());
    for (size_t i = 0; i < N_EXPORTS; i++) {
        int (*function)(void) = (int (*)(void))dlvsym(library, exports[i].symbol, exports[i].node);
        if (!function != !is_exported(i))
            fail_msg("%s in %s: %p", exports[i].symbol, exports[i].node, (void *)function);
        if (function && exports[i].how == REFUSED)
            assert_int_equal(function(), 801);
    }
    int (*last)(void) = (int (*)(void))dlsym(library, "hipGetLastError");
    assert_int_equal(last(), 801);
    assert_int_equal(last(), 0);
    dlclose(library);

    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*refused)(void) = (int (*)(void))dlsym(library, "hipMallocManaged");
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    setenv("HIP_REMOTE_DEBUG", "1", 1);
    refused();
    refused();
    unsetenv("HIP_REMOTE_DEBUG");
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof(said) - 1) > 0);
    close(ends[0]);
    assert_string_equal(said,
                        "hip-remote: hipMallocManaged is not supported (docs/HIP-REMOTE.md lists the functions that "
                        "are)\n");
    dlclose(library);
}

static void nothing_else_is_exported(void **state)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)state;
    assert_non_null(dlsym(library, "halo_hip_remote_client"));
    assert_non_null(dlsym(library, "halo_hip_remote_reason"));
    assert_non_null(dlsym(library, "halo_hip_remote_worker"));
    assert_null(dlsym(library, "halo_client_enter"));
    assert_null(dlsym(library, "halo_remote_reader_next"));
    dlclose(library);
}

/* Those that compilers call: each half is one float, and back. */
static void halves_are_converted(void **state)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    float (*widen)(unsigned short) = (float (*)(unsigned short))dlsym(library, "__gnu_h2f_ieee");
    unsigned short (*narrow)(float) = (unsigned short (*)(float))dlsym(library, "__gnu_f2h_ieee");
    (void)state;
    for (unsigned h = 0; h < 65536; h++)
        if ((h & 0x7c00) != 0x7c00 || (h & 0x3ff) == 0)
            assert_int_equal(narrow(widen((unsigned short)h)), h);
    assert_true(widen(0x3c00) == 1 && widen(0x8001) == -0x1p-24f && widen(0x7bff) == 65504);
    assert_true(isnan(widen(0x7e00)) && (narrow(NAN) & 0x7fff) > 0x7c00);
    assert_int_equal(narrow(65519), 0x7bff);
    assert_int_equal(narrow(65520), 0x7c00);
    assert_int_equal(narrow(1 + 0x1p-11f), 0x3c00); /* to even */
    assert_int_equal(narrow(1 + 0x3p-11f), 0x3c02);
    assert_int_equal(narrow(0x1p-25f), 0);
    assert_int_equal(narrow(-0x3p-25f), 0x8002);
    dlclose(library);
}

/* The table of docs/HIP-REMOTE.md. */
static void each_function_is_documented(void **state)
{
    static const char *const rows[] = {"| answered by the client", "| sent, not waited for", "| wait for an answer"};
    static char page[256 << 10], name[600];
    char file[512];
    snprintf(file, sizeof(file), "%s/docs/HIP-REMOTE.md", getenv("HALO_SOURCE_ROOT"));
    FILE *in = fopen(file, "re");
    (void)state;
    assert_non_null(in);
    page[fread(page, 1, sizeof(page) - 1, in)] = '\0';
    fclose(in);
    const char *table = strstr(page, "## Functions of the client");
    assert_non_null(table);
    for (size_t i = 0; i < N_EXPORTS; i++) {
        if (exports[i].how == REFUSED || strncmp(exports[i].symbol, "amd_", 4) == 0)
            continue;
        const char *row = strstr(table, rows[exports[i].how]), *end = row ? strchr(row, '\n') : NULL;
        snprintf(name, sizeof(name), "`%s`", exports[i].symbol);
        const char *found = row ? strstr(row, name) : NULL;
        if (!found || found > end)
            fail_msg("docs/HIP-REMOTE.md does not list %s in the row '%s'", name, rows[exports[i].how]);
    }
}

static int next_fd(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

static void a_thousand_loads_leave_nothing(void **state)
{
    int fd = next_fd();
    (void)state;
    for (int i = 0; i < 1000; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(library);
        int (*last)(void) = (int (*)(void))dlsym(library, "hipGetLastError");
        assert_non_null(last);
        assert_int_equal(last(), 0);
        dlclose(library);
    }
    assert_int_equal(next_fd(), fd);
    assert_null(dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_has_the_table_s_symbols),
        cmocka_unit_test(each_node_exists),
        cmocka_unit_test(each_refused_function_answers),
        cmocka_unit_test(nothing_else_is_exported),
        cmocka_unit_test(halves_are_converted),
        cmocka_unit_test(each_function_is_documented),
        cmocka_unit_test(a_thousand_loads_leave_nothing),
    };
    path = argc > 2 ? argv[1] : "";
    major = argc > 2 ? atoi(argv[2]) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
