/* gfx_host.cpp: runs the blocks of a launch on the host: fibers and their synchronization points.
 *
 * The state of a launch (fibers, their stacks, the LDS) belongs to the OS thread and is reused by its next launch. A
 * fiber that waits leaves the set of runnable ones; the last one to arrive at a synchronization point makes all of
 * them runnable again. When no fiber is runnable and not all are done, the block can never end: the launch fails and
 * its fibers are abandoned. Memory is never freed before the OS thread ends. Fails with -EINVAL, -ENOMEM or -EDEADLK,
 * each with a reason.
 */
#include "gfx_host.h"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HALO_HOST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define HALO_HOST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HALO_HOST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define HALO_HOST_TSAN 1
#endif

#ifdef HALO_HOST_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HALO_HOST_TSAN
extern "C" {
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *at);
void __tsan_release(void *at);
}
#define HALO_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define HALO_NO_TSAN
#endif

#if !defined(__x86_64__)
#error "the switch of stacks is written for x86-64"
#endif

namespace
{

constexpr uint32_t MAX_THREADS = 1024, WAVE = 32, MAX_WAVES = MAX_THREADS / WAVE;
constexpr uint32_t LDS_BYTES = 65536;
constexpr size_t GUARD_BYTES = HALO_HOST_GUARD_BYTES, STACK_BYTES = HALO_HOST_STACK_BYTES - GUARD_BYTES;
constexpr size_t LAST_FRAMES_BYTES = 8192;

struct fiber {
    void *sp;
    char *stack; /* above its guard page */
    void *tsan;
    void *asan; /* fake stack while switched away */
    size_t stack_bytes;
};

typedef float four __attribute__((vector_size(16)));

/* What the lanes bring to a product of tiles. */
struct tile {
    halo_frag x[WAVE], y[WAVE];
    four rows[2][16][2]; /* of x as floats: [row % 2][k], element row / 2 */
    uint32_t arrived;    /* bits of lanes */
};

/* Of each two, one is read while the other is filled: a lane that fills the first again has met all others at the
 * second, so that none reads it any more. */
struct wave {
    uint32_t live, runnable, waiting; /* bits of lanes; waiting: at a shuffle or tile */
    uint32_t generation;
    int value[2][WAVE];
    uint32_t present[2];
    tile tiles[2];
    char meeting[2]; /* addresses for ThreadSanitizer */
};

struct launch {
    halo_host_where here; /* the first: halo_host_here() */
    fiber fibers[MAX_THREADS];
    wave waves[MAX_WAVES];
    fiber main;
    const halo_host_kernel *kernel;
    void **args;
    char *lds;
    char *reason;
    uint32_t n_threads, n_waves, n_live, n_at_barrier, lds_bytes;
    uint32_t at_barrier[MAX_WAVES];
    int error;
    char barrier[2], begin, end; /* addresses for ThreadSanitizer */
    uint32_t generation;

