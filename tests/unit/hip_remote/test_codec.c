/* test_codec.c: every operation both ways, and what the decoder refuses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <hip_remote/codec.h>
#include <hip_remote/stub.h>

#include "fill.h"

#define FRAME_BYTES (HALO_REMOTE_HEADER_BYTES + HALO_REMOTE_PAYLOAD_MAX)
#define ROUNDS 200

static uint8_t frame[FRAME_BYTES], again[FRAME_BYTES];

/* ---- the stubs against a worker that decodes what it gets and answers with what it is told ---- */

struct echo {
    struct halo_remote_port port;
    union halo_remote_request got;
    const union halo_remote_reply *answer;
    struct halo_remote_header h; /* of the frame that `got` points into */
};

static int echo_call(struct halo_remote_port *port, enum halo_remote_op op, const void *request, void *ret_reply)
{
    struct echo *e = (struct echo *)port;
    struct halo_remote_header h = {.op = (uint16_t)op, .id = 77, .lane = 3, .device = 1};
    assert_true(halo_remote_request_encode(frame, sizeof(frame), &h, request, true) > 0);
    assert_int_equal(halo_remote_header_decode(frame, &e->h), 0);
    assert_int_equal(halo_remote_request_decode(&e->h, frame + HALO_REMOTE_HEADER_BYTES, &e->got, NULL), 0);
    h = e->h;
    assert_true(halo_remote_reply_encode(again, sizeof(again), &h, e->answer, true) > 0);
    assert_int_equal(halo_remote_header_decode(again, &h), 0);
    assert_int_equal(h.op, op);
    assert_int_equal(h.id, 77);
    assert_int_equal(h.lane, 3);
    assert_int_equal(h.device, 1);
    return halo_remote_reply_decode(&h, again + HALO_REMOTE_HEADER_BYTES, ret_reply, NULL);
}

