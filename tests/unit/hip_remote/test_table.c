/* test_table.c: what the public description of HIP over the network fixes, and the order of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <hip_remote/table.h>

static void public_numbers_and_names_stay(void **state)
{
    static const struct {
        uint16_t number;
        const char *name;
    } table[] = {
        {0x0001, "HIP_OP_INIT"},
        {0x0002, "HIP_OP_SHUTDOWN"},
        {0x0100, "HIP_OP_GET_DEVICE_COUNT"},
        {0x0101, "HIP_OP_SET_DEVICE"},
        {0x0102, "HIP_OP_GET_DEVICE"},
        {0x0103, "HIP_OP_GET_DEVICE_PROPERTIES"},
        {0x0104, "HIP_OP_DEVICE_SYNCHRONIZE"},
        {0x0200, "HIP_OP_MALLOC"},
        {0x0201, "HIP_OP_FREE"},
        {0x0202, "HIP_OP_MALLOC_HOST"},
        {0x0203, "HIP_OP_FREE_HOST"},
        {0x0210, "HIP_OP_MEMCPY"},
        {0x0211, "HIP_OP_MEMCPY_ASYNC"},
        {0x0220, "HIP_OP_MEMSET"},
        {0x0221, "HIP_OP_MEMSET_ASYNC"},
        {0x0300, "HIP_OP_STREAM_CREATE"},
        {0x0301, "HIP_OP_STREAM_DESTROY"},
        {0x0302, "HIP_OP_STREAM_SYNCHRONIZE"},
        {0x0303, "HIP_OP_STREAM_QUERY"},
        {0x0400, "HIP_OP_EVENT_CREATE"},
        {0x0401, "HIP_OP_EVENT_DESTROY"},
        {0x0402, "HIP_OP_EVENT_RECORD"},
        {0x0403, "HIP_OP_EVENT_SYNCHRONIZE"},
        {0x0404, "HIP_OP_EVENT_ELAPSED_TIME"},
        {0x0500, "HIP_OP_MODULE_LOAD_DATA"},
        {0x0501, "HIP_OP_MODULE_UNLOAD"},
        {0x0502, "HIP_OP_MODULE_GET_FUNCTION"},
        {0x0510, "HIP_OP_LAUNCH_KERNEL"},
        {0x0600, "HIP_OP_GET_LAST_ERROR"},
        {0x0601, "HIP_OP_PEEK_AT_LAST_ERROR"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct halo_remote_op_info *op = halo_remote_op_find(table[i].number);
        assert_non_null(op);
        assert_string_equal(op->name, table[i].name);
    }
}

static void numbers_ascend_and_are_found(void **state)
{
    (void)state;
    for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
        assert_ptr_equal(halo_remote_op_find(halo_remote_ops[i].number), &halo_remote_ops[i]);
        assert_true(i == 0 || halo_remote_ops[i].number > halo_remote_ops[i - 1].number);
        assert_true(strlen(halo_remote_ops[i].doc) > 0);
    }
    assert_null(halo_remote_op_find(0));
    assert_null(halo_remote_op_find(0xffff));
}

/* Bulk data ends a payload; the fields before it fit into what a frame reserves for them. */
static void every_payload_fits_into_a_frame(void **state)
{
    (void)state;
    for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
        const struct halo_remote_shape *shapes[] = {&halo_remote_ops[i].request, &halo_remote_ops[i].reply};
        for (int j = 0; j < 2; j++) {
            int64_t most = 16;
            for (const struct halo_remote_field *f = shapes[j]->fields(); f->kind != HALO_REMOTE_KIND_END; f++) {
                if (f->kind == HALO_REMOTE_KIND_DATA)
                    assert_int_equal(f[1].kind, HALO_REMOTE_KIND_END);
                else
                    most += f->kind == HALO_REMOTE_KIND_TEXT || f->kind == HALO_REMOTE_KIND_BYTES ? 4 + f->hi : 32;
            }
            assert_true(most <= HALO_REMOTE_FIELDS_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_numbers_and_names_stay),
        cmocka_unit_test(numbers_ascend_and_are_found),
        cmocka_unit_test(every_payload_fits_into_a_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
