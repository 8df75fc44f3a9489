/* fetch_fixture.c: see fetch_fixture.h. One thread; the replaced calls come from the threads of the fetch. */
#include "fetch_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILL 0xee
#define REGION_BYTES ((size_t)64 << 20)
#define UNPINNED ((void *)64) /* no page of any process */

struct fetch_inject inject;
bool fetch_with_uring = false, fetch_with_threads = true;
static uint8_t *unpinned_begin, *unpinned_end;

static void wait_while_stalled(void)
{
    while (inject.stalled)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static bool in_range(int number, int after, int times)
{
    return number >= after && number < after + times;
}

static bool is_unpinned(const void *at)
{
    return inject.unpinned && (const uint8_t *)at >= unpinned_begin && (const uint8_t *)at < unpinned_end;
}

static bool is_direct(int fd)
{
    return fcntl(fd, F_GETFL) & O_DIRECT;
}

/* What a read of `result` bytes is made to look like. */
static int64_t mangle(int64_t result)
{
    int number = inject.n_results++;
    if (inject.result && in_range(number, inject.result_after, inject.result_times))
        return -inject.result;
    if (inject.shorten && result > 1 && number % 3)
        return number % 3 == 1 ? result / 2 : 1 + result / 4096 * 4096 * 3 / 4;
    return result;
}

int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
    return inject.queue_init ? -inject.queue_init : __real_io_uring_queue_init(entries, ring, flags);
}

int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n);
int __wrap_io_uring_submit_and_wait(struct io_uring *ring, unsigned n)
{
    int number = inject.n_submits++;
    for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        struct io_uring_sqe *sqe = &ring->sq.sqes[i & *ring->sq.kring_mask];
        if (is_unpinned((void *)(uintptr_t)sqe->addr))
            sqe->addr = (uintptr_t)UNPINNED;
        if (inject.refuse_direct && is_direct(sqe->fd)) /* the kernel answers EINVAL, which is renamed below */
            sqe->off++;
    }
    if (inject.submit && in_range(number, inject.submit_after, inject.submit_times))
        return -inject.submit;
    return __real_io_uring_submit_and_wait(ring, n);
}

unsigned __real_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count);
unsigned __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count);
unsigned __wrap_io_uring_peek_batch_cqe(struct io_uring *ring, struct io_uring_cqe **cqes, unsigned count)
{
    unsigned n = __real_io_uring_peek_batch_cqe(ring, cqes, count);
    for (unsigned i = 0; i < n; i++) {
        if (cqes[i]->user_data == UINT64_MAX) /* the eventfd that wakes the thread */
            continue;
        if (inject.stalled) { /* this one and those behind it wait for the drive; the kernel keeps them */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            return i;
        }
        if (cqes[i]->res == -EINVAL && inject.refuse_direct)
            cqes[i]->res = -inject.refuse_direct;
        cqes[i]->res = (int)mangle(cqes[i]->res);
    }
    return n;
}

ssize_t __real_pread64(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread64(int fd, void *bytes, size_t n, off_t offset)
{
    bool refused = inject.refuse_direct && is_direct(fd);
    ssize_t got = refused ? -1 : __real_pread64(fd, is_unpinned(bytes) ? UNPINNED : bytes, n, offset);
    int error = refused ? inject.refuse_direct : errno;
    wait_while_stalled();
    int64_t result = mangle(got < 0 ? -error : got);
    if (result < 0)
        errno = (int)-result;
    return result < 0 ? -1 : (ssize_t)result;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
    if (inject.open_direct && (flags & O_DIRECT)) {
        errno = inject.open_direct;
        return -1;
    }
    return __real_open64(path, flags, 0600);
}

int __real_posix_fadvise64(int fd, off_t offset, off_t n, int advice);
int __wrap_posix_fadvise64(int fd, off_t offset, off_t n, int advice);
int __wrap_posix_fadvise64(int fd, off_t offset, off_t n, int advice)
{
    inject.n_dropped += advice == POSIX_FADV_DONTNEED;
    return __real_posix_fadvise64(fd, offset, n, advice);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *), void *ud)
{
    if (inject.thread && inject.n_threads++ >= inject.thread_after)
        return inject.thread;
    return __real_pthread_create(thread, attr, main, ud);
}