static void stubs_carry_requests_and_replies(void **state)
{
    struct echo e = {.port.call = echo_call};
    union halo_remote_request q;
    union halo_remote_reply wanted, got;
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct fill_choices c = {.state = round};
        e.answer = &wanted;
#define OP(number, ID, name_, answer_, quota, doc)                                                                     \
    fill_request(&halo_remote_ops[HALO_REMOTE_AT_##ID], &c, round == 1, &q);                                           \
    fill_reply(&halo_remote_ops[HALO_REMOTE_AT_##ID], &c, round == 1, &wanted);                                        \
    got = (union halo_remote_reply){0};                                                                                \
    assert_int_equal(halo_remote_##name_(&e.port, &q.name_, &got.name_), 0);                                           \
    assert_true(fill_same(&halo_remote_ops[HALO_REMOTE_AT_##ID].request, &q, &e.got));                                 \
    assert_true(fill_same(&halo_remote_ops[HALO_REMOTE_AT_##ID].reply, &wanted, &got));
#include <hip_remote/hip_remote.def>
    }
}

/* ---- what must not pass ---- */

static int encode_request(const struct halo_remote_op_info *op, const void *q, uint16_t flags)
{
    struct halo_remote_header h = {.op = op->number, .flags = flags};
    return halo_remote_request_encode(frame, sizeof(frame), &h, q, true);
}

static int decode_request(uint32_t payload_bytes, union halo_remote_request *ret)
{
    /* A block of exactly this size: AddressSanitizer sees a read past its end. */
    uint8_t *payload = malloc(payload_bytes ? payload_bytes : 1);
    struct halo_remote_header h;
    assert_non_null(payload);
    assert_int_equal(halo_remote_header_decode(frame, &h), 0);
    h.payload_bytes = payload_bytes;
    memcpy(payload, frame + HALO_REMOTE_HEADER_BYTES, payload_bytes);
    int r = halo_remote_request_decode(&h, payload, ret, NULL);
    free(payload);
    return r;
}

static bool ends_with_data(const struct halo_remote_shape *shape)
{
    const struct halo_remote_field *f = shape->fields();
    while (f->kind != HALO_REMOTE_KIND_END && f->kind != HALO_REMOTE_KIND_DATA)
        f++;
    return f->kind == HALO_REMOTE_KIND_DATA;
}

static void a_payload_of_another_length_is_refused(void **state)
{
    union halo_remote_request q;
    (void)state;
    for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
        const struct halo_remote_op_info *op = &halo_remote_ops[i];
        struct fill_choices c = {.state = 5};
        fill_request(op, &c, false, &q);
        int n = encode_request(op, &q, 0) - HALO_REMOTE_HEADER_BYTES;
        assert_true(n >= 0);
        assert_int_equal(decode_request((uint32_t)n, &q), 0);
        for (int cut = 0; cut < n; cut++)
            if (op->number != HIP_OP_BLOB_WRITE && op->number != HIP_OP_MEMCPY_TO_BLOB &&
                op->number != HIP_OP_MODULE_LOAD_DATA)
                assert_true(decode_request((uint32_t)cut, &q) < 0);
        frame[HALO_REMOTE_HEADER_BYTES + n] = 0;
        if (!ends_with_data(&op->request))
            assert_int_equal(decode_request((uint32_t)n + 1, &q), -EBADMSG);
    }
}

static void fields_out_of_range_are_not_encoded(void **state)
{
    union halo_remote_request q;
    union halo_remote_reply a;
    size_t n_broken = 0;
    (void)state;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct fill_choices c = {.state = round};
        for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
            const struct halo_remote_op_info *op = &halo_remote_ops[i];
            struct halo_remote_header h = {.op = op->number};
            fill_request(op, &c, false, &q);
            if (fill_break(&op->request, &c, &q)) {
                assert_int_equal(encode_request(op, &q, 0), -ERANGE);
                n_broken++;
            }
            fill_reply(op, &c, false, &a);
            if (fill_break(&op->reply, &c, &a))
                assert_int_equal(halo_remote_reply_encode(frame, sizeof(frame), &h, &a, true), -ERANGE);
        }
    }
    assert_true(n_broken > 40 * ROUNDS);
}

/* A field of 4 or 8 bytes at its place in a frame, replaced. */
static void patch(size_t at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        frame[HALO_REMOTE_HEADER_BYTES + at + i] = (uint8_t)(value >> 8 * i);
}

static void fields_out_of_range_are_refused_on_the_wire(void **state)
{
    const struct halo_remote_malloc good = {.size = 4096, .flags = 1};
    const struct halo_remote_op_info *op = halo_remote_op_find(HIP_OP_MALLOC);
    const struct halo_remote_field *field;
    union halo_remote_request q;
    struct halo_remote_header h;
    static const struct {
        size_t at, n;
        uint64_t value;
    } table[] = {{0, 8, 0}, {0, 8, UINT64_MAX}, {0, 8, INT64_MAX}, {8, 4, 5}, {8, 4, UINT32_MAX}};
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        assert_true(encode_request(op, &good, 0) > 0);
        patch(table[i].at, table[i].value, table[i].n);
        assert_int_equal(halo_remote_header_decode(frame, &h), 0);
        assert_int_equal(halo_remote_request_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, &q, &field), -ERANGE);
        assert_string_equal(field->name, table[i].at ? "flags" : "size");
    }
}

static void copies_whose_fields_contradict_are_refused(void **state)
{
    const struct halo_remote_op_info *op = halo_remote_op_find(HIP_OP_MEMCPY_ASYNC);
    const struct halo_remote_bytes abc = {"abc", 3}, none = {0};
    const struct {
        struct halo_remote_memcpy_async q;
        uint16_t flags;
        int r;
    } table[] = {
        {{.to = 64, .size = 3, .kind = 1, .data = abc}, HALO_REMOTE_FLAG_NO_REPLY, 0},
        {{.to = 64, .size = 4, .kind = 1, .data = abc}, 0, -ERANGE},            /* says more than it brings */
        {{.to = 64, .from = 1, .size = 3, .kind = 1, .data = abc}, 0, -ERANGE}, /* an address of the host's side */
        {{.to = 0, .size = 3, .kind = 1, .data = abc}, 0, -ERANGE},
        {{.from = 64, .size = 3, .kind = 2, .data = none}, 0, 0},
        {{.from = 64, .size = 3, .kind = 2, .data = none}, HALO_REMOTE_FLAG_NO_REPLY, -ERANGE},
        {{.from = 64, .to = 1, .size = 3, .kind = 2, .data = none}, 0, -ERANGE},
        {{.from = 64, .size = HALO_REMOTE_DATA_MAX + 1, .kind = 2, .data = none}, 0, -ERANGE},
        {{.from = 64, .size = 3, .kind = 2, .data = abc}, 0, -ERANGE},
        {{.from = 64, .to = 128, .size = (uint64_t)1 << 40, .kind = 3, .data = none}, 0, 0},
        {{.from = 64, .to = 128, .size = 3, .kind = 3, .data = abc}, 0, -ERANGE},
        {{.from = 64, .size = 3, .kind = 3, .data = none}, 0, -ERANGE},
        {{.from = 64, .to = 128, .size = 3, .kind = 0, .data = none}, 0, -ERANGE}, /* host to host */
        {{.from = 64, .to = 128, .size = 3, .kind = 4, .data = none}, 0, -ERANGE}, /* a kind to be guessed */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        int r = encode_request(op, &table[i].q, table[i].flags);
        assert_int_equal(r < 0 ? r : 0, table[i].r);
    }
}

static void products_and_sums_that_wrap_are_refused(void **state)
{
    const struct halo_remote_memcpy_2d_async wide = {.to = 64,
                                                     .to_pitch = (uint64_t)1 << 40,
                                                     .from = 64,
                                                     .from_pitch = (uint64_t)1 << 40,
                                                     .width = 16,
                                                     .height = (uint64_t)1 << 24,
                                                     .kind = 3};
    const struct halo_remote_memcpy_2d_async slim = {
        .to = 64, .to_pitch = 8, .from = 64, .from_pitch = 32, .width = 16, .height = 2, .kind = 3};
    const struct halo_remote_memset_async set = {.to = 64, .value = 1, .width = 4, .count = (uint64_t)1 << 62};
    const struct halo_remote_memset_async thick = {.to = 64, .value = 256, .width = 1, .count = 1};
    const struct halo_remote_memset_async odd = {.to = 64, .value = 1, .width = 3, .count = 1};
    const struct halo_remote_memset_2d_async square = {
        .to = 64, .pitch = (uint64_t)1 << 40, .width = 1, .height = (uint64_t)1 << 40};
    const struct halo_remote_memcpy_from_blob blob = {.to = 64, .size = HALO_REMOTE_DATA_MAX + 1};
    (void)state;
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMCPY_2D_ASYNC), &wide, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMCPY_2D_ASYNC), &slim, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMSET_ASYNC), &set, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMSET_ASYNC), &thick, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMSET_ASYNC), &odd, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMSET_2D_ASYNC), &square, 0), -ERANGE);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MEMCPY_FROM_BLOB), &blob, 0), -ERANGE);
}

