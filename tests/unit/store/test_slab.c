/* test_slab.c: slots lie where they should, slabs go and come back, and what the kernel refuses is said.
 *
 * madvise, mlock and mprotect are replaced with the linker's --wrap.
 */
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <store/slab.h>

#include "fail_alloc.h"

#define MIB ((uint64_t)1 << 20)
#define PAGEOUT 21
#define POPULATE_WRITE 23

static struct {
    int advice, advice_error; /* this advice is refused with this errno */
    int mlock, mprotect;
    unsigned n_mlock;
} inject;

int __real_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice);
int __wrap_madvise(void *at, size_t n, int advice)
{
    errno = inject.advice_error;
    return inject.advice_error && advice == inject.advice ? -1 : __real_madvise(at, n, advice);
}

int __real_mlock(const void *at, size_t n);
int __wrap_mlock(const void *at, size_t n);
int __wrap_mlock(const void *at, size_t n)
{
    inject.n_mlock++;
    errno = inject.mlock;
    return inject.mlock ? -1 : __real_mlock(at, n);
}

int __real_mprotect(void *at, size_t n, int protection);
int __wrap_mprotect(void *at, size_t n, int protection);
int __wrap_mprotect(void *at, size_t n, int protection)
{
    errno = inject.mprotect;
    return inject.mprotect && protection != PROT_NONE ? -1 : __real_mprotect(at, n, protection);
}

static int setup(void **state)
{
    (void)state;
    memset(&inject, 0, sizeof(inject));
    return 0;
}

static struct halo_slabs *slabs_make(struct halo_slabs_options options)
{
    struct halo_slabs *slabs = NULL;
    struct halo_fault fault = {0};
    if (halo_slabs_create(&options, &slabs, &fault) < 0)
        fail_msg("%s", fault.text);
    return slabs;
}

static void take(struct halo_slabs *slabs, uint32_t slab)
{
    struct halo_fault fault = {0};
    if (halo_slabs_take(slabs, slab, &fault) < 0)
        fail_msg("%s", fault.text);
    assert_true(halo_slabs_is_taken(slabs, slab));
}

/* Ten slots, four in each slab: the last slab has two. */
static void test_slots_lie_apart(void **state)
{
    (void)state;
    struct halo_slabs *slabs =
        slabs_make((struct halo_slabs_options){.slot_bytes = MIB - 5000, .n_slots = 10, .slab_bytes = 4 * MIB});
    assert_int_equal(halo_slabs_n(slabs), 3);
    assert_int_equal(halo_slabs_stride(slabs), MIB); /* rounded to a page, and one page more */
    for (uint32_t slot = 0; slot < 10; slot++)
        assert_null(halo_slabs_slot(slabs, slot));
    for (uint32_t slab = 0; slab < 3; slab++)
        take(slabs, slab);
    for (uint32_t slot = 0; slot < 10; slot++)
        memset(halo_slabs_slot(slabs, slot), (int)slot, MIB);
    for (uint32_t slot = 0; slot < 10; slot++) {
        uint64_t bytes;
        uint32_t first, n, slab = halo_slabs_slab_of(slabs, slot);
        uint8_t *base = halo_slabs_base(slabs, slab, &bytes, &first, &n), *at = halo_slabs_slot(slabs, slot);
        assert_int_equal(slab, slot / 4);
        assert_int_equal((uintptr_t)base % (2 * MIB), 0);
        assert_int_equal(first, slab * 4);
        assert_int_equal(n, slab < 2 ? 4 : 2);
        assert_int_equal(bytes, n * MIB);
        assert_int_equal((uintptr_t)at % HALO_HULL_ALIGN, 0);
        assert_true(at >= base && at + MIB <= base + bytes);
        assert_int_equal(at[0], slot);
        assert_int_equal(at[MIB - 1], slot);
    }
    halo_slabs_destroy(slabs);
}