void fetch_inject_reset(void)
{
    atomic_int *numbers[] = {
        &inject.queue_init,   &inject.submit,       &inject.submit_after,  &inject.submit_times, &inject.open_direct,
        &inject.thread,       &inject.thread_after, &inject.refuse_direct, &inject.result,       &inject.result_after,
        &inject.result_times, &inject.n_results,    &inject.n_submits,     &inject.n_threads,    &inject.n_dropped,
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        *numbers[i] = 0;
    inject.shorten = inject.stalled = inject.unpinned = false;
}

static void file_make(struct fetch_fixture *f)
{
    const char *dir = getenv("HALO_BUILD_ROOT");
    snprintf(f->path, sizeof(f->path), "%s/fetch-%d.bin", dir ? dir : "/tmp", (int)getpid());
    f->name = strrchr(f->path, '/') + 1;
    f->content = malloc(FIXTURE_FILE_BYTES);
    assert_non_null(f->content);
    uint64_t x = 1;
    for (uint64_t i = 0; i < FIXTURE_FILE_BYTES; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        f->content[i] = (uint8_t)(x >> 56);
    }
    int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, f->content, FIXTURE_FILE_BYTES), FIXTURE_FILE_BYTES);
    close(fd);
    f->fd = open(f->path, O_RDONLY);
    assert_true(f->fd >= 0);
}

/* What this machine and its file system do not have is not tested, and that is said. */
static void probe(struct fetch_fixture *f)
{
    struct io_uring ring;
    int fd = open(f->path, O_RDONLY | O_DIRECT);
    f->have_direct = fd >= 0 && pread(fd, f->region, HALO_HULL_ALIGN, 0) == HALO_HULL_ALIGN;
    if (fd >= 0)
        close(fd);
    bool have_uring = f->no_uring || io_uring_queue_init(4, &ring, 0) == 0;
    if (!f->no_uring && have_uring)
        io_uring_queue_exit(&ring);
    if (!f->have_direct || !have_uring)
        print_message("skipped aloud: no %s here, its own path was not tried\n", have_uring ? "O_DIRECT" : "io_uring");
    f->no_uring = f->no_uring || !have_uring;
    fetch_inject_reset(); /* that read was counted */
}

int fetch_fixture_setup(void **state)
{
    struct fetch_fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->no_uring = *(bool *)*state;
    fetch_inject_reset();
    file_make(f);
    f->region_bytes = REGION_BYTES;
    f->region = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->region != MAP_FAILED);
    probe(f);
    unpinned_begin = f->region;
    unpinned_end = f->region + REGION_BYTES;
    *state = f;
    return 0;
}

int fetch_fixture_teardown(void **state)
{
    struct fetch_fixture *f = *state;
    fetch_inject_reset();
    fetch_fixture_close(f);
    close(f->fd);
    unlink(f->path);
    munmap(f->region, f->region_bytes);
    free(f->content);
    free(f);
    return 0;
}

void fetch_fixture_add_file(struct fetch_fixture *f)
{
    struct halo_fault fault = {0};
    struct stat facts;
    assert_int_equal(fstat(f->fd, &facts), 0);
    struct halo_file_id id = halo_file_id_of(&facts);
    if (halo_fetch_add_file(f->fetch, f->fd, &id, f->path, &f->file, &fault) < 0)
        fail_msg("%s", fault.text);
}

void fetch_fixture_open(struct fetch_fixture *f, struct halo_fetch_options options)
{
    struct halo_fault fault = {0};
    fetch_fixture_close(f);
    options.no_uring = f->no_uring;
    if (halo_fetch_create(&options, &f->fetch, &fault) < 0)
        fail_msg("%s", fault.text);
    fetch_fixture_add_file(f);
    memset(f->region, FILL, f->region_used);
    memset(f->n_done, 0, sizeof(f->n_done));
    f->region_used = HALO_HULL_ALIGN;
    f->n_reads = f->n_reaped = 0;
}

void fetch_fixture_close(struct fetch_fixture *f)
{
    halo_fetch_destroy(f->fetch);
    f->fetch = NULL;
}