    launch();
    ~launch();
};

halo_host_kernel *kernels;

/* On the stack of a fiber. */
HALO_NO_TSAN inline launch *current(void)
{
    return reinterpret_cast<launch *>(&halo_host_here());
}

char *map(size_t n_bytes)
{
    void *p = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : static_cast<char *>(p);
}

/* At a multiple of its size. */
char *map_stack(void)
{
    constexpr size_t n_bytes = HALO_HOST_STACK_BYTES;
    char *all = map(2 * n_bytes);
    if (!all)
        return nullptr;
    size_t before = n_bytes - reinterpret_cast<uintptr_t>(all) % n_bytes;
    munmap(all, before);
    if (before < n_bytes)
        munmap(all + before + n_bytes, n_bytes - before);
    mprotect(all + before, GUARD_BYTES, PROT_NONE);
    return all + before + GUARD_BYTES;
}

/* Frames that are never returned from leave AddressSanitizer's marks on the stack; they are cleared for the next
 * fiber, and for the next owner of these addresses. */
void forget_frames(launch *l)
{
#ifdef HALO_HOST_ASAN
    for (fiber &f : l->fibers)
        if (f.stack)
            ASAN_UNPOISON_MEMORY_REGION(f.stack, STACK_BYTES);
#endif
    (void)l;
}

launch::launch()
{
    memset(static_cast<void *>(this), 0, sizeof(*this));
}

launch::~launch()
{
    forget_frames(this);
    for (fiber &f : fibers) {
        if (f.stack)
            munmap(f.stack - GUARD_BYTES, STACK_BYTES + GUARD_BYTES);
#ifdef HALO_HOST_TSAN
        if (f.tsan)
            __tsan_destroy_fiber(f.tsan);
#endif
    }
    if (lds) {
#ifdef HALO_HOST_ASAN
        ASAN_UNPOISON_MEMORY_REGION(lds, LDS_BYTES);
#endif
        munmap(lds, LDS_BYTES);
    }
}

struct owner { /* frees a thread's launch when the thread ends */
    launch *l = nullptr;
    ~owner()
    {
        delete l;
    }
};
thread_local owner owned;

__attribute__((format(printf, 3, 4))) int fail(char *reason, int error, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(reason, HALO_HOST_REASON, format, list);
    va_end(list);
    return error;
}

} // namespace

/* Saves the registers that the ABI preserves across calls, switches the stack, and returns on the other one. */
extern "C" void halo_host_swap(void **save, void *load);
__asm__(".text\n"
        ".local halo_host_swap\n"
        ".type halo_host_swap, @function\n"
        "halo_host_swap:\n"
        " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        " movq %rsp, (%rdi)\n"
        " movq %rsi, %rsp\n"
        " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
        " ret\n"
        ".size halo_host_swap, .-halo_host_swap\n");

namespace
{

HALO_NO_TSAN void swap(fiber *from, fiber *to, bool last)
{
#ifdef HALO_HOST_TSAN
    __tsan_switch_to_fiber(to->tsan, 1); /* 1: the switch orders nothing */
#endif
#ifdef HALO_HOST_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->asan, to->stack, to->stack_bytes);
#endif
    halo_host_swap(&from->sp, to->sp);
#ifdef HALO_HOST_ASAN
    __sanitizer_finish_switch_fiber(from->asan, nullptr, nullptr);
#endif
    (void)last;
}

HALO_NO_TSAN fiber *self(launch *l)
{
    return &l->fibers[l->here.tid];
}

HALO_NO_TSAN void say_deadlock(launch *l)
{
    uint32_t at_barrier = 0, at_wave = 0, wave_index = 0;
    for (uint32_t w = 0; w < l->n_waves; w++) {
        at_barrier += (uint32_t)__builtin_popcount(l->at_barrier[w]);
        if (l->waves[w].waiting) {
            at_wave += (uint32_t)__builtin_popcount(l->waves[w].waiting);
            wave_index = w;
        }
    }
    l->error = fail(l->reason, -EDEADLK,
                    "%s, block (%u,%u,%u): threads wait for each other for ever: %u of %u live ones at a barrier, %u "
                    "at a shuffle or "
                    "tile (wave %u: lanes %08x of %08x)",
                    l->kernel->name, l->here.block[0], l->here.block[1], l->here.block[2], at_barrier, l->n_live,
                    at_wave, wave_index, l->waves[wave_index].waiting, l->waves[wave_index].live);
}

/* Switches to the next runnable fiber, or to the main stack when there is none. */
HALO_NO_TSAN void next(launch *l, bool last)
{
    fiber *from = self(l);
    for (uint32_t i = 0, w = l->here.wave; i < l->n_waves; i++, w = w + 1 == l->n_waves ? 0 : w + 1) {
        if (l->waves[w].runnable) {
            uint32_t lane = (uint32_t)__builtin_ctz(l->waves[w].runnable);
            l->here.wave = w;
            l->here.lane = lane;
            l->here.tid = w * WAVE + lane;
            if (self(l) != from)
                swap(from, self(l), last);
            return;
        }
    }
    swap(from, &l->main, last); /* no fiber is runnable: all are done, or wait for ever */
}

HALO_NO_TSAN void complete_wave(wave *w)
{
    if (w->live && w->waiting == w->live) {
        w->runnable |= w->waiting;
        w->waiting = 0;
        const uint32_t side = ++w->generation & 1;
        w->present[side] = w->tiles[side].arrived = 0;
    }
}

HALO_NO_TSAN void complete_barrier(launch *l)
{
    if (l->n_live == 0 || l->n_at_barrier != l->n_live)
        return;
    for (uint32_t w = 0; w < l->n_waves; w++) {
        l->waves[w].runnable |= l->at_barrier[w];
        l->at_barrier[w] = 0;
    }
    l->n_at_barrier = 0;
    l->generation++;
}

HALO_NO_TSAN void fiber_main(void)
{
    launch *l = current();
#ifdef HALO_HOST_ASAN
    const void *bottom;
    size_t n_bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &n_bytes);
    if (l->here.tid == 0) { /* called on the main stack, whose bounds are known from nowhere else */
        l->main.stack = static_cast<char *>(const_cast<void *>(bottom));
        l->main.stack_bytes = n_bytes;
    }
#endif
#ifdef HALO_HOST_TSAN
    __tsan_acquire(&l->begin);
#endif
    l->kernel->entry(l->args);
#ifdef HALO_HOST_TSAN
    __tsan_release(&l->end);
#endif
    wave *w = &l->waves[l->here.wave];
    w->live &= ~(1u << l->here.lane);
    w->runnable &= ~(1u << l->here.lane);
    l->n_live--;
    complete_wave(w);
    complete_barrier(l);
    next(l, true);
    abort();
}

