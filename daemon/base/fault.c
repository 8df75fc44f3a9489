/* fault.c: the reason of a failure, in a fixed buffer.
 *
 * A fault belongs to one thread at a time; nothing here allocates or fails. Text that does not fit is cut where a UTF-8
 * character begins, so that what is left can go into a JSON string as it is.
 */
#include <base/fault.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int error;
} fault_table[] = {
    [HALO_FAULT_NONE] = {"none", 0},
    [HALO_FAULT_BAD_REQUEST] = {"bad_request", -EINVAL},
    [HALO_FAULT_NOT_FOUND] = {"not_found", -ENOENT},
    [HALO_FAULT_LOAD_FAILED] = {"load_failed", -EIO},
    [HALO_FAULT_UNSUPPORTED] = {"unsupported", -EOPNOTSUPP},
    [HALO_FAULT_OUT_OF_MEMORY] = {"out_of_memory", -ENOMEM},
    [HALO_FAULT_CONTEXT_OVERFLOW] = {"context_overflow", -E2BIG},
    [HALO_FAULT_QUEUE_FULL] = {"queue_full", -EAGAIN},
    [HALO_FAULT_DEADLINE] = {"deadline", -ETIMEDOUT},
    [HALO_FAULT_CANCELLED] = {"cancelled", -ECANCELED},
    [HALO_FAULT_DEVICE_HANG] = {"device_hang", -ETIME},
    [HALO_FAULT_DEVICE_FAULT] = {"device_fault", -EREMOTEIO},
    [HALO_FAULT_SHUTTING_DOWN] = {"shutting_down", -ESHUTDOWN},
    [HALO_FAULT_INTERNAL] = {"internal", -EPROTO},
};
#define X(id, name) _Static_assert(HALO_FAULT_##id < sizeof fault_table / sizeof fault_table[0], "a row for " name);
HALO_FAULT_LIST(X)
#undef X

/* Cuts at `n` bytes or before, never inside a UTF-8 character. */
static void text_cut(char *text, size_t n)
{
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    text[n] = '\0';
}

/* vsnprintf at `at`, cut as above. Returns the new length. */
__attribute__((format(printf, 3, 0))) static size_t text_print(char text[256], size_t at, const char *format,
                                                               va_list args)
{
    /* One byte more than fits, so that the cut can see whether it falls inside a character. */
    char wide[257];
    int n = vsnprintf(wide, sizeof wide, format, args);
    if (n < 0)
        n = 0, wide[0] = '\0';
    size_t room = 255 - at;
    size_t copy = (size_t)n < room ? (size_t)n : room;
    if ((size_t)n > room)
        text_cut(wide, copy);
    copy = strlen(wide) < copy ? strlen(wide) : copy;
    memcpy(text + at, wide, copy);
    text[at + copy] = '\0';
    return at + copy;
}

__attribute__((format(printf, 3, 4))) static size_t text_printf(char text[256], size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t n = text_print(text, at, format, args);
    va_end(args);
    return n;
}

const char *halo_fault_name(enum halo_fault_code code)
{
    if ((unsigned)code >= sizeof fault_table / sizeof fault_table[0])
        return "internal";
    return fault_table[code].name;
}

int halo_fault_set(struct halo_fault *fault, enum halo_fault_code code, const char *format, ...)
{
    assert((unsigned)code < sizeof fault_table / sizeof fault_table[0]);
    if (fault) {
        struct halo_fault made = {.code = code}; /* an argument may point into the old text */
        va_list args;
        va_start(args, format);
        text_print(made.text, 0, format, args);
        va_end(args);
        *fault = made;
    }
    return fault_table[code].error;
}

int halo_fault_errno(struct halo_fault *fault, enum halo_fault_code code, int error, const char *format, ...)
{
    assert(error < 0);
    if (fault) {
        struct halo_fault made = {.code = code};
        char reason[128];
        va_list args;
        va_start(args, format);
        size_t n = text_print(made.text, 0, format, args);
        va_end(args);
        text_printf(made.text, n, ": %s", strerror_r(-error, reason, sizeof reason));
        *fault = made;
    }
    return error;
}

void halo_fault_number(struct halo_fault *fault, const char *name, uint64_t value)
{
    if (!fault)
        return;
    assert(fault->code != HALO_FAULT_NONE && fault->n_numbers < HALO_FAULT_NUMBERS);
    fault->numbers[fault->n_numbers].name = name;
    fault->numbers[fault->n_numbers++].value = value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

void halo_fault_prefix(struct halo_fault *fault, const char *format, ...)
{
    if (!fault)
        return;
    struct halo_fault made = *fault;
    va_list args;
    va_start(args, format);
    size_t n = text_print(made.text, 0, format, args);
    va_end(args);
    text_printf(made.text, n, ": %s", fault->text);
    *fault = made;
}