uint32_t fetch_fixture_plan(struct fetch_fixture *f, uint64_t offset, uint64_t n_bytes,
                            enum halo_fetch_priority priority)
{
    uint32_t slot = f->n_reads++;
    assert_true(slot < FIXTURE_SLOTS);
    size_t hull = halo_hull_bytes(offset, n_bytes);
    assert_true(f->region_used + hull + HALO_HULL_ALIGN <= f->region_bytes);
    f->reads[slot] = (struct halo_fetch_read){.file = f->file,
                                              .priority = priority,
                                              .offset = offset,
                                              .n_bytes = n_bytes,
                                              .dest = f->region + f->region_used + offset % HALO_HULL_ALIGN,
                                              .slot = slot,
                                              .generation = slot + 1000};
    memset(f->region + f->region_used - HALO_HULL_ALIGN, FILL, hull + (size_t)2 * HALO_HULL_ALIGN);
    f->region_used += hull + HALO_HULL_ALIGN; /* a page between any two */
    return slot;
}

uint32_t fetch_fixture_read(struct fetch_fixture *f, uint64_t offset, uint64_t n_bytes,
                            enum halo_fetch_priority priority)
{
    uint32_t slot = fetch_fixture_plan(f, offset, n_bytes, priority);
    assert_int_equal(halo_fetch_submit(f->fetch, &f->reads[slot], 1), 0);
    return slot;
}

uint32_t fetch_fixture_take(struct fetch_fixture *f, uint32_t max, uint64_t timeout_us)
{
    struct halo_fetch_done done[4];
    max = max < 4 ? max : 4;
    uint32_t n = halo_fetch_reap(f->fetch, done, max, timeout_us);
    assert_true(n <= max);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = done[i].slot;
        assert_true(slot < f->n_reads);
        assert_int_equal(done[i].generation, f->reads[slot].generation);
        assert_int_equal(done[i].offset, f->reads[slot].offset);
        f->done[slot] = done[i];
        assert_int_equal(f->n_done[slot]++, 0);
        f->order[f->n_reaped++] = slot;
    }
    return n;
}

void fetch_fixture_reap(struct fetch_fixture *f, uint32_t n)
{
    while (n > 0) {
        uint32_t got = fetch_fixture_take(f, n, FIXTURE_PATIENCE_US);
        assert_true(got > 0);
        n -= got;
    }
}

static void check_fill(const uint8_t *page, uint32_t slot)
{
    for (size_t i = 0; i < HALO_HULL_ALIGN; i++)
        if (page[i] != FILL)
            fail_msg("read %u wrote outside its hull", slot);
}

void fetch_fixture_check_read(struct fetch_fixture *f, uint32_t slot)
{
    const struct halo_fetch_read *read = &f->reads[slot];
    struct halo_fault fault = {0};
    assert_int_equal(f->n_done[slot], 1);
    if (halo_fetch_fault(f->fetch, &f->done[slot], &fault) < 0)
        fail_msg("read %u: %s", slot, fault.text);
    if (memcmp(read->dest, f->content + read->offset, read->n_bytes) != 0)
        fail_msg("read %u: its %llu bytes at %llu are not the file's", slot, (unsigned long long)read->n_bytes,
                 (unsigned long long)read->offset);
    const uint8_t *hull = (uint8_t *)read->dest - read->offset % HALO_HULL_ALIGN;
    check_fill(hull - HALO_HULL_ALIGN, slot);
    check_fill(hull + halo_hull_bytes(read->offset, read->n_bytes), slot);
}

void fetch_fixture_check(struct fetch_fixture *f)
{
    assert_true(f->n_reads > 0);
    for (uint32_t slot = 0; slot < f->n_reads; slot++)
        fetch_fixture_check_read(f, slot);
}

void fetch_fixture_expect_no_notice(struct fetch_fixture *f)
{
    struct halo_remarks notices;
    halo_fetch_notices(f->fetch, &notices);
    if (notices.n > 0)
        fail_msg("a notice nobody expects: %s", notices.text[0]);
}

void fetch_fixture_expect_notice(struct fetch_fixture *f, const char *text)
{
    struct halo_remarks notices;
    unsigned n = 0;
    halo_fetch_notices(f->fetch, &notices);
    for (uint32_t i = 0; i < notices.n; i++)
        n += strstr(notices.text[i], text) != NULL;
    if (n != 1)
        fail_msg("%u notices say '%s'; the first of %u is '%s'", n, text, notices.n, notices.n ? notices.text[0] : "");
}

void fetch_fixture_wait_in_flight(struct fetch_fixture *f, uint32_t n)
{
    struct halo_fetch_in_flight now;
    do {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        halo_fetch_in_flight(f->fetch, &now);
    } while (now.n_blocks != n);
}
