/* test_library.c: the library as the loader sees it: each function in its version node, nothing left after it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static const char *path;

static void each_function_is_in_its_node(void **state)
{
    static const struct {
        const char *symbol, *node;
    } exports[] = {
#define HIP_EXPORT(node, name, result, arguments) {"hip" #name, "hip_" #node},
#include "exports.def"
#undef HIP_EXPORT
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)state;
    if (!library)
        fail_msg("%s", dlerror());
    for (size_t i = 0; i < sizeof(exports) / sizeof(*exports); i++) {
        if (!dlvsym(library, exports[i].symbol, exports[i].node))
            fail_msg("%s is not in %s", exports[i].symbol, exports[i].node);
        assert_null(dlvsym(library, exports[i].symbol, "hip_5.0"));
    }
    assert_non_null(dlsym(library, "halo_hip_remote_client"));
    assert_null(dlsym(library, "halo_client_enter"));
    assert_null(dlsym(library, "halo_remote_reader_next"));
    dlclose(library);
}

/* The table of docs/HIP-REMOTE.md. */
static void each_function_is_documented(void **state)
{
    static const char *const names[] = {
#define HIP_EXPORT(node, name, result, arguments) "`hip" #name "`",
#include "exports.def"
#undef HIP_EXPORT
    };
    static char page[256 << 10];
    char file[512];
    snprintf(file, sizeof(file), "%s/docs/HIP-REMOTE.md", getenv("HALO_SOURCE_ROOT"));
    FILE *in = fopen(file, "re");
    (void)state;
    assert_non_null(in);
    page[fread(page, 1, sizeof(page) - 1, in)] = '\0';
    fclose(in);
    const char *table = strstr(page, "## Functions of the client");
    assert_non_null(table);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (!strstr(table, names[i]))
            fail_msg("docs/HIP-REMOTE.md does not list %s", names[i]);
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
        cmocka_unit_test(each_function_is_in_its_node),
        cmocka_unit_test(each_function_is_documented),
        cmocka_unit_test(a_thousand_loads_leave_nothing),
    };
    path = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
