/* toy_model.c: opens toys. One thread. */
#include "toy_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

int halo_toy_open(const struct halo_toy *toy, const struct halo_model_params *params, struct halo_model **ret,
                  struct halo_fault *fault)
{
    char path[] = "/tmp/halo-toy-XXXXXX";
    int fd = mkstemp(path), r;

    assert_true(fd >= 0);
    close(fd);
    halo_toy_write(toy, path);
    r = halo_model_create(ret, path, params, fault);
    unlink(path);
    assert_true(r <= 0);
    assert_int_equal(r == 0, *ret != NULL);
    return r;
}

void halo_toy_refused(const struct halo_toy *toy, enum halo_fault_code code, const char *fragment,
                      const char *fragment2)
{
    struct halo_model *model = NULL;
    struct halo_fault fault = {0};

    if (halo_toy_open(toy, NULL, &model, &fault) == 0)
        fail_msg("accepted, expected a refusal with \"%s\"", fragment);
    if (fault.code != code || !strstr(fault.text, fragment) || (fragment2 && !strstr(fault.text, fragment2)))
        fail_msg("refused with %s \"%s\", expected %s with \"%s\" and \"%s\"", halo_fault_name(fault.code), fault.text,
                 halo_fault_name(code), fragment, fragment2 ? fragment2 : "");
    if (strncmp(fault.text, "halo-toy-", 9) != 0)
        fail_msg("\"%s\" does not name the file", fault.text);
}

struct halo_model *halo_toy_accepted(const struct halo_toy *toy)
{
    struct halo_model *model = NULL;
    struct halo_fault fault = {0};

    if (halo_toy_open(toy, NULL, &model, &fault) != 0)
        fail_msg("refused: %s: %s", halo_fault_name(fault.code), fault.text);
    return model;
}