static void test_sizes_are_checked(void **state)
{
    (void)state;
    const struct halo_slabs_options bad[] = {
        {.slot_bytes = 0, .n_slots = 1},
        {.slot_bytes = 1, .n_slots = 0},
        {.slot_bytes = HALO_SLAB_BYTES_MAX - HALO_HULL_ALIGN + 1, .n_slots = 1},
        {.slot_bytes = 8192, .n_slots = 1, .slab_bytes = 8192},
        {.slot_bytes = UINT64_MAX, .n_slots = 1},
        {.slot_bytes = 1, .n_slots = 1, .slab_bytes = HALO_SLAB_BYTES_MAX + 1},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct halo_slabs *slabs = NULL;
        struct halo_fault fault = {0};
        assert_int_equal(halo_slabs_create(&bad[i], &slabs, &fault), -EINVAL);
        assert_int_equal(fault.code, HALO_FAULT_BAD_REQUEST);
        assert_null(slabs);
    }
    struct halo_slabs *slabs =
        slabs_make((struct halo_slabs_options){.slot_bytes = HALO_SLAB_BYTES_MAX - HALO_HULL_ALIGN, .n_slots = 300});
    assert_int_equal(halo_slabs_n(slabs), 300); /* 300 GiB of addresses, no memory */
    halo_slabs_destroy(slabs);
    slabs = slabs_make((struct halo_slabs_options){
        .slot_bytes = 2 * HALO_SLAB_BYTES_MAX, .n_slots = 2, .slab_bytes = 2 * HALO_SLAB_BYTES_MAX + HALO_HULL_ALIGN});
    assert_int_equal(halo_slabs_n(slabs), 2); /* of one slot each */
    halo_slabs_destroy(slabs);
}

/* Whether the page at `at` is in memory. */
static bool is_there(void *at)
{
    unsigned char there = 0;
    assert_int_equal(mincore(at, HALO_HULL_ALIGN, &there), 0);
    return there & 1;
}

static void test_slabs_go_and_come_back(void **state)
{
    (void)state;
    struct halo_slabs_memory memory;
    struct halo_slabs *slabs =
        slabs_make((struct halo_slabs_options){.slot_bytes = 100, .n_slots = 512, .slab_bytes = 2 * MIB, .lock = true});
    take(slabs, 0);
    take(slabs, 1);
    uint8_t *at = halo_slabs_slot(slabs, 300);
    assert_true(is_there(at)); /* before the first access */
    at[0] = 7;
    halo_slabs_give_back(slabs, 1);
    halo_slabs_give_back(slabs, 1); /* nothing happens */
    assert_null(halo_slabs_slot(slabs, 300));
    assert_false(is_there(at));
    assert_true(is_there(halo_slabs_slot(slabs, 0)));
    halo_slabs_memory(slabs, &memory);
    assert_int_equal(memory.n_slabs, 2);
    assert_int_equal(memory.n_taken, 1);
    assert_int_equal(memory.bytes, 2 * MIB);
    take(slabs, 1);
    take(slabs, 1);
    assert_ptr_equal(halo_slabs_slot(slabs, 300), at); /* addresses never move */
    assert_int_equal(at[0], 0);                        /* other pages */
    halo_slabs_memory(slabs, &memory);
    assert_int_equal(memory.bytes, 4 * MIB);
    assert_true(memory.locked_bytes <= memory.bytes);
    halo_slabs_destroy(slabs);
}

/* The flags of the mapping that begins at `at` or holds it, as the kernel shows them; "" when there is none. */
static void vm_flags(const void *at, char *flags, size_t size)
{
    char line[512];
    unsigned long begin, end;
    bool is_ours = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    flags[0] = '\0';
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            is_ours = (uintptr_t)at >= begin && (uintptr_t)at < end;
        if (strncmp(line, "VmFlags:", 8) == 0 && is_ours)
            snprintf(flags, size, "%s", line);
    }
    fclose(file);
}