/* It would end the name that the runtime reads. */
static void a_text_has_no_nul(void **state)
{
    const uint64_t module = (uint64_t)HALO_REMOTE_MODULE << 56 | (uint64_t)1 << 32;
    const uint64_t function = (uint64_t)HALO_REMOTE_FUNCTION << 56 | (uint64_t)1 << 32;
    const struct halo_remote_module_get_function whole = {module, function, {"scale", 5}};
    const struct halo_remote_module_get_function cut = {module, function, {"sca\0e", 5}};
    (void)state;
    assert_true(encode_request(halo_remote_op_find(HIP_OP_MODULE_GET_FUNCTION), &whole, 0) > 0);
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MODULE_GET_FUNCTION), &cut, 0), -ERANGE);
}

static void a_needed_answer_cannot_be_declined(void **state)
{
    const struct halo_remote_malloc q = {.size = 1};
    (void)state;
    assert_int_equal(encode_request(halo_remote_op_find(HIP_OP_MALLOC), &q, HALO_REMOTE_FLAG_NO_REPLY), -ERANGE);
}

static void an_error_travels_without_fields(void **state)
{
    const struct halo_remote_malloc_reply failed = {
        .status = {.error = 2, .deferred_error = 719, .deferred_id = 12, .deferred_op = HIP_OP_LAUNCH_KERNEL}};
    struct halo_remote_header h = {.op = HIP_OP_MALLOC, .id = 9};
    union halo_remote_reply got;
    (void)state;
    assert_int_equal(halo_remote_reply_encode(frame, sizeof(frame), &h, &failed, true), HALO_REMOTE_HEADER_BYTES + 16);
    assert_int_equal(h.flags, HALO_REMOTE_FLAG_RESPONSE | HALO_REMOTE_FLAG_ERROR);
    assert_int_equal(halo_remote_reply_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, &got, NULL), 0);
    assert_memory_equal(&got.status, &failed.status, sizeof(got.status));
    h.flags = HALO_REMOTE_FLAG_RESPONSE; /* says that there is none */
    assert_int_equal(halo_remote_reply_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, &got, NULL), -EBADMSG);
    h.flags = 0; /* a request */
    assert_int_equal(halo_remote_reply_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, &got, NULL), -EBADMSG);
    h = (struct halo_remote_header){.op = 0x7fff};
    assert_true(halo_remote_reply_encode(frame, sizeof(frame), &h, &failed, true) > 0);
    assert_int_equal(halo_remote_reply_decode(&h, frame + HALO_REMOTE_HEADER_BYTES, &got, NULL), -ENOSYS);
}