/* Prepares the stack of a fiber as if it had been switched away from at the entry of fiber_main. */
HALO_NO_TSAN int fiber_prepare(launch *l, uint32_t tid)
{
    fiber *f = &l->fibers[tid];
    if (!f->stack) {
        f->stack = map_stack();
        if (!f->stack)
            return -ENOMEM;
        f->stack_bytes = STACK_BYTES;
        *reinterpret_cast<launch **>(f->stack) = l;
#ifdef HALO_HOST_TSAN
        f->tsan = __tsan_create_fiber(0);
#endif
    }
    /* Frames at the same distance from a multiple of 512 KiB would take turns in a few sets of the caches. */
    char *top = f->stack + STACK_BYTES - tid % WAVE * 128 - tid / WAVE * 4096;
#ifdef HALO_HOST_ASAN
    /* Functions that returned have removed their own marks: what is left are the frames at the top, of fiber_main and
     * the last switch. */
    ASAN_UNPOISON_MEMORY_REGION(top - LAST_FRAMES_BYTES, LAST_FRAMES_BYTES);
    f->asan = nullptr;
#endif
    void **sp = reinterpret_cast<void **>(top);
    *--sp = nullptr; /* where fiber_main would return to */
    *--sp = reinterpret_cast<void *>(fiber_main);
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    f->sp = sp;
    return 0;
}