static void test_kernel_knows_what_it_is(void **state)
{
    (void)state;
    char flags[512];
    struct halo_slabs *slabs =
        slabs_make((struct halo_slabs_options){.slot_bytes = MIB, .n_slots = 8, .slab_bytes = 8 * MIB});
    take(slabs, 0);
    vm_flags(halo_slabs_slot(slabs, 0), flags, sizeof(flags));
    assert_non_null(strstr(flags, " dc")); /* a child does not get it */
    assert_non_null(strstr(flags, " hg"));
    struct halo_slabs_memory memory;
    halo_slabs_memory(slabs, &memory);
    assert_true(memory.huge_bytes >= 0);
    assert_true(memory.huge_bytes <= (int64_t)memory.bytes);
    assert_int_equal(memory.huge_bytes % (int64_t)(2 * MIB), 0);
    if (memory.huge_bytes == 0)
        print_message("skipped aloud: no huge page was free here, so their count was not seen above 0\n");
    halo_slabs_destroy(slabs);
}

static bool has_notice(const struct halo_slabs *slabs, const char *text)
{
    struct halo_remarks notices;
    halo_slabs_notices(slabs, &notices);
    return notices.n == 1 && strstr(notices.text[0], text);
}

static void test_lock_limit_is_said(void **state)
{
    (void)state;
    char limit_text[64];
    struct rlimit limit;
    const int errors[] = {ENOMEM, EPERM};
    for (int i = 0; i < 2; i++) {
        inject.mlock = errors[i];
        struct halo_slabs *slabs = slabs_make(
            (struct halo_slabs_options){.slot_bytes = 1000, .n_slots = 512, .slab_bytes = 2 * MIB, .lock = true});
        take(slabs, 0);
        take(slabs, 1);
        assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
        snprintf(limit_text, sizeof(limit_text), "the limit is %llu KiB;", (unsigned long long)limit.rlim_cur >> 10);
        assert_true(has_notice(slabs, limit_text));
        assert_true(has_notice(slabs, "2 MiB of slots are not locked"));
        assert_true(has_notice(slabs, "`systemctl edit halod`, add LimitMEMLOCK=infinity under [Service]"));
        struct halo_slabs_memory memory;
        halo_slabs_memory(slabs, &memory);
        assert_int_equal(memory.locked_bytes, 0);
        halo_slabs_destroy(slabs);
    }
    inject.n_mlock = 0; /* who does not ask for it hears nothing of it */
    struct halo_slabs *slabs = slabs_make((struct halo_slabs_options){.slot_bytes = 1000, .n_slots = 3});
    take(slabs, 0);
    assert_int_equal(inject.n_mlock, 0);
    assert_false(has_notice(slabs, ""));
    halo_slabs_destroy(slabs);
}

/* The default limit of old kernels, without the privilege to pass it: as a plain user has it. */
static bool be_limited(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    const struct rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
    return setrlimit(RLIMIT_MEMLOCK, &limit) == 0 && syscall(SYS_capset, &header, none) == 0;
}

static void test_true_lock_limit(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct halo_slabs_memory memory;
        if (!be_limited())
            _exit(2);
        struct halo_slabs *slabs = slabs_make(
            (struct halo_slabs_options){.slot_bytes = MIB, .n_slots = 4, .slab_bytes = 2 * MIB, .lock = true});
        take(slabs, 0);
        if (mlock(halo_slabs_slot(slabs, 0), MIB) == 0)
            _exit(77);
        halo_slabs_memory(slabs, &memory);
        bool is_right = has_notice(slabs, "the limit is 64 KiB;") && memory.locked_bytes == 0;
        halo_slabs_destroy(slabs);
        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        print_message("skipped aloud: a sanitizer's mlock locks nothing and says it did\n");
    else
        assert_int_equal(status, 0);
}

