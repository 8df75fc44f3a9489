/* table.c: hip_remote.def as data.
 *
 * The macros make one function for each request and reply that returns its fields; a function, because inside it the
 * struct can be called `here` and offsetof() needs no name from the list. Constant; any thread; no failures.
 */
#include <hip_remote/table.h>

/* Macros that make a part of a table. */
/* clang-format off */
#define BEGIN(what, type) \
    static const struct halo_remote_field *what(void) \
    { \
        typedef struct type here; \
        static const struct halo_remote_field fields[] = {
#define END \
            {.kind = HALO_REMOTE_KIND_END, .at = sizeof(here)}, \
        }; \
        return fields; \
    }
#define OP(number, ID, name, answer, quota, doc) BEGIN(request_##name, halo_remote_##name)
#define F(kind, name, lo, hi) {#name, HALO_REMOTE_KIND_##kind, offsetof(here, name), lo, hi},
#define REPLY(name) END BEGIN(reply_##name, halo_remote_##name##_reply)
#define OP_END(name) END
#include <hip_remote/hip_remote.def>

const struct halo_remote_op_info halo_remote_ops[HALO_REMOTE_N_OPS] = {
#define OP(number, ID, name, answer, quota, doc) \
    [HALO_REMOTE_AT_##ID] = {number, "HIP_OP_" #ID, doc, HALO_REMOTE_ANSWER_##answer, HALO_REMOTE_QUOTA_##quota, \
                             {request_##name, sizeof(struct halo_remote_##name)}, \
                             {reply_##name, sizeof(struct halo_remote_##name##_reply)}},
#include <hip_remote/hip_remote.def>
};

const struct halo_remote_op_info *halo_remote_op_find(uint16_t number)
{
    switch (number) {
#define OP(number, ID, name, answer, quota, doc) case number: return &halo_remote_ops[HALO_REMOTE_AT_##ID];
#include <hip_remote/hip_remote.def>
    default: return NULL;
    }
}
/* clang-format on */
