/* test_hip_cuda.c: the provider exports what the device calls, and refuses with a reason where there is no NVIDIA
 * driver.
 *
 * Usage: test_hip_cuda PATH-OF-PROVIDER. With a card the device opens, or reports that it has no kernels for it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <hip/hip.h>

static const char *provider;

static void every_function_is_there(void **state)
{
    void *library = dlopen(provider, RTLD_NOW | RTLD_LOCAL);
    unsigned n = 0;
    assert_non_null(library);
#define HALO_HIP_FN(name, arguments)                                                                                   \
    if (!dlsym(library, "hip" #name))                                                                                  \
        fail_msg("hip" #name " is missing");                                                                           \
    n++;
#include "hip_api.def"
#undef HALO_HIP_FN
    assert_true(n > 20);
    assert_non_null(dlsym(library, "hipGetDevicePropertiesR0600"));
    dlclose(library);
}

static void calls_without_a_driver_fail(void **state)
{
    void *library = dlopen(provider, RTLD_NOW | RTLD_LOCAL), *p = NULL;
    int (*init)(unsigned int), (*take)(void **, size_t);
    assert_non_null(library);
    *(void **)&init = dlsym(library, "hipInit");
    *(void **)&take = dlsym(library, "hipMalloc");
    if (init(0) != 0) {
        assert_int_equal(init(0), 100); /* hipErrorNoDevice */
        assert_int_equal(take(&p, 16), 100);
    }
    dlclose(library);
}

static void device_opens_or_says_why(void **state)
{
    const struct halo_device_options options = {.library = provider};
    const struct halo_device_ops *ops = halo_device_hip();
    char reason[HALO_DEVICE_REASON] = "";
    int r = ops->probe(&options, reason);
    if (r == -ENODEV)
        assert_non_null(strstr(reason, "finds no GPU"));
    else if (r == -ENOTSUP)
        assert_non_null(strstr(reason, "no kernels for sm_"));
    else
        assert_int_equal(r, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_there),
        cmocka_unit_test(calls_without_a_driver_fail),
        cmocka_unit_test(device_opens_or_says_why),
    };
    if (argc != 2)
        return 2;
    provider = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