HALO_NO_TSAN int block_run(launch *l)
{
    for (uint32_t i = 0; i < l->n_waves; i++) {
        wave *w = &l->waves[i];
        w->live = w->runnable = w->waiting = w->generation = 0;
        w->present[0] = w->tiles[0].arrived = 0;
    }
    memset(l->at_barrier, 0, sizeof(l->at_barrier));
    for (uint32_t i = 0; i < l->n_threads; i++) {
        if (fiber_prepare(l, i) < 0)
            return fail(l->reason, -ENOMEM, "%s: no memory for the stacks of %u threads", l->kernel->name,
                        l->n_threads);
        l->waves[i / WAVE].live |= 1u << i % WAVE;
        l->waves[i / WAVE].runnable |= 1u << i % WAVE;
    }
    l->n_live = l->n_threads;
    l->n_at_barrier = l->generation = l->lds_bytes = 0;
    l->here.tid = l->here.lane = l->here.wave = 0;
#ifdef HALO_HOST_TSAN
    l->main.tsan = __tsan_get_current_fiber();
    __tsan_release(&l->begin);
#endif
#ifdef HALO_HOST_ASAN
    __sanitizer_start_switch_fiber(&l->main.asan, l->fibers[0].stack, STACK_BYTES);
#endif
#ifdef HALO_HOST_TSAN
    __tsan_switch_to_fiber(l->fibers[0].tsan, 1);
#endif
    halo_host_swap(&l->main.sp, l->fibers[0].sp);
#ifdef HALO_HOST_ASAN
    __sanitizer_finish_switch_fiber(l->main.asan, nullptr, nullptr);
    ASAN_UNPOISON_MEMORY_REGION(l->lds, LDS_BYTES);
#endif
#ifdef HALO_HOST_TSAN
    __tsan_acquire(&l->end);
#endif
    if (l->error)
        fail(l->reason, l->error,
             "%s: a tile whose lanes 16 to 31 do not repeat lanes 0 to 15, or that some do not reach", l->kernel->name);
    if (l->n_live > 0) {
        say_deadlock(l);
        forget_frames(l);
    }
    return l->error;
}

/* The launch of this OS thread, or NULL without memory. */
launch *launch_get(void)
{
    if (!owned.l) {
        owned.l = new (std::nothrow) launch;
        if (owned.l && !(owned.l->lds = map(LDS_BYTES))) {
            delete owned.l;
            owned.l = nullptr;
        }
    }
    return owned.l;
}

} // namespace

bool halo_host_register(halo_host_kernel *kernel)
{
    kernel->next = kernels;
    kernels = kernel;
    return true;
}

/* NaNs, and indices that are out of bounds. A loop instead of memset, which ThreadSanitizer would count as an access
 * by the first thread. */
HALO_NO_TSAN static void lds_fill(char *lds, uint32_t n_bytes)
{
#ifdef HALO_HOST_TSAN
    for (volatile char *p = lds; p < lds + n_bytes; p++)
        *p = static_cast<char>(0xff);
#else
    memset(lds, 0xff, n_bytes);
#endif
}

HALO_NO_TSAN void *halo_host_lds(uint32_t n_bytes)
{
    launch *l = current();
    if (l->lds_bytes == 0) {
        l->lds_bytes = n_bytes;
        lds_fill(l->lds, n_bytes);
#ifdef HALO_HOST_ASAN
        ASAN_POISON_MEMORY_REGION(l->lds + n_bytes, LDS_BYTES - n_bytes);
#endif
    }
    if (l->lds_bytes != n_bytes || n_bytes > LDS_BYTES)
        abort(); /* a second object, or one that is too large: no GPU kernel can be built so */
    return l->lds;
}

HALO_NO_TSAN void halo_host_barrier(void)
{
    launch *l = current();
    uint32_t generation = l->generation;
    wave *w = &l->waves[l->here.wave];
#ifdef HALO_HOST_TSAN
    __tsan_release(&l->barrier[generation & 1]);
#endif
    w->runnable &= ~(1u << l->here.lane);
    l->at_barrier[l->here.wave] |= 1u << l->here.lane;
    l->n_at_barrier++;
    complete_barrier(l);
    if (l->generation == generation)
        next(l, false);
#ifdef HALO_HOST_TSAN
    __tsan_acquire(&l->barrier[generation & 1]);
#endif
}

/* Waits for the other lanes of the wave. Returns which of the two sets of values they have filled. */
HALO_NO_TSAN static inline uint32_t meet(launch *l, wave *w)
{
    uint32_t bit = 1u << l->here.lane, generation = w->generation, side = generation & 1;
    w->present[side] |= bit;
#ifdef HALO_HOST_TSAN
    __tsan_release(&w->meeting[side]);
#endif
    w->runnable &= ~bit;
    w->waiting |= bit;
    complete_wave(w);
    if (w->generation == generation)
        next(l, false);
#ifdef HALO_HOST_TSAN
    __tsan_acquire(&w->meeting[side]);
#endif
    return side;
}