static void data_may_be_sent_from_where_it_lies(void **state)
{
    const struct halo_remote_memcpy q = {.to = 64, .size = 5, .kind = 1, .data = {"hello", 5}};
    struct halo_remote_header h = {.op = HIP_OP_MEMCPY};
    (void)state;
    int whole = halo_remote_request_encode(frame, sizeof(frame), &h, &q, true);
    int head = halo_remote_request_encode(again, sizeof(again), &h, &q, false);
    assert_int_equal(head, whole - 5);
    assert_memory_equal(frame, again, (size_t)head);
    assert_int_equal(h.payload_bytes, whole - HALO_REMOTE_HEADER_BYTES);
}

static void a_small_buffer_is_not_overrun(void **state)
{
    union halo_remote_request q;
    (void)state;
    for (int i = 0; i < HALO_REMOTE_N_OPS; i++) {
        const struct halo_remote_op_info *op = &halo_remote_ops[i];
        struct fill_choices c = {.state = 11};
        struct halo_remote_header h = {.op = op->number};
        fill_request(op, &c, false, &q);
        int n = encode_request(op, &q, 0);
        for (int cap = 0; cap < n; cap++) {
            uint8_t *small = malloc(cap ? (size_t)cap : 1);
            assert_non_null(small);
            assert_int_equal(halo_remote_request_encode(small, (size_t)cap, &h, &q, true), -ENOBUFS);
            free(small);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stubs_carry_requests_and_replies),
        cmocka_unit_test(a_payload_of_another_length_is_refused),
        cmocka_unit_test(fields_out_of_range_are_not_encoded),
        cmocka_unit_test(fields_out_of_range_are_refused_on_the_wire),
        cmocka_unit_test(copies_whose_fields_contradict_are_refused),
        cmocka_unit_test(products_and_sums_that_wrap_are_refused),
        cmocka_unit_test(a_text_has_no_nul),
        cmocka_unit_test(a_needed_answer_cannot_be_declined),
        cmocka_unit_test(an_error_travels_without_fields),
        cmocka_unit_test(data_may_be_sent_from_where_it_lies),
        cmocka_unit_test(a_small_buffer_is_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