static void test_kernel_without_populate(void **state)
{
    (void)state;
    inject.advice = POPULATE_WRITE;
    inject.advice_error = EINVAL;
    struct halo_slabs *slabs = slabs_make((struct halo_slabs_options){.slot_bytes = MIB, .n_slots = 3});
    take(slabs, 0);
    for (uint64_t i = 0; i < 3 * halo_slabs_stride(slabs); i += HALO_HULL_ALIGN)
        assert_true(is_there((uint8_t *)halo_slabs_slot(slabs, 0) + i));
    halo_slabs_destroy(slabs);
    inject.advice = MADV_HUGEPAGE;
    slabs = slabs_make((struct halo_slabs_options){.slot_bytes = MIB, .n_slots = 3});
    take(slabs, 0);
    assert_true(has_notice(slabs, "this kernel gives no huge pages (Invalid argument)"));
    halo_slabs_destroy(slabs);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct halo_slabs *slabs = slabs_make((struct halo_slabs_options){.slot_bytes = 3 * MIB, .n_slots = 2});
    for (int i = 0; i < 3; i++) {
        struct halo_fault fault = {0};
        inject.advice = i == 0 ? POPULATE_WRITE : MADV_DONTFORK;
        inject.advice_error = i < 2 ? ENOMEM : 0;
        inject.mprotect = i == 2 ? ENOMEM : 0;
        assert_int_equal(halo_slabs_take(slabs, 0, &fault), -ENOMEM);
        assert_int_equal(fault.code, HALO_FAULT_OUT_OF_MEMORY);
        assert_non_null(strstr(fault.text, "gives no 6 MiB for slots: Cannot allocate memory"));
        assert_false(halo_slabs_is_taken(slabs, 0));
        assert_null(halo_slabs_slot(slabs, 1));
    }
    memset(&inject, 0, sizeof(inject));
    take(slabs, 0); /* it is asked again, not remembered */
    memset(halo_slabs_slot(slabs, 1), 1, halo_slabs_stride(slabs));
    halo_slabs_destroy(slabs);
}

static struct halo_slabs *purgeable_make(void)
{
    struct halo_slabs *slabs = slabs_make(
        (struct halo_slabs_options){.slot_bytes = MIB - 4096, .n_slots = 6, .slab_bytes = 2 * MIB, .n_purgeable = 3});
    for (uint32_t slab = 0; slab < 3; slab++)
        take(slabs, slab);
    for (uint32_t slot = 0; slot < 6; slot++)
        for (uint64_t i = 0; i < MIB; i++)
            ((uint8_t *)halo_slabs_slot(slabs, slot))[i] = (uint8_t)(i / 8 * 7 + slot);
    return slabs;
}

static bool has_bytes(const struct halo_slabs *slabs, uint32_t slot)
{
    const uint8_t *at = halo_slabs_slot(slabs, slot);
    for (uint64_t i = 0; i < MIB; i++)
        if (at[i] != (uint8_t)(i / 8 * 7 + slot))
            return false;
    return true;
}

/* A slot that is kept in time has its bytes; one of which the kernel took a single page has not, and says so. */
static void test_purgeable_slots(void **state)
{
    (void)state;
    struct halo_slabs *slabs = purgeable_make();
    assert_false(halo_slabs_is_purgeable(slabs, 0));
    assert_true(halo_slabs_keep(slabs, 0)); /* it never was */
    const uint64_t pages[] = {0, 100, MIB / 4096 - 1};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t slot = 3 + i;
        assert_int_equal(halo_slabs_make_purgeable(slabs, slot), 0);
        assert_true(halo_slabs_is_purgeable(slabs, slot));
        assert_true(halo_slabs_keep(slabs, slot));
        assert_false(halo_slabs_is_purgeable(slabs, slot));
        assert_true(has_bytes(slabs, slot));
        assert_int_equal(halo_slabs_make_purgeable(slabs, slot), 0);
        assert_false(halo_slabs_looks_purged(slabs, slot));
        uint8_t *page = (uint8_t *)halo_slabs_slot(slabs, slot) + pages[i] * 4096;
        assert_int_equal(__real_madvise(page, 4096, MADV_DONTNEED), 0); /* as the kernel does when memory is short */
        assert_false(halo_slabs_keep(slabs, slot));
        assert_true(halo_slabs_keep(slabs, slot)); /* whatever is in it now stays */
        assert_int_equal(halo_slabs_make_purgeable(slabs, slot), 0);
        halo_slabs_discard(slabs, slot);
        assert_false(is_there(page));
        assert_false(halo_slabs_is_purgeable(slabs, slot));
    }
    assert_true(has_bytes(slabs, 2));
    halo_slabs_destroy(slabs);
}