HALO_NO_TSAN int halo_host_exchange(int value, uint32_t lane)
{
    launch *l = current();
    wave *w = &l->waves[l->here.wave];
    w->value[w->generation & 1][l->here.lane] = value;
    uint32_t side = meet(l, w);
    lane %= WAVE;
    return w->present[side] >> lane & 1 ? w->value[side][lane] : 0x7fc0dead;
}

HALO_NO_TSAN halo_acc halo_host_mma(const halo_frag &x, const halo_frag &y, halo_acc c)
{
    launch *l = current();
    wave *w = &l->waves[l->here.wave];
    uint32_t lane = l->here.lane;
    tile *t = &w->tiles[w->generation & 1];
    t->arrived |= 1u << lane;
    t->x[lane] = x;
    t->y[lane] = y;
    for (uint32_t k = 0; lane < 16 && k < 16; k++)
        t->rows[lane % 2][k][lane / 8][lane / 2 % 4] = halo_half_float(x.e[k]);
    (void)meet(l, w);
    if (t->arrived != UINT32_MAX || memcmp(&t->x[lane ^ 16], &x, sizeof(x)) != 0 ||
        memcmp(&t->y[lane ^ 16], &y, sizeof(y)) != 0) {
        l->error = -EINVAL; /* block_run says why */
        for (float &f : c.e)
            f = NAN;
        return c;
    }
    four low, high; /* rows halo_mma_row(0) to (3), (4) to (7) */
    memcpy(&low, c.e, sizeof(low));
    memcpy(&high, c.e + 4, sizeof(high));
    for (int k = 0; k < 16; k++) {
        const float own = halo_half_float(y.e[k]);
        low += t->rows[lane / 16][k][0] * own;
        high += t->rows[lane / 16][k][1] * own;
    }
    memcpy(c.e, &low, sizeof(low));
    memcpy(c.e + 4, &high, sizeof(high));
    return c;
}

extern "C" __attribute__((visibility("default"))) const halo_host_kernel *halo_host_kernel_find(const char *name)
{
    const halo_host_kernel *kernel = kernels;
    while (name && kernel && strcmp(kernel->name, name) != 0)
        kernel = kernel->next;
    return kernel;
}

/* A GPU runs blocks in any order. In ascending order a block that overwrites what an earlier one has read would go
 * unnoticed. */
static bool runs_backwards(void)
{
    const char *text = getenv("HALO_HIP_EMU_BACKWARDS");
    return text && strcmp(text, "1") == 0;
}

extern "C" __attribute__((visibility("default"))) int halo_host_kernel_run(const halo_host_kernel *kernel,
                                                                           const uint32_t grid[3],
                                                                           const uint32_t block[3], void **args,
                                                                           char *reason)
{
    if (block[0] != kernel->block || block[1] != 1 || block[2] != 1)
        return fail(reason, -EINVAL, "%s: launched with %u x %u x %u threads, made for %u", kernel->name, block[0],
                    block[1], block[2], kernel->block);
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] > 65535 || grid[2] > 65535)
        return fail(reason, -EINVAL, "%s: grid of %u x %u x %u blocks", kernel->name, grid[0], grid[1], grid[2]);
    launch *l = launch_get();
    if (!l)
        return fail(reason, -ENOMEM, "%s: no memory for a launch", kernel->name);
    l->kernel = kernel;
    l->args = args;
    l->reason = reason;
    l->n_threads = block[0];
    l->n_waves = (block[0] + WAVE - 1) / WAVE;
    l->error = 0;
    const bool backwards = runs_backwards();
    for (uint32_t z = 0; z < grid[2]; z++)
        for (uint32_t y = 0; y < grid[1]; y++)
            for (uint32_t x = 0; x < grid[0]; x++) {
                l->here.block[0] = backwards ? grid[0] - 1 - x : x;
                l->here.block[1] = backwards ? grid[1] - 1 - y : y;
                l->here.block[2] = backwards ? grid[2] - 1 - z : z;
                int error = block_run(l);
                if (error)
                    return error;
            }
    return 0;
}