/* The kernel is made to take what it may. */
static void test_kernel_takes_purgeable_slots(void **state)
{
    (void)state;
    struct halo_slabs *slabs = purgeable_make();
    uint8_t *at = halo_slabs_slot(slabs, 4);
    assert_int_equal(halo_slabs_make_purgeable(slabs, 4), 0);
    if (__real_madvise(at, MIB, PAGEOUT) == 0 && !is_there(at)) {
        assert_true(halo_slabs_looks_purged(slabs, 4));
        assert_false(halo_slabs_keep(slabs, 4));
    } else {
        print_message("skipped aloud: this kernel took no page when asked to\n");
        bool is_kept = halo_slabs_keep(slabs, 4);
        assert_int_equal(is_kept, has_bytes(slabs, 4));
    }
    assert_int_equal(__real_madvise(halo_slabs_slot(slabs, 3), MIB, PAGEOUT), 0); /* this one it may not take */
    assert_true(has_bytes(slabs, 3));
    halo_slabs_destroy(slabs);
}

static void test_purgeable_slabs_are_given_back(void **state)
{
    (void)state;
    struct halo_slabs *slabs = purgeable_make();
    assert_int_equal(halo_slabs_make_purgeable(slabs, 4), 0);
    halo_slabs_give_back(slabs, 2);
    assert_false(halo_slabs_is_purgeable(slabs, 4));
    take(slabs, 2);
    assert_true(halo_slabs_keep(slabs, 4));
    inject.advice = MADV_FREE;
    inject.advice_error = EINVAL;
    assert_int_equal(halo_slabs_make_purgeable(slabs, 3), -EINVAL);
    assert_false(halo_slabs_is_purgeable(slabs, 3));
    assert_true(has_bytes(slabs, 3));
    halo_slabs_destroy(slabs);
}

static void test_nth_allocation_fails(void **state)
{
    (void)state;
    uint64_t n = 0;
    for (bool happened = true; happened; n++) {
        struct halo_slabs_options options = {.slot_bytes = 100, .n_slots = 10, .n_purgeable = 5};
        struct halo_slabs *slabs = NULL;
        struct halo_fault fault = {0};
        halo_fail_alloc_arm(n);
        int r = halo_slabs_create(&options, &slabs, &fault);
        happened = halo_fail_alloc_disarm();
        assert_int_equal(r, happened ? -ENOMEM : 0);
        halo_slabs_destroy(slabs);
    }
    assert_true(n > 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
    const struct CMUnitTest tests[] = {
        TEST(test_slots_lie_apart),
        TEST(test_sizes_are_checked),
        TEST(test_slabs_go_and_come_back),
        TEST(test_kernel_knows_what_it_is),
        TEST(test_lock_limit_is_said),
        TEST(test_true_lock_limit),
        TEST(test_kernel_without_populate),
        TEST(test_no_memory),
        TEST(test_nth_allocation_fails),
        TEST(test_purgeable_slots),
        TEST(test_kernel_takes_purgeable_slots),
        TEST(test_purgeable_slabs_are_given_back),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
